package raid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// state is what a tool says of one controller.
type state struct {
	name                      string
	drives, degraded, offline int
	disks, failed, critical   int
	criticalKnown             bool
}

// maker is a family of controllers and the programs that tell of them, best
// first. Each only shows; host.Looks lists them.
type maker struct {
	name    string
	vendors []string // PCI
	tools   []tool
}

type tool struct {
	argv  []string
	parse func(string) ([]state, error)
}

var makers = []maker{
	{"LSI, Broadcom or Dell PERC", []string{"0x1000", "0x1028"}, []tool{
		{[]string{"storcli64", "/call", "show", "J", "nolog"}, parseStorcli},
		{[]string{"/opt/MegaRAID/storcli/storcli64", "/call", "show", "J", "nolog"}, parseStorcli},
		{[]string{"perccli64", "/call", "show", "J", "nolog"}, parseStorcli},
		{[]string{"/opt/MegaRAID/perccli/perccli64", "/call", "show", "J", "nolog"}, parseStorcli},
		{[]string{"megacli", "-AdpAllInfo", "-aALL", "-NoLog"}, parseMegacli},
		{[]string{"/opt/MegaRAID/MegaCli/MegaCli64", "-AdpAllInfo", "-aALL", "-NoLog"}, parseMegacli},
	}},
	{"HP or Microchip Smart Array", []string{"0x103c", "0x9005"}, []tool{
		{[]string{"ssacli", "ctrl", "all", "show", "config"}, parseSsacli},
		{[]string{"hpssacli", "ctrl", "all", "show", "config"}, parseSsacli},
	}},
}

// hardware lists the makers of the RAID controllers on the PCI bus.
func hardware(r host.Reader) ([]maker, error) {
	files, err := r.Glob("/sys/bus/pci/devices/*/class")
	if err != nil {
		return nil, err
	}
	var out []maker
	for _, m := range makers {
		for _, f := range files {
			class, err := r.ReadFile(f)
			if err != nil || !strings.HasPrefix(string(class), "0x0104") { // mass storage, RAID
				continue
			}
			vendor, err := r.ReadFile(strings.TrimSuffix(f, "class") + "vendor")
			if err == nil && contains(m.vendors, strings.TrimSpace(string(vendor))) {
				out = append(out, m)
				break
			}
		}
	}
	return out, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// ask runs the first tool that is installed.
func (m maker) ask(ctx context.Context, r host.Reader) ([]state, error) {
	var names []string
	for _, t := range m.tools {
		b, err := r.Look(ctx, t.argv...)
		if errors.Is(err, fail.ErrAbsent) {
			names = append(names, t.argv[0])
			continue
		}
		if err != nil && len(b) == 0 {
			return nil, fail.Hint(err, "run Headroom as root: these tools need it")
		}
		states, err := t.parse(string(b))
		if err != nil {
			return nil, fmt.Errorf("read what %s says: %w", t.argv[0], err)
		}
		return states, nil
	}
	return nil, fail.Hint(fmt.Errorf("a RAID controller (%s) is here, but the state of its disks is not known: none of %s is %w", m.name, strings.Join(names, ", "), fail.ErrAbsent),
		"install the maker's tool, for example %s", m.tools[0].argv[0])
}

// parseStorcli reads the JSON of "storcli /call show J".
func parseStorcli(text string) ([]state, error) {
	var doc struct {
		Controllers []struct {
			Status struct {
				Controller  any    `json:"Controller"`
				Status      string `json:"Status"`
				Description string `json:"Description"`
			} `json:"Command Status"`
			Data struct {
				Product string                   `json:"Product Name"`
				VD      []struct{ State string } `json:"VD LIST"`
				PD      []struct{ State string } `json:"PD LIST"`
			} `json:"Response Data"`
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("not the JSON that was expected: %w", err)
	}
	var out []state
	for _, c := range doc.Controllers {
		if c.Status.Status != "Success" {
			return nil, fmt.Errorf("it answers %s: %s", c.Status.Status, c.Status.Description)
		}
		s := state{name: fmt.Sprintf("%v %s", c.Status.Controller, c.Data.Product), drives: len(c.Data.VD), disks: len(c.Data.PD)}
		for _, v := range c.Data.VD {
			switch v.State {
			case "Optl", "Cac0":
			case "OfLn":
				s.offline++
			default: // Dgrd, Pdgd, Rec …
				s.degraded++
			}
		}
		for _, p := range c.Data.PD {
			switch strings.TrimSpace(p.State) {
			case "Onln", "GHS", "DHS", "UGood", "JBOD", "UGShld", "HSPShld":
			default: // Offln, UBad, Failed, Msng, Rbld …
				s.failed++
			}
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, errors.New("it names no controller")
	}
	return out, nil
}

// parseMegacli reads the section "Device Present" of each adapter.
func parseMegacli(text string) ([]state, error) {
	var out []state
	var product string
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, ":")
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if n, found := strings.CutPrefix(strings.TrimSpace(line), "Adapter #"); found {
			out = append(out, state{name: n, criticalKnown: true})
			product = ""
			continue
		}
		if len(out) == 0 || !ok {
			continue
		}
		s := &out[len(out)-1]
		if k == "Product Name" && product == "" {
			product = v
			s.name += " " + v
		}
		field := map[string]*int{"Virtual Drives": &s.drives, "Degraded": &s.degraded, "Offline": &s.offline,
			"Disks": &s.disks, "Critical Disks": &s.critical, "Failed Disks": &s.failed}[k]
		if n, err := strconv.Atoi(v); field != nil && err == nil {
			*field = n
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it names no adapter")
	}
	return out, nil
}

// parseSsacli reads lines such as "logicaldrive 1 (279.4 GB, RAID 1, OK)" below
// "Smart Array P440ar in Slot 0 (Embedded)".
func parseSsacli(text string) ([]state, error) {
	var out []state
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		word := strings.TrimSpace(line)
		if line != "" && line[0] != ' ' && strings.Contains(line, " in Slot ") {
			name, _, _ := strings.Cut(line, " (")
			out = append(out, state{name: strings.TrimSpace(name), criticalKnown: true})
			continue
		}
		if len(out) == 0 {
			continue
		}
		s := &out[len(out)-1]
		verdict := last(word)
		switch {
		case strings.HasPrefix(word, "logicaldrive "):
			s.drives++
			switch {
			case verdict == "OK":
			case strings.HasPrefix(verdict, "Failed"):
				s.offline++
			default: // Interim Recovery Mode, Recovering, Rebuilding …
				s.degraded++
			}
		case strings.HasPrefix(word, "physicaldrive "):
			s.disks++
			switch {
			case verdict == "OK":
			case strings.HasPrefix(verdict, "Predictive Failure"):
				s.critical++
			default:
				s.failed++
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it names no controller")
	}
	return out, nil
}

// last is the verdict at the end of "(port 1I:box 1:bay 4, SAS, 300 GB, OK,
// spare)": the last word that does not say what the disk is for.
func last(s string) string {
	_, in, _ := strings.Cut(strings.TrimSuffix(s, ")"), "(")
	words := strings.Split(in, ",")
	for i := len(words) - 1; i >= 0; i-- {
		if w := strings.TrimSpace(words[i]); w != "spare" && w != "active spare" {
			return w
		}
	}
	return ""
}
