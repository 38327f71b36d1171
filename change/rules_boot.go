package change

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// bootSteps are the files that load the rules of steps at boot, as this
// machine does that: nftables.service, netfilter-persistent or the services of
// iptables. Where there is none, notes say so, with the way out.
func bootSteps(ctx context.Context, r host.Reader, steps []PlannedStep) (Steps, []string, error) {
	var out []bootFile
	var notes []string
	whose := map[string][]string{} // the objects of a note
	for _, s := range steps {
		rules, ok := s.Step.(Rules)
		if !ok || !rules.Boot {
			continue
		}
		f, note, err := rules.bootFile(r)
		if err != nil {
			return nil, nil, err
		}
		if note != "" {
			if whose[note] == nil {
				notes = append(notes, note)
			}
			whose[note] = append(whose[note], rules.Object())
			continue
		}
		at := slices.IndexFunc(out, func(o bootFile) bool { return o.path == f.path })
		if at < 0 {
			out, at = append(out, f), len(out)
		}
		if out[at].content, err = f.with(out[at].content, rules, s.After); err != nil {
			return nil, nil, fmt.Errorf("save %s for the next boot: %w", rules.Object(), err)
		}
		out[at].rules = append(out[at].rules, s)
	}
	for i, n := range notes {
		is := "is"
		if len(whose[n]) > 1 || strings.Contains(whose[n][0], " tables ") {
			is = "are"
		}
		notes[i] = strings.Join(whose[n], " and ") + " " + is + " " + n
	}
	var files Steps
	for _, f := range out {
		if err := f.try(ctx, r); err != nil {
			return nil, nil, err
		}
		files = append(files, File{Path: f.path, Content: f.content, Mode: f.mode})
	}
	return files, notes, nil
}

// bootFile is a file that a service loads at boot.
type bootFile struct {
	path, content string
	mode          uint32
	with          func(content string, s Rules, after State) (string, error)
	rules         []PlannedStep
}

func (s Rules) bootFile(r host.Reader) (f bootFile, note string, err error) {
	if s.Tool == "nft" {
		f.path, note = nftBootPath(r)
		f.with = withNftBlock
	} else {
		f.path, note = xtBootPath(r, strings.HasPrefix(s.Tool, "ip6"))
		f.with = withXtTables
	}
	switch {
	case note != "" && s.Tool != "nft" && strings.TrimSpace(s.Content) == "":
		return f, "emptied until the next boot: what loads the old rules then is not known (no service that Headroom knows); find it (a script, another firewall program) and stop it, or both judge after that", nil
	case note != "":
		return f, "not saved for the next boot: " + note, nil
	}
	b, err := r.ReadFile(f.path)
	if errors.Is(err, fail.ErrAbsent) {
		f.mode = 0o640
		return f, "", nil
	}
	if err != nil {
		return f, "", err
	}
	st, err := r.Stat(f.path)
	f.content, f.mode = string(b), uint32(st.Mode.Perm())
	return f, "", err
}

// Where units are, the first that is there counts.
var unitDirs = []string{"/etc/systemd/system/", "/run/systemd/system/", "/usr/local/lib/systemd/system/", "/lib/systemd/system/", "/usr/lib/systemd/system/"}

// unitFile is a unit's text; "" if there is none.
func unitFile(r host.Reader, name string) string {
	for _, dir := range unitDirs {
		if b, err := r.ReadFile(dir + name); err == nil {
			return string(b)
		}
	}
	return ""
}

// starts says whether a service starts at boot.
func starts(r host.Reader, name string) bool {
	for _, pattern := range []string{"/etc/systemd/system/*.wants/" + name, "/etc/systemd/system/*.requires/" + name,
		"/etc/rc[2-5].d/S[0-9][0-9]" + strings.TrimSuffix(name, ".service")} {
		if m, err := r.Glob(pattern); err == nil && len(m) > 0 {
			return true
		}
	}
	return false
}

var nftLoads = regexp.MustCompile(`(?m)^ExecStart=[^\n]*\bnft\b[^\n]* -f\s*'?"?([^\s'"]+)`)

// nftBootPath is the file that nftables.service loads, or why none is.
func nftBootPath(r host.Reader) (file, note string) {
	const unit = "nftables.service"
	text := unitFile(r, unit)
	switch {
	case text == "":
		return "", "there is no nftables.service; install nftables, look at what /etc/nftables.conf holds, `systemctl enable nftables`, then plan again"
	case !starts(r, unit):
		return "", "nftables.service does not start at boot; look at what its file holds, `systemctl enable nftables`, then plan again"
	}
	m := nftLoads.FindStringSubmatch(text)
	if m == nil || !path.IsAbs(m[1]) {
		return "", "the file that nftables.service loads cannot be told from its ExecStart"
	}
	return path.Clean(m[1]), ""
}

// xtBootPath is the file that iptables-restore is fed at boot, or why none is.
func xtBootPath(r host.Reader, six bool) (file, note string) {
	plugin, saved, service, sysconfig := "15-ip4tables", "/etc/iptables/rules.v4", "iptables.service", "/etc/sysconfig/iptables"
	if six {
		plugin, saved, service, sysconfig = "25-ip6tables", "/etc/iptables/rules.v6", "ip6tables.service", "/etc/sysconfig/ip6tables"
	}
	const persistent = "netfilter-persistent.service"
	_, err := r.Stat("/usr/share/netfilter-persistent/plugins.d/" + plugin)
	switch {
	case err == nil && starts(r, persistent):
		return saved, ""
	case err == nil:
		return "", "netfilter-persistent does not start at boot; `systemctl enable netfilter-persistent`, then plan again"
	case strings.Contains(unitFile(r, service), "iptables.init") && starts(r, service):
		return sysconfig, ""
	}
	return "", "neither netfilter-persistent nor an iptables service loads rules at boot; `apt-get install iptables-persistent` (or iptables-services), then plan again"
}

// withNftBlock replaces, or adds, the block of one step in a file of nft.
func withNftBlock(content string, s Rules, after State) (string, error) {
	name := strings.Join(s.Tables, ", ")
	begin, end := "# headroom: begin "+name+"\n", "# headroom: end "+name+"\n"
	head, tail := content, ""
	if at := strings.Index(content, begin); at >= 0 {
		stop := strings.Index(content[at:], end)
		if stop < 0 {
			return "", fmt.Errorf("a line %q is missing", strings.TrimSpace(end))
		}
		head, tail = content[:at], content[at+stop+len(end):]
	}
	var tables strings.Builder
	for _, t := range s.Tables {
		tables.WriteString(after.Stored[t])
	}
	script, err := nftables{}.script(s.Tables, tables.String())
	if err != nil {
		return "", err
	}
	if head == "" {
		head = "#!/usr/sbin/nft -f\n"
	}
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + begin + script + end + tail, nil
}

// withXtTables replaces, or adds, tables in the iptables-save format. Other
// tables and remarks stay as they are.
func withXtTables(content string, s Rules, after State) (string, error) {
	if _, err := parseTables(content); err != nil {
		return "", err
	}
	var out strings.Builder
	skip := false
	done := map[string]bool{}
	for line := range strings.Lines(content) {
		word := strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(word, "*"); ok && slices.Contains(s.Tables, name) {
			skip = true
			if !done[name] {
				out.WriteString(after.Stored[name])
			}
			done[name] = true
		}
		if !skip {
			out.WriteString(line)
		}
		if word == "COMMIT" {
			skip = false
		}
	}
	for _, name := range s.Tables {
		if text := after.Stored[name]; text != "" && !done[name] {
			if out.Len() > 0 && !strings.HasSuffix(out.String(), "\n") {
				out.WriteByte('\n')
			}
			out.WriteString(text)
		}
	}
	return out.String(), nil
}

// try loads the file as at boot, into an empty namespace: its tables must come
// out as the change leaves them.
func (f bootFile) try(ctx context.Context, r host.Reader) error {
	for _, s := range f.rules {
		rules := s.Step.(Rules)
		got, err := rules.rehearseFile(ctx, r, f.content)
		if err == nil && !got.kept(s.After) {
			err = unreached(rules, s.After, got)
		}
		if err != nil {
			return fmt.Errorf("save %s in %s for the next boot: loaded there, it would not come out as planned: %w", rules.Object(), f.path, hintRoot(err))
		}
	}
	return nil
}
