package proc

import (
	"context"
	"path"
	"sort"
	"strings"

	"headroom/fact"
	"headroom/host"
)

// Headroom keeps each setting of the machine in a file of its own, so that one
// can be taken back without touching another.
const (
	ownPrefix      = "60-headroom-"
	rulesFolder    = "/etc/udev/rules.d"
	tmpfilesFolder = "/etc/tmpfiles.d"
	sysctlFolder   = "/etc/sysctl.d"
)

// RulesFile is the udev rules file for one attribute of a block device's queue.
func RulesFile(device, attribute string) string {
	return rulesFolder + "/" + ownPrefix + device + "-" + attribute + ".rules"
}

// TmpfilesFile is the systemd-tmpfiles file for one subject.
func TmpfilesFile(subject string) string { return tmpfilesFolder + "/" + ownPrefix + subject + ".conf" }

// SysctlFile is the sysctl.d file for one sysctl.
func SysctlFile(name string) string { return sysctlFolder + "/" + ownPrefix + name + ".conf" }

// Line is one sysctl set by a file at boot.
type Line struct {
	File  string `json:"file" src:"sysctl.d(5)" doc:"the file that sets it"`
	Name  string `json:"name" src:"sysctl.d(5)" doc:"the sysctl, with dots"`
	Value string `json:"value" src:"sysctl.d(5)" doc:"what it is set to"`
}

// Boot is what sets kernel figures when the machine starts.
type Boot struct {
	Udev     bool     `json:"udev" src:"/etc/udev/rules.d" doc:"udev rules can be kept here"`
	Tmpfiles bool     `json:"tmpfiles" src:"/etc/tmpfiles.d" doc:"systemd-tmpfiles lines can be kept here"`
	SysctlD  bool     `json:"sysctl_d" src:"/etc/sysctl.d" doc:"sysctl settings can be kept here"`
	Own      []string `json:"own" src:"/etc/*/60-headroom-*" doc:"Headroom's own files among them"`
	Sysctls  []Line   `json:"sysctls" src:"sysctl.d(5)" doc:"sysctls of proc.sysctl that other files set, in the order in which they are applied; the last one wins"`
}

// Boots is the fact "proc.boot".
var Boots = &fact.Source[Boot]{
	Name: "proc.boot", Doc: "what sets kernel figures when the machine starts: udev rules, tmpfiles and sysctl files",
	Read: func(_ context.Context, in *fact.In) (Boot, error) { return readBoot(in) },
}

func readBoot(r host.Reader) (Boot, error) {
	isFolder := func(p string) bool {
		st, err := r.Stat(p)
		return err == nil && st.Mode.IsDir()
	}
	b := Boot{Udev: isFolder(rulesFolder), Tmpfiles: isFolder(tmpfilesFolder), SysctlD: isFolder(sysctlFolder), Own: []string{}, Sysctls: []Line{}}
	for _, dir := range []string{rulesFolder, tmpfilesFolder, sysctlFolder} {
		own, err := r.Glob(dir + "/" + ownPrefix + "*")
		if err != nil {
			return b, err
		}
		b.Own = append(b.Own, own...)
	}
	var err error
	b.Sysctls, err = foreignSysctls(r)
	return b, err
}

// foreignSysctls reads the sysctl files in the order of systemd-sysctl and
// `sysctl --system`: by file name over all folders, a name in an earlier
// folder hiding the same name in a later one, and /etc/sysctl.conf last.
func foreignSysctls(r host.Reader) ([]Line, error) {
	byName := map[string]string{}
	for _, dir := range []string{"/usr/lib/sysctl.d", "/usr/local/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d"} {
		files, err := r.Glob(dir + "/*.conf")
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if !strings.HasPrefix(path.Base(f), ownPrefix) {
				byName[path.Base(f)] = f
			}
		}
	}
	names := make([]string, 0, len(byName))
	for n := range byName {
		names = append(names, n)
	}
	sort.Strings(names)
	out := []Line{}
	for _, n := range names {
		out = append(out, sysctlLines(r, byName[n])...)
	}
	return append(out, sysctlLines(r, "/etc/sysctl.conf")...), nil
}

// sysctlLines returns the lines of one file that set a sysctl we know. A file
// that cannot be read sets nothing that we could tell.
func sysctlLines(r host.Reader, file string) []Line {
	raw, err := r.ReadFile(file)
	if err != nil {
		return nil
	}
	var out []Line
	for _, l := range parseSysctls(string(raw)) {
		if _, known := (&Sysctl{}).Value(l.Name); known {
			l.File = file
			out = append(out, l)
		}
	}
	return out
}

// parseSysctls reads the text of a sysctl.d(5) file; lines that set nothing
// are left out. File stays empty.
func parseSysctls(text string) []Line {
	var out []Line
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "-"), "=")
		name = strings.ReplaceAll(strings.TrimSpace(name), "/", ".")
		if ok && name != "" {
			out = append(out, Line{Name: name, Value: strings.TrimSpace(value)})
		}
	}
	return out
}

// Overrides returns the line by which another file, read after ours, sets
// the same sysctl to something else at boot; ok is false if none does.
func (b Boot) Overrides(name, value string) (l Line, ok bool) {
	for _, s := range b.Sysctls {
		if s.Name == name && (path.Base(s.File) > path.Base(SysctlFile(name)) || s.File == "/etc/sysctl.conf") {
			l, ok = s, s.Value != value
		}
	}
	return l, ok
}
