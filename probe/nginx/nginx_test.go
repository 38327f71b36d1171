package nginx

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headroom/host"
)

func TestLookFindsPagesAndLogs(t *testing.T) {
	r := &host.Fake{Files: map[string]string{
		"/etc/nginx/nginx.conf": `
# a comment with { braces } ; and "quotes
user www-data; worker_processes auto;
http {
	log_format main '$remote_addr - $status';
	log_format up escape=json '{"s":"$status","rt":"$request_time","a":"${upstream_addr}",'
		'"t":"$upstream_response_time"}';
	access_log /var/log/nginx/access.log main buffer=32k;
	map $http_upgrade $x { default upgrade; '' close; }
	include conf.d/*.conf;
	include /etc/nginx/none/*.conf;
}
stream { server { listen 5433; } }`,
		"/etc/nginx/conf.d/a.conf": `
server { listen 10.0.0.1:80; listen [::1]:81; location /s { stub_status on; } }
server {
	listen 443 ssl; server_name *.example.com ~^x$ www.example.com;
	access_log /var/log/nginx/up.log up;
	location / {
		proxy_pass http://backend; access_log logs/deep.log up if=$loggable;
		location ~ "^/status\d{2}" { stub_status; }
		location ^~ /inner { stub_status; }
	}
}`,
		"/etc/nginx/conf.d/b.conf": `server { listen unix:/run/nginx.sock; location = /st { allow 127.0.0.1; deny all; stub_status; } access_log off; access_log syslog:server=x up; access_log /x/$host.log up; access_log /x.gz up gzip; }
server { location /eighty { stub_status; } }`,
	}}
	c, err := Look(r, Usual)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"http://[::1]:81/s", "unix:/run/nginx.sock:/st", "http://127.0.0.1:80/eighty", "https://www.example.com:443/inner"}
	if !slices.Equal(c.Status, want) {
		t.Errorf("status pages = %q, want %q", c.Status, want)
	}
	var logs []string
	for _, l := range c.Logs {
		logs = append(logs, l.Path)
	}
	if want := []string{"/var/log/nginx/up.log", "/usr/share/nginx/logs/deep.log"}; !slices.Equal(logs, want) || c.Others != 2 {
		t.Errorf("logs = %q and %d others, want %q and 2", logs, c.Others, want)
	}
}

func TestBrokenConfigurationsAreErrors(t *testing.T) {
	for name, text := range map[string]string{
		"open block": "http {", "extra brace": "}", "no directive": "http { ; }", "no end": "user x", "loop": "include /etc/nginx/nginx.conf;",
		"deep": strings.Repeat("a {", 50) + strings.Repeat("}", 50),
	} {
		r := &host.Fake{Files: map[string]string{Usual: text}}
		if c, err := Look(r, Usual); err == nil {
			t.Errorf("%s: taken as %+v", name, c)
		}
	}
}

func TestLinesAreParsed(t *testing.T) {
	const ours = `$msec $request_method $status $request_time $bytes_sent "$upstream_addr" "$upstream_status" "$upstream_connect_time" "$upstream_header_time" "$upstream_response_time"`
	const spaced = `$remote_addr $upstream_addr $upstream_response_time $request_time $status "$http_user_agent"`
	for _, c := range []struct {
		format, line string
		want         *Request
	}{
		{ours, `1.5 GET 200 0.010 612 "127.0.0.1:9000" "200" "0.001" "0.008" "0.009"`,
			&Request{200, 0.01, 612, []Attempt{{"127.0.0.1:9000", 200, 0.001, 0.008, 0.009}}}},
		{ours, `1.5 POST 502 1.2 0 "a:1, unix:/run/b.sock : c:3" "504, 502 : -" "0.5, - : -" "-, - : -" "1.0, 0.0 : -"`,
			&Request{502, 1.2, 0, []Attempt{{"a:1", 504, 0.5, 0, 1}, {"unix:/run/b.sock", 502, 0, 0, 0}, {"c:3", 0, 0, 0, 0}}}},
		{ours, `1.5 GET 304 0.000 180 "-" "-" "-" "-" "-"`, &Request{304, 0, 180, nil}},
		{spaced, `::1 a:1, b:2 : c:3 0.1, 0.2 : 0.3 0.6 200 "curl \x22x\x22"`,
			&Request{200, 0.6, 0, []Attempt{{Addr: "a:1", Answer: 0.1}, {Addr: "b:2", Answer: 0.2}, {Addr: "c:3", Answer: 0.3}}}},
		{ours, `1.5 GET abc 0.010 612 "x" "200" "0.001" "0.008" "0.009"`, nil},
		{ours, `1.5 GET 200 NaN 612 "x" "200" "0.001" "0.008" "0.009"`, nil},
		{ours, `1.5 GET 200 -1 612 "x" "200" "0.001" "0.008" "0.009"`, nil},
		{ours, `1.5 GET 200 0.010 612 "x" "200" "0.001"`, nil},
		{ours, `1.5 GET 200 0.010 612 "x" "200" "0.001" "0.008" "0.009" more`, nil},
		{ours, ``, nil},
	} {
		f := ParseFormat(c.format)
		if !f.Usable() {
			t.Fatalf("format %q is not usable", c.format)
		}
		var r Request
		ok := NewParser(f).Parse(c.line, &r)
		if ok != (c.want != nil) {
			t.Errorf("%q: parsed %v", c.line, ok)
			continue
		}
		if ok && (len(r.Attempts) != len(c.want.Attempts) || len(r.Attempts) > 0 && !reflect.DeepEqual(r, *c.want) || r.Status != c.want.Status || r.Bytes != c.want.Bytes) {
			t.Errorf("%q = %+v, want %+v", c.line, r, *c.want)
		}
	}
	for _, bad := range []string{"$status$request_time $upstream_addr $upstream_response_time", "$status $request_time", "", "no variables", "$", "${status"} {
		if ParseFormat(bad).Usable() {
			t.Errorf("format %q is said to be usable", bad)
		}
	}
}

// tailing follows a log below a folder that stands for the machine.
type tailing struct {
	t    *testing.T
	dir  string
	r    host.Reader
	tail Tail
}

func newTailing(t *testing.T) *tailing {
	dir := t.TempDir()
	return &tailing{t: t, dir: dir, r: host.Open(host.Options{Root: dir}), tail: Tail{Path: "/access.log"}}
}

func (x *tailing) add(name, text string) {
	x.t.Helper()
	f, err := os.OpenFile(filepath.Join(x.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		f.Close()
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *tailing) do(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *tailing) want(budget int, want ...string) {
	x.t.Helper()
	var got []string
	if _, err := x.tail.More(x.t.Context(), x.r, budget, func(l string) { got = append(got, strings.Clone(l)) }); err != nil {
		x.t.Error(err)
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("lines = %q, want %q", got, want)
	}
}

func TestTailFollows(t *testing.T) {
	const all = 1 << 20
	x := newTailing(t)
	x.add("access.log", "old\n")
	x.want(all)
	x.add("access.log", "one\ntwo\nthr")
	x.want(all, "one", "two")
	x.add("access.log", "ee\n")
	x.want(all, "three")
	// Rotation by renaming: the old file is read to its end first.
	x.do(os.Rename(filepath.Join(x.dir, "access.log"), filepath.Join(x.dir, "access.log.1")))
	x.want(all)
	x.add("access.log.1", "four\n")
	x.add("access.log", "five\n")
	x.want(all, "four", "five")
	// Rotation by copying and cutting.
	x.do(os.Truncate(filepath.Join(x.dir, "access.log"), 0))
	x.add("access.log", "6\n")
	x.want(all, "6")
	// Rotated and removed at once: what is new is read from its start.
	x.do(os.Remove(filepath.Join(x.dir, "access.log")))
	x.add("other", "keeps the inode from being used again\n")
	x.add("access.log", "seven\n")
	x.want(all, "seven")
	x.want(all)
}

func TestTailIsBounded(t *testing.T) {
	x := newTailing(t)
	x.add("access.log", "")
	x.want(1)
	var lines []string
	var text strings.Builder
	for i := range 50_000 {
		lines = append(lines, fmt.Sprintf("line %d of a log that grew by more than one round may read", i))
		text.WriteString(lines[i] + "\n")
	}
	x.add("access.log", text.String())
	got, rounds := 0, 0
	for ; got < len(lines) && rounds < 100; rounds++ {
		size := 0
		_, err := x.tail.More(t.Context(), x.r, 500_000, func(l string) {
			if l != lines[got] {
				t.Fatalf("line %d = %q", got, l)
			}
			got++
			size += len(l) + 1
		})
		if err != nil || size > 600_000 {
			t.Fatalf("a round read %d bytes: %v", size, err)
		}
	}
	if got != len(lines) || rounds < 5 {
		t.Errorf("%d lines in %d rounds", got, rounds)
	}
	x.add("access.log", strings.Repeat("x", 3<<20)+"\nafter\n")
	x.want(16<<20, "after")
	if x.tail.Skipped < 3<<20 {
		t.Errorf("skipped = %v: a line that is too long must be counted", x.tail.Skipped)
	}
	// Far behind: a sparse file stands for a log that grew by 300 MB.
	x.do(os.Truncate(filepath.Join(x.dir, "access.log"), 400<<20))
	before := x.tail.Skipped
	x.want(1 << 20)
	if x.tail.Skipped < before+300e6 {
		t.Errorf("skipped = %v, want over 300 MB more than %v", x.tail.Skipped, before)
	}
	x.add("access.log", "\nat last\n")
	x.want(1<<20, "at last")
}

func FuzzConfig(f *testing.F) {
	f.Add(`http { log_format x '$status $request_time'; server { listen 80; location /s { stub_status; } } }`)
	f.Add(`a "b\"c" 'd' ${e} \; { f; } # g`)
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = Look(&host.Fake{Files: map[string]string{Usual: text}}, Usual)
	})
}

func FuzzLine(f *testing.F) {
	f.Add(`$status $request_time "$upstream_addr" $upstream_response_time`, `200 0.1 "a, b : c" 0.1, 0.2 : 0.3`)
	f.Fuzz(func(t *testing.T, format, line string) {
		form := ParseFormat(format)
		if !form.Usable() {
			return
		}
		var r Request
		if NewParser(form).Parse(line, &r) && (r.Status <= 0 || r.Seconds < 0 || r.Seconds != r.Seconds) {
			t.Errorf("%+v", r)
		}
	})
}
