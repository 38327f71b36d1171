package nginx

import (
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"

	"headroom/host"
)

// Config is what a configuration says of how nginx can be watched.
type Config struct {
	// Status are addresses of its status page, for host.Reader.Get.
	Status []string
	// Logs are the access logs with a format that tells of upstreams.
	Logs []Log
	// Others counts the access logs with other formats.
	Others int
}

// Log is an access log.
type Log struct {
	Path   string
	Format *Format
}

// Snippet is what makes requests countable by upstream: to be put into the
// http block.
const Snippet = `log_format headroom '$msec $request_method $status $request_time $bytes_sent "$upstream_addr" "$upstream_status" "$upstream_connect_time" "$upstream_header_time" "$upstream_response_time"'; access_log /var/log/nginx/headroom.log headroom;`

// StatusSnippet is what makes nginx tell of its connections: to be put into
// the http block.
const StatusSnippet = `server { listen 127.0.0.1:8421; location = /status { stub_status; access_log off; } }`

// Look reads a configuration.
func Look(r host.Reader, file string) (Config, error) {
	ds, err := Read(r, file)
	if err != nil {
		return Config{}, err
	}
	l := looker{prefix: path.Dir(file), formats: map[string]*Format{}}
	if l.prefix == path.Dir(Usual) {
		l.prefix = "/usr/share/nginx"
	}
	for _, d := range ds {
		if d.Name == "http" {
			l.inherit(d.Block)
			l.http(d.Block)
		}
	}
	slices.SortStableFunc(l.c.Status, func(a, b string) int { return rank(a) - rank(b) })
	return l.c, nil
}

type looker struct {
	c       Config
	prefix  string // relative logs count from here
	formats map[string]*Format
}

// inherit reads the formats of logs first: they may stand below their use.
func (l *looker) inherit(ds []Directive) {
	for _, d := range ds {
		if d.Name != "log_format" || len(d.Args) < 2 {
			continue
		}
		words := d.Args[1:]
		if strings.HasPrefix(words[0], "escape=") {
			words = words[1:]
		}
		l.formats[d.Args[0]] = ParseFormat(strings.Join(words, ""))
	}
}

func (l *looker) http(ds []Directive) {
	for _, d := range ds {
		switch d.Name {
		case "access_log":
			l.log(d.Args)
		case "server":
			l.server(d.Block)
		}
	}
}

// log notes an access log: path, format, and words that only tune it.
func (l *looker) log(args []string) {
	if len(args) == 0 || args[0] == "off" || strings.HasPrefix(args[0], "syslog:") || strings.Contains(args[0], "$") {
		return
	}
	file := args[0]
	if !path.IsAbs(file) {
		file = path.Join(l.prefix, file)
	}
	if slices.ContainsFunc(l.c.Logs, func(g Log) bool { return g.Path == file }) {
		return
	}
	var f *Format
	if len(args) > 1 {
		f = l.formats[args[1]]
	}
	packed := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "gzip") })
	if f == nil || !f.Usable() || packed || strings.HasPrefix(file, "/dev/") {
		l.c.Others++
		return
	}
	l.c.Logs = append(l.c.Logs, Log{file, f})
}

// server looks into one server block.
func (l *looker) server(ds []Directive) {
	var listens [][]string
	name := ""
	for _, d := range ds {
		switch {
		case d.Name == "listen" && len(d.Args) > 0:
			listens = append(listens, d.Args)
		case d.Name == "server_name" && name == "":
			if i := slices.IndexFunc(d.Args, plainName); i >= 0 {
				name = d.Args[i]
			}
		}
	}
	if len(listens) == 0 {
		listens = [][]string{{"80"}}
	}
	l.locations(ds, listens, name)
}

func (l *looker) locations(ds []Directive, listens [][]string, name string) {
	for _, d := range ds {
		switch d.Name {
		case "access_log":
			l.log(d.Args)
		case "location", "if", "limit_except":
			at := statusPath(d)
			if at != "" && has(d.Block, "stub_status") {
				for _, listen := range listens {
					if u := address(listen, name, at); u != "" {
						l.c.Status = append(l.c.Status, u)
					}
				}
			}
			l.locations(d.Block, listens, name)
		}
	}
}

// statusPath is a path that a location serves; "" where only a regular
// expression tells.
func statusPath(d Directive) string {
	if d.Name != "location" || len(d.Args) == 0 {
		return ""
	}
	last := d.Args[len(d.Args)-1]
	if strings.HasPrefix(d.Args[0], "~") || !strings.HasPrefix(last, "/") {
		return ""
	}
	return last
}

func has(ds []Directive, name string) bool {
	return slices.ContainsFunc(ds, func(d Directive) bool { return d.Name == name })
}

func plainName(s string) bool {
	return s != "_" && s != "" && !strings.ContainsAny(s, "*~$")
}

// address is how a page is asked for from this machine, "" where it does not
// listen on loopback.
func address(listen []string, name, page string) string {
	at := listen[0]
	if sock, ok := strings.CutPrefix(at, "unix:"); ok {
		return "unix:" + sock + ":" + page
	}
	scheme := "http"
	if slices.Contains(listen, "ssl") {
		scheme = "https"
	}
	ip, port, err := net.SplitHostPort(at)
	switch {
	case err == nil:
	case strings.Trim(at, "0123456789") == "":
		ip, port = "*", at
	default:
		ip, port = strings.Trim(at, "[]"), "80"
	}
	addr, err := netip.ParseAddr(ip)
	switch {
	case ip == "*" || ip == "" || ip == "localhost" || err == nil && addr.IsUnspecified():
		if name == "" {
			name = "127.0.0.1"
		}
		return scheme + "://" + net.JoinHostPort(name, port) + page
	case err == nil && addr.IsLoopback():
		return scheme + "://" + net.JoinHostPort(addr.String(), port) + page
	}
	return ""
}

// rank puts plain pages before encrypted ones.
func rank(u string) int {
	if strings.HasPrefix(u, "https:") {
		return 1
	}
	return 0
}
