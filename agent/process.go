package agent

import (
	"path"
	"strconv"
	"strings"

	"headroom/host"
)

// process is one running program of those that we look for.
type process struct {
	pid, parent int
	name        string // the kernel's name for it
	uid         int
	args        []string
}

// processes lists the programs of some names. A process that ends meanwhile is
// left out.
func processes(r host.Reader, names ...string) ([]process, error) {
	dirs, err := r.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var out []process
	for _, dir := range dirs {
		b, err := r.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		p, ok := parseStat(string(b))
		if !ok || !wanted(p.name, names) {
			continue
		}
		st, err := r.Stat(dir)
		if err != nil {
			continue
		}
		p.uid = st.UID
		if b, err := r.ReadFile(dir + "/cmdline"); err == nil {
			p.args = arguments(string(b))
		}
		out = append(out, p)
	}
	return out, nil
}

func wanted(name string, names []string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// parseStat reads "PID (NAME) STATE PARENT …"; the name may hold blanks and
// parentheses, and ends at the last one.
func parseStat(s string) (process, bool) {
	open, end := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	f := strings.Fields(s[end+1:])
	if len(f) < 2 {
		return process{}, false
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(s[:open]))
	parent, err2 := strconv.Atoi(f[1])
	return process{pid: pid, parent: parent, name: s[open+1 : end]}, err1 == nil && err2 == nil
}

// arguments cuts a command line at its NULs; a program that wrote its title
// over it has blanks instead.
func arguments(s string) []string {
	s = strings.TrimRight(s, "\x00 ")
	if strings.Contains(s, "\x00") {
		return strings.Split(s, "\x00")
	}
	return strings.Fields(s)
}

// option returns the value of an option such as -p, written "-p 5432",
// "-p5432" or as a long one "--port=5432".
func (p process) option(short, long string) string {
	for i, a := range p.args {
		switch {
		case a == short && i+1 < len(p.args):
			return p.args[i+1]
		case short != "" && strings.HasPrefix(a, short) && !strings.HasPrefix(a, "--") && len(a) > len(short):
			return a[len(short):]
		case long != "" && strings.HasPrefix(a, long+"="):
			return a[len(long)+1:]
		}
	}
	return ""
}

// dir is the process's folder below /proc.
func (p process) dir() string { return "/proc/" + strconv.Itoa(p.pid) }

// within makes a path that a process was given whole: relative ones count
// from its working folder.
func (p process) within(r host.Reader, name string) string {
	if name == "" || path.IsAbs(name) {
		return name
	}
	cwd, err := r.Resolve(p.dir() + "/cwd")
	if err != nil {
		return ""
	}
	return path.Join(cwd, name)
}
