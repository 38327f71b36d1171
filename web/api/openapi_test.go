package api

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

// contract is what is compared with the routes.
type contract struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Ref  string `yaml:"$ref"`
			Name string
			In   string
		}
		Security  []map[string][]string
		Responses map[string]any
	}
	Components struct {
		Parameters map[string]struct{ Name, In string }
	}
}

func TestContractAndRoutesAreTheSame(t *testing.T) {
	var c contract
	if err := yaml.Unmarshal(OpenAPI(), &c); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for path, methods := range c.Paths {
		for method, op := range methods {
			var params []string
			for _, p := range op.Parameters {
				name, in := p.Name, p.In
				if p.Ref != "" {
					ref, ok := c.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
					if !ok {
						t.Errorf("%s %s: no parameter %s", method, path, p.Ref)
					}
					name, in = ref.Name, ref.In
				}
				if in == "query" {
					params = append(params, name)
				}
				if in == "path" && !strings.Contains(path, "{"+name+"}") {
					t.Errorf("%s %s: no %s in the path", method, path, name)
				}
			}
			if len(op.Responses) == 0 {
				t.Errorf("%s %s: no responses", method, path)
			}
			id := strings.ToUpper(method) + " " + path
			if op.Security != nil && len(op.Security) == 0 {
				id += " (anybody)"
			}
			want[id] = slices.Sorted(slices.Values(params))
		}
	}
	have := map[string][]string{}
	for _, rt := range serve(t, nil).Routes() {
		id := rt.Method + " " + rt.Path
		if rt.Scope == "" {
			id += " (anybody)"
		}
		have[id] = slices.Sorted(slices.Values(rt.Params))
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got, ok := have[id]; !ok {
			t.Errorf("openapi.yaml has %s, no route answers it", id)
		} else if !slices.Equal(got, want[id]) {
			t.Errorf("%s: takes %v, openapi.yaml says %v", id, got, want[id])
		}
	}
	for id := range have {
		if _, ok := want[id]; !ok {
			t.Errorf("%s is not in openapi.yaml", id)
		}
	}
}
