package change

import (
	"context"
	"fmt"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// Unit is a systemd unit: whether it runs now and whether it starts at boot.
// An empty field is left as it is.
type Unit struct {
	Name    string `json:"name"`              // with its suffix: "irqbalance.service"
	Active  string `json:"active,omitempty"`  // "active" or "inactive"
	Enabled string `json:"enabled,omitempty"` // "enabled" or "disabled"
}

// Kind implements Step.
func (Unit) Kind() string { return "unit" }

// Object implements Step.
func (u Unit) Object() string { return "unit " + u.Name }

// Effects implements Step.
func (u Unit) Effects() []string {
	switch u.Active {
	case "active":
		return []string{"starts " + u.Name}
	case "inactive":
		return []string{"stops " + u.Name}
	}
	return nil
}

func (u Unit) String() string {
	var out []string
	for _, argv := range u.commands() {
		out = append(out, strings.Join(argv, " "))
	}
	return strings.Join(out, "; ")
}

func (u Unit) commands() [][]string {
	var out [][]string
	switch u.Enabled {
	case "enabled":
		out = append(out, []string{"systemctl", "enable", "--", u.Name})
	case "disabled":
		out = append(out, []string{"systemctl", "disable", "--", u.Name})
	}
	switch u.Active {
	case "active":
		out = append(out, []string{"systemctl", "start", "--", u.Name})
	case "inactive":
		out = append(out, []string{"systemctl", "stop", "--", u.Name})
	}
	return out
}

// Read implements Step.
func (u Unit) Read(ctx context.Context, r host.Reader) (State, error) {
	out, err := r.Look(ctx, "systemctl", "show", "--property=LoadState,ActiveState,UnitFileState", "--", u.Name)
	if err != nil {
		return State{}, err
	}
	props := map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			props[k] = v
		}
	}
	if props["LoadState"] != "loaded" {
		return State{}, fmt.Errorf("look at unit %s: load state %q: %w", u.Name, props["LoadState"], fail.ErrAbsent)
	}
	s := State{Present: true, Stored: map[string]string{}}
	if u.Active != "" {
		s.Stored["active"] = props["ActiveState"]
	}
	if u.Enabled != "" {
		s.Stored["enabled"] = props["UnitFileState"]
	}
	return s, nil
}

// Want implements Step.
func (u Unit) Want(_ context.Context, _ host.Reader, before State) (State, error) {
	want := State{Present: true, Stored: map[string]string{}}
	if u.Active != "" {
		want.Stored["active"] = u.Active
	}
	if u.Enabled != "" {
		want.Stored["enabled"] = u.Enabled
	}
	for name, allowed := range map[string]string{"active": "active inactive", "enabled": "enabled disabled"} {
		for _, v := range []string{want.Stored[name], before.Stored[name]} {
			if v != "" && !strings.Contains(" "+allowed+" ", " "+v+" ") {
				return State{}, fmt.Errorf("plan unit %s: %s is %q, and only %s can be set and put back",
					u.Name, name, v, strings.ReplaceAll(allowed, " ", " or "))
			}
		}
	}
	return want, nil
}

// Undo implements Step.
func (u Unit) Undo(before State) Step {
	return Unit{Name: u.Name, Active: before.Stored["active"], Enabled: before.Stored["enabled"]}
}

// Apply implements Step.
func (u Unit) Apply(ctx context.Context, w host.Writer) error {
	for _, argv := range u.commands() {
		if _, err := w.Run(ctx, argv...); err != nil {
			return err
		}
	}
	return nil
}
