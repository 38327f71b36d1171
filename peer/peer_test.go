package peer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"headroom/agent"
	"headroom/change"
	"headroom/check"
	"headroom/metric"
	"headroom/topic/postgres"
)

var at = time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)

func finding(summary string, value any) check.Finding {
	return check.Finding{Check: "postgres.fsync", Subject: "server", Severity: check.Danger, Basis: check.ByRule, Summary: summary,
		Evidence: []check.Cite{{Name: "fsync", Value: value, Source: "pg_settings"}}, Fixes: []change.Spec{{ID: "postgres.setting", Args: map[string]string{"fsync": "on"}}}}
}

func findings(list ...check.Finding) Document {
	return Document{Kind: Findings, Host: "db2", At: at, Inspections: []Inspection{{Host: "db2", Server: "5432", At: at, Outcome: check.Outcome{Findings: list}}}}
}

func encode(t *testing.T, d Document) []byte {
	t.Helper()
	b, err := Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWhatIsToldComesAsItWas(t *testing.T) {
	wait := 3.5
	for _, d := range []Document{
		findings(finding("fsync is off", "off"), finding("much", 12.0)),
		{Kind: Targets, Host: "db2", At: at, Targets: []agent.Target{{Kind: metric.Postgres, Name: "5432", Found: "socket", DSN: "password=hush"}}},
		{Kind: Gaps, Host: "db2", At: at, Gaps: []metric.Gap{{Collector: "postgres.statements", Metrics: []string{"a", "b"}, Server: "5432", Because: "not there", Hint: "CREATE EXTENSION pg_stat_statements"}}},
		{Kind: Sessions, Host: "db2", At: at, Server: "5432", Sessions: []postgres.Session{{PID: 7, State: "active", Statement: &wait, Query: "select\n\t1"}}},
		{Kind: Sessions, Host: "db2", At: at, Server: "5432", Why: "no answer"},
	} {
		body := encode(t, d)
		if strings.Contains(string(body), "hush") {
			t.Errorf("a password is told: %s", body)
		}
		got, err := Decode(body)
		if err != nil {
			t.Errorf("%s: %v", d.Kind, err)
			continue
		}
		if again := encode(t, *got); string(again) != string(body) {
			t.Errorf("%s\n%s", body, again)
		}
	}
}

// What would not be taken is mended before it is sent: a strange name of an
// application must not keep all that a host has to say from being told.
func TestEncodeMends(t *testing.T) {
	d := findings(finding("a\x00b\x1b[2J\u202e"+string([]byte{0xff}), []int{1, 2}), finding(strings.Repeat("ä", maxText), "x"))
	got, err := Decode(encode(t, d))
	if err != nil {
		t.Fatal(err)
	}
	f := got.Inspections[0].Outcome.Findings
	if s := f[0].Summary; s != "a b [2J \uFFFD" || f[0].Evidence[0].Value != "[1 2]" {
		t.Errorf("%q %v", s, f[0].Evidence[0].Value)
	}
	if s := f[1].Summary; len(s) > maxText || !strings.HasSuffix(s, "ä …") {
		t.Errorf("a long text has %d bytes and ends in %q", len(s), s[len(s)-8:])
	}
}

// A list that is too long is told as far as it goes, and says so.
func TestEncodeShortens(t *testing.T) {
	d := Document{Kind: Gaps, Host: "db2", At: at}
	for i := range 5000 {
		d.Gaps = append(d.Gaps, metric.Gap{Collector: fmt.Sprint("c", i), Because: strings.Repeat("x", 1000)})
	}
	got, err := Decode(encode(t, d))
	if err != nil {
		t.Fatal(err)
	}
	last := got.Gaps[len(got.Gaps)-1]
	if len(got.Gaps) < 100 || last.Collector != "headroom" || !strings.Contains(last.Because, "more gaps are not told") {
		t.Errorf("%d gaps, the last: %+v", len(got.Gaps), last)
	}
	if len(d.Gaps) != 5000 || d.Gaps[999].Collector != "c999" {
		t.Error("the caller's list was altered")
	}
}

// Hostile and mistaken documents are refused by the name of the field.
func TestDecodeRefuses(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	many := strings.TrimSuffix(strings.Repeat(`{"pid":1},`, 501), ",")
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	const head = `{"version":1,"host":"db2","at":"2026-11-21T14:00:00Z",`
	const found = head + `"kind":"findings","inspections":[{"host":"db2","at":"2026-11-21T14:00:00Z","seconds":1,"outcome":{"findings":[%s]}}]}`
	for _, c := range []struct{ name, text, want string }{
		{"nothing", ``, "read document"},
		{"no object", `[]`, "read document"},
		{"another version", `{"version":2,"news":true}`, "version 2"},
		{"no version", `{"kind":"gaps"}`, "version 0"},
		{"unknown kind", head + `"kind":"secrets"}`, `kind: "secrets"`},
		{"unknown field", head + `"kind":"gaps","gaps":[{"collector":"c","because":"b","sql":"drop"}]}`, `unknown field "sql"`},
		{"wrong type", head + `"kind":"gaps","gaps":[{"collector":7}]}`, "gaps.collector"},
		{"two objects", head + `"kind":"gaps"}{}`, "after top-level value"},
		{"field of another kind", head + `"kind":"gaps","inspections":[{"host":"db2"}]}`, "findings: not part"},
		{"no host", `{"version":1,"kind":"gaps","at":"2026-11-21T14:00:00Z"}`, "host:"},
		{"long host", `{"version":1,"kind":"gaps","at":"2026-11-21T14:00:00Z","host":"` + long[:300] + `"}`, "host:"},
		{"host with a control character", `{"version":1,"kind":"gaps","at":"2026-11-21T14:00:00Z","host":"db2\u001b[2J"}`, "host: text with control"},
		{"no time", `{"version":1,"kind":"gaps","host":"db2"}`, "at:"},
		{"escape in a gap", head + `"kind":"gaps","gaps":[{"collector":"c","because":"b","hint":"\u0007"}]}`, "gaps[0].hint: text with control"},
		{"NUL", head + `"kind":"gaps","gaps":[{"collector":"c","because":"b\u0000"}]}`, "gaps[0].because: text with control"},
		{"text that is turned around", head + `"kind":"gaps","gaps":[{"collector":"c","metrics":["a","\u202e"],"because":"b"}]}`, "gaps[0].metrics[1]: text with control"},
		{"long text", head + `"kind":"gaps","gaps":[{"collector":"c","because":"` + long + `"}]}`, "gaps[0].because: text of 8193 bytes"},
		{"many sessions", head + `"kind":"sessions","server":"x","sessions":[` + many + `]}`, "sessions: a list of 501"},
		{"sessions of nothing", head + `"kind":"sessions","sessions":[]}`, "server:"},
		{"severity", fmt.Sprintf(found, `{"severity":"apocalypse"}`), `severity "apocalypse"`},
		{"evidence that is an object", fmt.Sprintf(found, `{"severity":"note","evidence":[{"name":"a","value":{"b":1},"source":"s"}]}`), "findings[0].evidence[0].value: want one"},
		{"evidence that is deep", fmt.Sprintf(found, `{"severity":"note","evidence":[{"name":"a","value":`+deep+`,"source":"s"}]}`), "read document"},
		{"evidence with an escape", fmt.Sprintf(found, `{"severity":"note","evidence":[{"name":"a","value":"\u001b","source":"s"}]}`), "evidence[0].value: text with control"},
		{"fix with an escape", fmt.Sprintf(found, `{"severity":"note","fixes":[{"id":"a","args":{"x":"\u001b"}}]}`), "fixes[0].args.x: text with control"},
		{"huge", `{"version":1,"x":"` + strings.Repeat("x", MaxBytes) + `"}`, "bytes, at most"},
		{"huge number", fmt.Sprintf(found, `{"severity":"note","worth":1e999}`), "worth"},
	} {
		_, err := Decode([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
	if _, err := Decode([]byte(`{"version":9}`)); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	b, err := Encode(findings(finding("fsync is off", "off")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"kind":"sessions","host":"a","at":"2026-11-21T14:00:00Z","server":"x","sessions":[{"pid":1,"blocked_by":[2]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := Decode(body)
		if err != nil {
			return
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatalf("taken and cannot be written: %v", err)
		}
		if _, err := decode(text); err != nil {
			t.Fatalf("taken, and not as it is given out: %v", err)
		}
	})
}

// clock is a time that the test moves.
type clock struct{ now time.Time }

func book(o Options) (*Book, *clock) {
	c := &clock{at}
	o.Now = func() time.Time { return c.now }
	return NewBook(o), c
}

func tell(t *testing.T, b *Book, d Document) error {
	t.Helper()
	body := encode(t, d)
	got, err := Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	return b.Put(got, body)
}

func TestSilenceAndForgetting(t *testing.T) {
	b, c := book(Options{Own: "here"})
	if err := tell(t, b, findings(finding("x", 1.0))); err != nil {
		t.Fatal(err)
	}
	b.Heard("web1")
	b.Heard("here")
	b.Heard("bad\x1bname")
	if all := b.Hosts(); len(all) != 2 || all[0].Name != "db2" || !all[0].Silent.IsZero() || !all[0].Told[Findings].Equal(at) || all[1].Program != "" {
		t.Errorf("%+v", all)
	}
	c.now = at.Add(3 * time.Minute)
	b.Heard("web1")
	if h, _ := b.Host("db2"); !h.Silent.Equal(at) {
		t.Errorf("silent since %s, want %s", h.Silent, at)
	}
	if told, ok := b.Told("db2", Findings); !ok || !told.Received.Equal(at) {
		t.Error("what a silent host told is forgotten")
	}
	c.now = at.Add(15 * 24 * time.Hour)
	if all := b.Hosts(); len(all) != 0 || b.bytes != 0 {
		t.Errorf("after two weeks: %+v, %d bytes", all, b.bytes)
	}
	d := findings()
	d.Host = "here"
	if err := tell(t, b, d); !errors.Is(err, ErrOwn) {
		t.Errorf("another speaks in our name: %v", err)
	}
}

func TestTheBookIsBounded(t *testing.T) {
	b, c := book(Options{Hosts: 3, Bytes: 1000})
	for i := range 5 {
		b.Heard(fmt.Sprint("h", i))
	}
	if n := len(b.Hosts()); n != 3 {
		t.Errorf("%d hosts", n)
	}
	d := findings()
	if err := tell(t, b, d); !errors.Is(err, ErrRoom) {
		t.Errorf("a fourth host: %v", err)
	}
	d.Host = "h1"
	noise := make([]byte, 300)
	_, _ = rand.Read(noise)
	d.Inspections[0].Outcome.Findings = []check.Finding{finding(hex.EncodeToString(noise), 1.0)}
	for range 3 { // each takes the place of the one before
		if err := tell(t, b, d); err != nil {
			t.Fatal(err)
		}
	}
	d.Host = "h2"
	if err := tell(t, b, d); !errors.Is(err, ErrRoom) {
		t.Errorf("over the bytes of all: %v", err)
	}
	c.now = at.Add(15 * 24 * time.Hour)
	if err := tell(t, b, findings()); err != nil {
		t.Errorf("the silent make no room: %v", err)
	}
	b, _ = book(Options{})
	for i := range maxServers + 10 {
		err := tell(t, b, Document{Kind: Sessions, Host: "db2", At: at, Server: fmt.Sprint(i)})
		if (err != nil) != (i >= maxServers+4) {
			t.Fatalf("server %d: %v", i, err)
		}
	}
}

func TestWhoLooksIsTold(t *testing.T) {
	b, c := book(Options{})
	b.Look("db2", "5432")
	if b.Wanted("db2") != nil || len(b.Hosts()) != 0 {
		t.Error("a look makes a host")
	}
	b.Heard("db2")
	if b.Wanted("db2") != nil {
		t.Error("nobody looks")
	}
	b.Look("db2", "")
	if l := b.Wanted("db2"); l == nil || l.Seconds != 20 || l.Sessions != nil {
		t.Errorf("%+v", l)
	}
	for i := range 50 {
		b.Look("db2", fmt.Sprint(i))
	}
	if l := b.Wanted("db2"); len(l.Sessions) != maxLooks {
		t.Errorf("%d servers are asked for", len(l.Sessions))
	}
	c.now = at.Add(LookFor + time.Second)
	if b.Wanted("db2") != nil {
		t.Error("a look lasts for ever")
	}
}

func TestSessionsAreOfNow(t *testing.T) {
	b, c := book(Options{})
	b.Heard("db2")
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	got := make(chan bool, 1)
	go func() {
		_, ok := b.WaitSessions(ctx, "db2", "5432")
		got <- ok
	}()
	for b.Wanted("db2") == nil {
		time.Sleep(time.Millisecond)
	}
	for _, d := range []Document{findings(), {Kind: Sessions, Host: "db2", At: at, Server: "5432", Sessions: []postgres.Session{{PID: 1}}}} {
		if err := tell(t, b, d); err != nil {
			t.Fatal(err)
		}
	}
	if !<-got {
		t.Error("the list that came is not given out")
	}
	if _, ok := b.SessionsNow("db2", "5432"); !ok {
		t.Error("a list of now is not given out")
	}
	c.now = at.Add(Fresh + time.Second)
	if _, ok := b.SessionsNow("db2", "5432"); ok {
		t.Error("an old list is given out as of now")
	}
	if list := b.Unkept(); len(list) != 1 || list[0].Kind != Findings {
		t.Errorf("to be kept: %+v", list)
	}
}

func TestKeptAndRestored(t *testing.T) {
	b, c := book(Options{})
	if err := tell(t, b, findings(finding("old", 1.0))); err != nil {
		t.Fatal(err)
	}
	list := b.Unkept()
	c.now = at.Add(time.Second)
	if err := tell(t, b, findings(finding("new", 1.0))); err != nil {
		t.Fatal(err)
	}
	b.IsKept(list)
	if len(b.Unkept()) != 1 {
		t.Error("what came while the store wrote counts as kept")
	}
	b.IsKept(b.Unkept())
	if len(b.Unkept()) != 0 {
		t.Error("what is kept is kept again")
	}
	b, _ = book(Options{})
	other := list[0]
	other.Host = "liar"
	b.Restore([]Kept{list[0], other, {Host: "db3", Kind: Gaps, Body: []byte("junk")}})
	if all := b.Hosts(); len(all) != 1 || all[0].Name != "db2" || !all[0].Heard.Equal(at) || len(b.Unkept()) != 0 {
		t.Errorf("%+v", all)
	}
	if err := tell(t, b, findings(finding("newest", 1.0))); err != nil {
		t.Fatal(err)
	}
	b.Restore(list)
	if told, _ := b.Told("db2", Findings); told.Inspections[0].Outcome.Findings[0].Summary != "newest" {
		t.Error("the store's copy wins over what was told since")
	}
}
