package change

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Steps is a list of steps that survives JSON: each is an object whose "kind"
// names its type. An unknown kind or field is an error: a step is never done
// by half because a newer Headroom wrote it.
type Steps []Step

// MarshalJSON implements json.Marshaler.
func (s Steps) MarshalJSON() ([]byte, error) {
	out := make([]json.RawMessage, len(s))
	for i, st := range s {
		var err error
		if out[i], err = marshalStep(st); err != nil {
			return nil, err
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Steps) UnmarshalJSON(b []byte) error {
	var raws []json.RawMessage
	if err := json.Unmarshal(b, &raws); err != nil {
		return fmt.Errorf("read steps: %w", err)
	}
	out := make(Steps, len(raws))
	for i, raw := range raws {
		var err error
		if out[i], err = unmarshalStep(raw); err != nil {
			return err
		}
	}
	*s = out
	return nil
}

// oneStep is a Step that survives JSON as a field.
type oneStep struct{ Step }

func (o oneStep) MarshalJSON() ([]byte, error) { return marshalStep(o.Step) }

func (o *oneStep) UnmarshalJSON(b []byte) (err error) {
	o.Step, err = unmarshalStep(b)
	return err
}

func marshalStep(s Step) ([]byte, error) {
	if s == nil {
		return nil, fmt.Errorf("write step: there is none")
	}
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write step %s: %w", s.Kind(), err)
	}
	head := fmt.Sprintf("{%q:%q", "kind", s.Kind())
	if string(body) == "{}" {
		return []byte(head + "}"), nil
	}
	return append([]byte(head+","), body[1:]...), nil
}

func unmarshalStep(b []byte) (Step, error) {
	var fields map[string]json.RawMessage
	var kind string
	err := json.Unmarshal(b, &fields)
	if err == nil {
		err = json.Unmarshal(fields["kind"], &kind)
	}
	if err != nil {
		return nil, fmt.Errorf("read step: not an object with a kind: %w", err)
	}
	delete(fields, "kind")
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("read step %s: %w", kind, err)
	}
	switch kind {
	case "file":
		return strict[File](kind, body)
	case "value":
		return strict[Value](kind, body)
	case "setting":
		return strict[Setting](kind, body)
	case "sql":
		return strict[SQL](kind, body)
	case "unit":
		return strict[Unit](kind, body)
	case "command":
		return strict[Command](kind, body)
	case "rules":
		return strict[Rules](kind, body)
	}
	return nil, fmt.Errorf("read step: unknown kind %q (known: file, value, setting, sql, unit, command, rules)", kind)
}

func strict[S Step](kind string, body []byte) (Step, error) {
	var s S
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("read step %s: %w", kind, err)
	}
	return s, nil
}
