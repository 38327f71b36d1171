package change

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"headroom/fail"
	"headroom/host"
)

const (
	planFormat = "headroom-plan"
	planSchema = 1
	planLimit  = 128 << 20
)

// Plan is what will be done, down to the letter: every step with the state it
// starts from, the state it ends in and the way back. It is data: Save it, show
// it, Load and apply it later. Apply does this and nothing else, or refuses.
type Plan struct {
	Format  string    `json:"format"`
	Schema  int       `json:"schema"`
	Made    time.Time `json:"made"`              // UTC
	Machine string    `json:"machine,omitempty"` // machine id; "" where the machine has none
	Server  *Server   `json:"server,omitempty"`  // the server that settings and SQL belong to
	Changes []Planned `json:"changes"`
	Hash    string    `json:"hash"` // SHA-256 of all the rest
}

// Planned is one change with its steps worked out on this machine.
type Planned struct {
	Change Change        `json:"change"`
	Steps  []PlannedStep `json:"steps"`
	Notes  []string      `json:"notes,omitempty"` // worth telling before it is applied
}

// PlannedStep is one step, where it starts, where it ends and the way back.
type PlannedStep struct {
	Step      Step
	Before    State
	After     State
	Undo      Step
	OnConfirm bool // done only once the change is confirmed
}

type plannedJSON struct {
	Step   oneStep `json:"step"`
	Before State   `json:"before"`
	After  State   `json:"after"`
	Undo   oneStep `json:"undo"`
	Late   bool    `json:"on_confirm,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (p PlannedStep) MarshalJSON() ([]byte, error) {
	return json.Marshal(plannedJSON{oneStep{p.Step}, p.Before, p.After, oneStep{p.Undo}, p.OnConfirm})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *PlannedStep) UnmarshalJSON(b []byte) error {
	var j plannedJSON
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("read planned step: %w", err)
	}
	if j.Step.Step == nil || j.Undo.Step == nil {
		return errors.New("read planned step: step or undo is missing")
	}
	*p = PlannedStep{j.Step.Step, j.Before, j.After, j.Undo.Step, j.Late}
	return nil
}

// Nothing says that the object is already as wanted.
func (p PlannedStep) Nothing() bool { return p.Before.Same(p.After) }

// Prepare reads the present state of everything that the changes alter and
// works out what is left to do. It changes nothing.
func Prepare(ctx context.Context, r host.Reader, changes ...Change) (*Plan, error) {
	if len(changes) == 0 {
		return nil, fail.With(errors.New("plan: no change named"), fail.Usage)
	}
	p := &Plan{Format: planFormat, Schema: planSchema, Made: r.Now().UTC().Round(0), Machine: machineID(r)}
	owner := map[string]string{}
	for _, c := range changes {
		pl := Planned{Change: c, Steps: []PlannedStep{}}
		pl.Change.Steps, pl.Change.OnConfirm = nil, nil
		if err := p.prepare(ctx, r, owner, &pl, c.Steps, false); err != nil {
			return nil, err
		}
		boot, notes, err := bootSteps(ctx, r, pl.Steps)
		if err != nil {
			return nil, err
		}
		pl.Notes = append(slices.Clone(c.Notes), notes...)
		if err := p.prepare(ctx, r, owner, &pl, append(slices.Clone(c.OnConfirm), boot...), true); err != nil {
			return nil, err
		}
		p.Changes = append(p.Changes, pl)
	}
	var err error
	p.Hash, err = p.hash()
	return p, err
}

func (p *Plan) prepare(ctx context.Context, r host.Reader, owner map[string]string, pl *Planned, steps Steps, late bool) error {
	for _, s := range steps {
		if err := claim(owner, pl.Change, s); err != nil {
			return err
		}
		if p.Server == nil && onServer(s) {
			srv, err := identify(ctx, r)
			if err != nil {
				return err
			}
			p.Server = &srv
		}
		ps, err := prepareStep(ctx, r, s)
		if err != nil {
			return err
		}
		ps.OnConfirm = late
		pl.Steps = append(pl.Steps, ps)
	}
	return nil
}

func prepareStep(ctx context.Context, r host.Reader, s Step) (PlannedStep, error) {
	before, err := s.Read(ctx, r)
	if err != nil {
		return PlannedStep{}, err
	}
	after, err := s.Want(ctx, r, before)
	if err != nil {
		return PlannedStep{}, err
	}
	return PlannedStep{Step: s, Before: before, After: after, Undo: s.Undo(before)}, nil
}

// claim refuses two steps for one object: neither's way back would be right.
func claim(owner map[string]string, c Change, s Step) error {
	for _, o := range objects(s) {
		if other, taken := owner[o]; taken {
			return fail.With(fmt.Errorf("plan %s: %s is altered by %s, too: take them one after the other", c.Spec, o, other), fail.Usage)
		}
		owner[o] = c.Spec.String()
	}
	return nil
}

func objects(s Step) []string {
	switch s := s.(type) {
	case Setting:
		out := s.names()
		for i, n := range out {
			out[i] = "setting " + n
		}
		return out
	case Rules:
		return s.objects()
	case Value:
		if s.Instead != "" {
			return []string{s.Path, s.Instead}
		}
	}
	return []string{s.Object()}
}

// Steps lists the steps that are left to do, in order.
func (p *Plan) Steps() []PlannedStep {
	var out []PlannedStep
	for _, c := range p.Changes {
		for _, s := range c.Steps {
			if !s.Nothing() {
				out = append(out, s)
			}
		}
	}
	return out
}

// Nothing says that all is already as wanted.
func (p *Plan) Nothing() bool { return len(p.Steps()) == 0 }

// Restarts says that applying or reverting restarts the server.
func (p *Plan) Restarts() bool {
	for _, c := range p.Changes {
		for _, s := range c.Steps {
			set, ok := s.Step.(Setting)
			if !s.Nothing() && (c.Change.Restart || ok && set.Restart) {
				return true
			}
		}
	}
	return false
}

// CutsOff says that applying may cut off those who come over the network. Such
// a plan is only applied with a guard that takes it back unless it is confirmed.
func (p *Plan) CutsOff() bool {
	for _, c := range p.Changes {
		for _, s := range c.Steps {
			if !s.Nothing() && (c.Change.CutsOff || s.Step.Kind() == "rules") {
				return true
			}
		}
	}
	return false
}

// Confirm is the time to confirm in that the changes recommend, the longest of
// them; 2 minutes for a plan that may cut off; 0 where none is needed.
func (p *Plan) Confirm() time.Duration {
	var d time.Duration
	for _, c := range p.Changes {
		d = max(d, c.Change.Confirm)
	}
	if d == 0 && p.CutsOff() {
		return confirmDefault
	}
	return d
}

const confirmDefault = 2 * time.Minute

// Title names the changes in one line.
func (p *Plan) Title() string {
	names := make([]string, len(p.Changes))
	for i, c := range p.Changes {
		names[i] = c.Change.Spec.String()
	}
	return strings.Join(names, ", ")
}

func (p *Plan) hash() (string, error) {
	bare := *p
	bare.Hash = ""
	b, err := json.Marshal(bare)
	if err != nil {
		return "", fmt.Errorf("write plan: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Save writes the plan as JSON. File contents are in it; passwords are not.
func (p *Plan) Save(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(p); err != nil {
		return fmt.Errorf("save plan: %w", err)
	}
	return nil
}

// LoadPlan reads what Save wrote. A plan that was edited since is refused.
func LoadPlan(r io.Reader) (*Plan, error) {
	var head struct {
		Format string `json:"format"`
		Schema int    `json:"schema"`
	}
	b, err := io.ReadAll(io.LimitReader(r, planLimit))
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fail.With(fmt.Errorf("read plan: not a plan file: %w", err), fail.Usage)
	}
	if head.Format != planFormat || head.Schema != planSchema {
		return nil, fail.With(fmt.Errorf("read plan: format %q, schema %d: this Headroom reads %q, schema %d",
			head.Format, head.Schema, planFormat, planSchema), fail.Usage)
	}
	p := new(Plan)
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(p); err != nil {
		return nil, fail.With(fmt.Errorf("read plan: %w", err), fail.Usage)
	}
	return p, p.intact()
}

// intact says whether the plan is as Prepare made it.
func (p *Plan) intact() error {
	h, err := p.hash()
	if err == nil && h != p.Hash {
		err = fail.With(fail.Hint(errors.New("read plan: it was edited after it was made"), "make it anew with `headroom plan`"), fail.Usage)
	}
	return err
}
