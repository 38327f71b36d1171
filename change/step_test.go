package change

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"headroom/host"

	"pgregory.net/rapid"
)

func TestStepsSurviveJSON(t *testing.T) {
	all := Steps{
		File{Path: "/etc/x", Content: "a\n", Mode: 0o600}, File{Path: "/etc/y", Absent: true},
		Value{Path: "/sys/x", Value: "1", Instead: "/sys/y"},
		Setting{Values: map[string]string{"a": "b"}, Reset: []string{"c"}, Restart: true},
		SQL{Name: "n", Do: "d", Back: "b", Check: "c", Gives: "g"},
		Unit{Name: "u.service", Active: "active", Enabled: "disabled"},
		Command{Name: "n", Do: []string{"a"}, Back: []string{"b"}, Check: []string{"c"}, Gives: "g"},
		Setting{},
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var back Steps
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(all, back) {
		t.Errorf("back = %+v, %v", back, err)
	}
	for _, bad := range []string{`[{}]`, `[{"kind":"shell"}]`, `[{"kind":"file","path":"/x","owner":1}]`, `[{"kind":7}]`, `[null]`, `[[]]`, `{}`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil || !strings.Contains(err.Error(), "read step") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestValueNormalForm(t *testing.T) {
	for in, want := range map[string]string{
		"[mq-deadline] none\n": "mq-deadline", "none [kyber]": "kyber", "4096\t87380  6291456\n": "4096 87380 6291456",
		"0x10": "16", "007": "7", "Y\n": "1", "[a] [b]": "[a] [b]", "": "", "always [madvise] never\n": "madvise", "-1": "-1",
		"99999999999999999999": "99999999999999999999", "0xzz": "0xzz", "[]": "[]",
	} {
		if got := chosen(in); got != want {
			t.Errorf("chosen(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestValueWithInstead(t *testing.T) {
	m := &host.Fake{Files: map[string]string{"/vm/dirty_bytes": "0\n", "/vm/dirty_ratio": "20\n"}}
	v := Value{Path: "/vm/dirty_bytes", Value: "1048576", Instead: "/vm/dirty_ratio"}
	before, err := v.Read(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	want, err := v.Want(ctx, m, before)
	if err != nil || want.Value != "1048576" || want.Stored["/vm/dirty_ratio"] != "0" {
		t.Errorf("want = %+v, %v", want, err)
	}
	if got := v.Undo(before); got != (Value{Path: "/vm/dirty_ratio", Value: "20", Instead: "/vm/dirty_bytes"}) {
		t.Errorf("undo = %+v", got)
	}
}

func TestFileKeepsBytesAndMode(t *testing.T) {
	w := host.Open(host.Options{Root: t.TempDir()})
	if err := w.WriteFile("/f", []byte("\xff\x00raw"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteFile("/.f.ABCDEFGH.tmp", []byte("left by a kill"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := newJournal(t)
	res, err := Apply(ctx, w, prepare(t, w, Change{Steps: Steps{File{Path: "/f", Content: "new"}}}), Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := w.Stat("/f"); err != nil || st.Mode.Perm() != 0o644 || st.Size != 3 {
		t.Errorf("applied: %+v, %v", st, err)
	}
	if left, _ := w.Glob("/.f*"); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := Revert(ctx, w, res.ID, Options{Journal: j}); err != nil {
		t.Fatal(err)
	}
	b, err := w.ReadFile("/f")
	if st, _ := w.Stat("/f"); err != nil || string(b) != "\xff\x00raw" || st.Mode.Perm() != 0o640 {
		t.Errorf("reverted: %q %v, %v", b, st.Mode, err)
	}
}

func TestListsAndLiterals(t *testing.T) {
	for in, want := range map[string]string{
		"pg_stat_statements,auto_explain": "'pg_stat_statements', 'auto_explain'",
		`"$user", public`:                 "'$user', 'public'",
		`"a ""b"" c" ,d`:                  `'a "b" c', 'd'`,
		`it's`:                            `'it''s'`,
		"":                                `''`,
	} {
		if got := literals("search_path", in); got != want {
			t.Errorf("literals(%q) = %s, want %s", in, got, want)
		}
	}
	if got := literals("log_line_prefix", `%m [%p] 'x' \`); got != `E'%m [%p] ''x'' \\'` {
		t.Errorf("plain literal = %s", got)
	}
	if got := listForm("search_path", ` "$user" ,Public`); got != `$user, "Public"` {
		t.Errorf("form = %s", got)
	}
}

func TestListFormIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once := listForm("search_path", rapid.String().Draw(t, "list"))
		if twice := listForm("search_path", once); once != twice {
			t.Fatalf("%q becomes %q", once, twice)
		}
	})
}

func TestServersForm(t *testing.T) {
	wal := guc{name: "max_wal_size", vartype: "integer", unit: "MB", low: "2", high: "2147483647"}
	buffers := guc{name: "shared_buffers", vartype: "integer", unit: "8kB", low: "16", high: "1073741823"}
	timeout := guc{name: "checkpoint_timeout", vartype: "integer", unit: "s", low: "30", high: "86400"}
	cost := guc{name: "random_page_cost", vartype: "real", low: "0", high: "1.79769e+308"}
	delay := guc{name: "autovacuum_vacuum_cost_delay", vartype: "real", unit: "ms", low: "-1", high: "100"}
	on := guc{name: "fsync", vartype: "bool"}
	level := guc{name: "wal_level", vartype: "enum", choices: []string{"minimal", "replica", "logical"}}
	for _, c := range []struct {
		g        guc
		in, want string
	}{
		{wal, "10GB", "10GB"}, {wal, "10240", "10GB"}, {wal, "1536MB", "1536MB"}, {wal, "0.5GB", "512MB"}, {wal, " 2 TB ", "2TB"},
		{buffers, "128MB", "128MB"}, {buffers, "17", "136kB"}, {buffers, "16384", "128MB"},
		{timeout, "300", "5min"}, {timeout, "0x3c", "1min"}, {timeout, "90s", "90s"}, {timeout, "1h", "1h"},
		{cost, "1.10", "1.1"}, {cost, "4", "4"}, {delay, "2ms", "2ms"}, {delay, "0.5", "500us"}, {delay, "-1", "-1"},
		{on, "TRUE", "on"}, {on, "of", "off"}, {level, "Logical", "logical"},
	} {
		if got, known, err := c.g.normal(c.in); got != c.want || !known || err != nil {
			t.Errorf("%s = %q: %q, %v, %v, want %q", c.g.name, c.in, got, known, err, c.want)
		}
	}
	for _, c := range []struct {
		g    guc
		in   string
		want string
	}{
		{wal, "1kB", "outside the valid range"}, {wal, "10gb", "valid units"}, {wal, "ten", "invalid value"}, {wal, "1_0", "invalid value"},
		{cost, "1s", "takes no unit"}, {on, "o", "Boolean"}, {level, "archive2", "available values"}, {wal, "", "invalid value"},
	} {
		if _, _, err := c.g.normal(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %q: %v, want %q", c.g.name, c.in, err, c.want)
		}
	}
}

func TestUnitAndCommand(t *testing.T) {
	m := &host.Fake{Files: map[string]string{}, Looked: map[string]string{
		"systemctl show --property=LoadState,ActiveState,UnitFileState -- x.service": "LoadState=loaded\nActiveState=inactive\nUnitFileState=disabled\n",
		"systemctl show --property=LoadState,ActiveState,UnitFileState -- s.service": "LoadState=loaded\nActiveState=active\nUnitFileState=static\n",
		"systemctl show --property=LoadState,ActiveState,UnitFileState -- n.service": "LoadState=not-found\n",
		"systemctl is-active y": "no\n",
	}}
	p := prepare(t, m, Change{Steps: Steps{Unit{Name: "x.service", Active: "active", Enabled: "enabled"},
		Command{Name: "y", Do: []string{"start", "y"}, Back: []string{"stop", "y"}, Check: []string{"systemctl", "is-active", "y"}, Gives: "yes"}}})
	if got := p.Steps()[0].Step.String(); got != "systemctl enable -- x.service; systemctl start -- x.service" {
		t.Errorf("does %q", got)
	}
	if got := p.Steps()[0].Undo.String(); got != "systemctl disable -- x.service; systemctl stop -- x.service" {
		t.Errorf("undo %q", got)
	}
	if got := p.Steps()[1].Undo.String(); got != "run stop y" {
		t.Errorf("undo %q", got)
	}
	for _, s := range []Step{Unit{Name: "s.service", Enabled: "disabled"}, Unit{Name: "n.service", Active: "active"},
		Command{Name: "z", Check: []string{"rm", "-rf", "/nowhere"}}} {
		if _, err := Prepare(ctx, m, Change{Steps: Steps{s}}); err == nil {
			t.Errorf("%s: planned", s.Object())
		}
	}
}
