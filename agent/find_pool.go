package agent

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headroom/host"
	"headroom/metric"
)

// poolPort is PgBouncer's usual port.
const poolPort = 6432

// poolers lists the PgBouncers, by process and by the socket of the usual port.
func (f *Finder) poolers(ps []process, unix, tcp []listener) []*candidate {
	var out []*candidate
	for _, p := range ps {
		if p.name == "pgbouncer" {
			out = append(out, f.pooler(p, unix, tcp))
		}
	}
	for _, l := range unix {
		dir, port, ok := pgSocket(l.path)
		if ok && port == poolPort && !slices.ContainsFunc(out, func(c *candidate) bool { return c.port == port }) {
			out = append(out, pool(place{dir: dir, port: port}, nil))
		}
	}
	return out
}

// pooler is the PgBouncer of one process, as its configuration tells; where
// that may not be read, at the usual place.
func (f *Finder) pooler(p process, unix, tcp []listener) *candidate {
	ini := ""
	for _, a := range p.args[min(1, len(p.args)):] {
		if !strings.HasPrefix(a, "-") {
			ini = p.within(f.Reader, a)
		}
	}
	set := readINI(f.Reader, ini)
	port, err := strconv.Atoi(cmp.Or(set["listen_port"], strconv.Itoa(poolPort)))
	if err != nil {
		port = poolPort
	}
	at := place{port: port}
	for _, l := range unix {
		if dir, n, ok := pgSocket(l.path); ok && n == port && (set["unix_socket_dir"] == "" || set["unix_socket_dir"] == dir) {
			at.dir = dir
		}
	}
	if at.dir == "" {
		if at.host = tcpHost(port, tcp); at.host == "" {
			return hidden(metric.PgBouncer, "PgBouncer", p.pid, "run an agent where it runs")
		}
	}
	users := append(names(set["stats_users"]), names(set["admin_users"])...)
	c := pool(at, users)
	c.Found = fmt.Sprintf("process %d, %s", p.pid, at.found())
	return c
}

// pool is a candidate for a place. PgBouncer takes the user pgbouncer from the
// account that it runs as.
func pool(at place, users []string) *candidate {
	c := &candidate{
		Target: Target{Kind: metric.PgBouncer, Name: at.name(), Found: at.found()},
		dir:    at.dir, port: at.port, dsns: []string{at.dsn("pgbouncer", "")},
		way: fmt.Sprintf("put stats_users = %s into pgbouncer.ini and RELOAD it; a password it asks for belongs into ~/.pgpass", account()),
	}
	for _, u := range append([]string{"pgbouncer"}, users[:min(2, len(users))]...) {
		if d := at.dsn("pgbouncer", u); !slices.Contains(c.dsns, d) {
			c.dsns = append(c.dsns, d)
		}
	}
	return c
}

func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

// readINI reads the section [pgbouncer]; nothing where it may not be read.
func readINI(r host.Reader, file string) map[string]string {
	set := map[string]string{}
	b, err := r.ReadFile(file)
	if err != nil {
		return set
	}
	section := ""
	lines := bufio.NewScanner(strings.NewReader(string(b)))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || line[0] == ';' || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[] ")
		case section == "pgbouncer":
			k, v, _ := strings.Cut(line, "=")
			set[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return set
}
