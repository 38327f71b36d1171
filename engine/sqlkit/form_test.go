package sqlkit_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"headroom/engine/sqlkit"
	"headroom/testkit/need"
)

var forms = []string{"mac12", "mac", "uuid", "hex", "lower", "trimmed", "iso_time"}

func TestForms(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		for _, x := range []struct{ form, yes, no string }{
			{"mac12", "00163e5a0f1b", "00:16:3e:5a:0f:1b|00163E5A0F1B|00163e5a0f1|00163e5a0f1bb|00163e5a0f1g||00163e5a0f1b\n| 00163e5a0f1b|００163e5a0f1b"},
			{"mac", "00:16:3e:5a:0f:1b", "00163e5a0f1b|00:16:3E:5a:0f:1b|00-16-3e-5a-0f-1b"},
			{"uuid", "c0ffee00-1234-5678-9abc-def012345678", "C0FFEE00-1234-5678-9abc-def012345678|{c0ffee00-1234-5678-9abc-def012345678}|c0ffee00123456789abcdef012345678"},
			{"hex", "00ff|aa", "0|0x00|FF|"}, {"lower", "abc1 é||", "Abc|Z"}, {"trimmed", "a b||x", " a|a |a\n|\ta"},
			{"iso_time", "2026-11-21T13:05:00Z|2024-02-29T23:59:59.123456Z|2000-02-29T00:00:00Z|0004-02-29T00:00:00Z",
				"2026-11-21 13:05:00Z|2026-02-29T00:00:00Z|1900-02-29T00:00:00Z|2026-04-31T00:00:00Z|2026-13-01T00:00:00Z|2026-01-00T00:00:00Z|2026-01-01T24:00:00Z|2026-01-01T00:00:00+00|2026-01-01T00:00:60Z|2026-01-01T00:00:00.1234567Z"},
		} {
			for want, list := range map[string]string{"true": x.yes, "false": x.no} {
				for _, v := range strings.Split(list, "|") {
					if got := one(t, c, "select headroom.is_"+x.form+"($1)", v); got != want {
						t.Errorf("is_%s(%q) = %s", x.form, v, got)
					}
					condition := one(t, c, "select headroom._form($1, '$1::text')", x.form)
					if got := one(t, c, "select "+condition, v); got != want {
						t.Errorf("the constraint of %s says %s of %q", x.form, got, v)
					}
				}
			}
			if got := one(t, c, "select headroom.is_"+x.form+"(null)"); got != "-" {
				t.Errorf("is_%s(null) = %s", x.form, got)
			}
		}
		for _, v := range []string{"00:16:3E:5A:0F:1B", "0016.3e5a.0f1b", " 00-16-3e-5a-0f-1b "} {
			if got := one(t, c, "select headroom.mac12($1)", v); got != "00163e5a0f1b" {
				t.Errorf("mac12(%q) = %s", v, got)
			}
		}
		refused(t, c, "22P02", "select headroom.mac12('00:16:3e:5a:0f')")
	})
}

// TestIsoTimeAgrees: a text is of the form exactly if PostgreSQL reads it as
// the moment that prints so.
func TestIsoTimeAgrees(t *testing.T) {
	c := kit(t, 0)
	rapid.Check(t, func(r *rapid.T) {
		at := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(r, "second"), 0).UTC()
		if v := at.Format("2006-01-02T15:04:05Z"); one(r, c, "select headroom.is_iso_time($1)", v) != "true" {
			r.Fatalf("%s refused", v)
		}
		v := at.Format("2006-01-") + rapid.StringMatching(`[0-3][0-9]`).Draw(r, "day") + "T00:00:00Z"
		_, err := time.Parse("2006-01-02T15:04:05Z", v)
		if got := one(r, c, "select headroom.is_iso_time($1)", v); (got == "true") != (err == nil) {
			r.Fatalf("%s: %s, %v", v, got, err)
		}
	})
}

func TestAddCheck(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, `create table device (mac text, doc jsonb, n int, id uuid); insert into device values ('00163e5a0f1b', '{"mac": "00163e5a0f1b"}'), (null, '{}')`)
		must(t, c, "call headroom.add_check('device', 'mac', 'mac12')")
		must(t, c, "call headroom.add_check('device', 'mac', 'mac12')") // is there already
		must(t, c, "call headroom.add_check('device', 'doc', 'mac12', field => 'mac')")
		refused(t, c, "23514", "insert into device values ('00:16:3e:5a:0f:1b')")
		refused(t, c, "23514", `insert into device values (null, '{"mac": "X"}')`)
		if got := one(t, c, "select string_agg(conname || convalidated, ' ' order by conname) from pg_constraint where conrelid = 'device'::regclass and contype = 'c'"); got != "doc_mac_is_mac12true mac_is_mac12true" {
			t.Error(got)
		}
		must(t, c, `create table old (mac text); insert into old values ('00:16:3E:00:00:01'), ('it''s'), ('00163e5a0f1b')`)
		pe := refused(t, c, "23514", "call headroom.add_check('old', 'mac', 'mac12')")
		if !strings.Contains(pe.Message, "'00:16:3E:00:00:01'") || !strings.Contains(pe.Message, "'it''s'") || !strings.Contains(pe.Hint, "select * from old where not") {
			t.Errorf("%s\n%s", pe.Message, pe.Hint)
		}
		find := strings.TrimSuffix(pe.Hint[strings.Index(pe.Hint, "select"):], ";")
		if got := one(t, c, "select count(*) from ("+find+") s"); got != "2" {
			t.Errorf("%s finds %s", find, got)
		}
		refused(t, c, "23514", "insert into old values ('x')") // new rows are held to it already
		must(t, c, "delete from old where mac = 'it''s'; alter table old drop constraint mac_is_mac12; update old set mac = headroom.mac12(mac)")
		must(t, c, "call headroom.add_check('old', 'mac', 'mac12')")
		for call, state := range map[string]string{
			"'device', 'mca', 'mac12'": "42703", "'device', 'n', 'mac12'": "42804", "'device', 'id', 'uuid'": "42804", "'device', 'mac', 'lower', 'x'": "42804",
			"'device', 'mac', 'nope'": "22023", "'device', 'mac', null": "22023",
		} {
			refused(t, c, state, "call headroom.add_check("+call+")")
		}
		must(t, c, "begin")
		refused(t, c, "2D000", "call headroom.add_check('device', 'mac', 'lower')")
		must(t, c, "rollback")
		// The constraints do not need the kit.
		if _, err := sqlkit.Uninstall(t.Context(), c, false); err != nil {
			t.Fatal(err)
		}
		refused(t, c, "23514", "insert into device values ('00:16:3e:5a:0f:1b')")
	})
}

// TestAddCheckIsPolite: it gives up on a lock soon; and while the old rows are
// looked at, others write.
func TestAddCheckIsPolite(t *testing.T) {
	c := kit(t, 0)
	must(t, c, "create table device (mac text); insert into device select lpad(to_hex(i), 12, '0') from generate_series(1, 1000) i")
	busy, writer := again(t, c, "postgres"), again(t, c, "postgres")
	must(t, busy, "begin; select * from device")
	pe := refused(t, c, "55P03", "call headroom.add_check('device', 'mac', 'mac12', lock_wait => '1 s')")
	if !strings.Contains(pe.Hint, "less busy") {
		t.Errorf("%+v", pe)
	}
	must(t, busy, "commit")
	must(t, busy, "create function slow(text) returns boolean language plpgsql as 'begin perform pg_advisory_lock_shared(1); perform pg_advisory_unlock_shared(1); return true; end'; select pg_advisory_lock(1)")
	must(t, writer, "alter table device add constraint slow check (slow(mac)) not valid")
	validating := make(chan error, 1)
	go func() {
		_, err := c.Exec(t0, "alter table device validate constraint slow")
		validating <- err
	}()
	need.Eventually(t, 20*time.Second, "the validation waits in the function", func() bool {
		return one(t, writer, "select count(*) from pg_stat_activity where wait_event = 'advisory'") != "0"
	})
	must(t, writer, "set lock_timeout = '1s'; update device set mac = mac where false; delete from device where mac = '000000000001'")
	must(t, busy, "select pg_advisory_unlock(1)")
	if err := <-validating; err != nil {
		t.Error(err)
	}
}

func TestAddCheckHostileNames(t *testing.T) {
	c := kit(t, 0)
	rapid.Check(t, func(r *rapid.T) {
		table, col, field := hostile.Draw(r, "table"), hostile.Draw(r, "column"), hostile.Draw(r, "field")
		must(r, c, "drop schema if exists h cascade; create schema h; create table h."+quote(table)+" ("+quote(col)+" text, "+quote("doc"+col[:0])+" jsonb)")
		tbl := "h." + quote(table)
		if col == "doc" {
			r.Skip("the same name twice")
		}
		form := rapid.SampledFrom(forms).Draw(r, "form")
		must(r, c, "call headroom.add_check($1::regclass, $2, $3)", tbl, col, form)
		must(r, c, "call headroom.add_check($1::regclass, 'doc', $2, $3)", tbl, form, field)
		bad := map[string]string{"lower": "A", "trimmed": " "}[form]
		if bad == "" {
			bad = "?"
		}
		refused(r, c, "23514", "insert into "+tbl+" ("+quote(col)+") values ($1)", bad)
		refused(r, c, "23514", "insert into "+tbl+" (doc) values (jsonb_build_object($1::text, $2::text))", field, bad)
		must(r, c, "insert into "+tbl+" (doc) values (jsonb_build_object($1::text || 'x', $2::text))", field, bad)
	})
}
