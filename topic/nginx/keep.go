package nginx

import (
	"bytes"
	"encoding/json"
	"fmt"

	"headroom/metric"
	"headroom/probe/nginx"
)

// memory is what outlives the process: how far each log was read, and what was
// counted up to there. The two are kept together, and before the samples are
// handed on: what was counted after they were kept is counted again from the
// logs after a kill, and the sums do not go back.
type memory struct {
	resumed bool
	places  map[string]nginx.State // of logs that are not followed yet
	saved   []byte
}

// keptForm is the form of what is kept.
const keptForm = 1

type kept struct {
	Form   int                    `json:"form"`
	Places map[string]nginx.State `json:"places"`
	Counts counts                 `json:"counts"`
}

// resume goes on from what was kept. What cannot be read is told, and counting
// begins anew.
func (s *logState) resume(out *metric.Out) {
	if s.resumed || out.Memory.Keep == nil {
		return
	}
	s.resumed = true
	b, err := out.Memory.Keep.Load()
	if err == nil && b == nil {
		return
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	if err == nil && k.Form != keptForm {
		err = fmt.Errorf("it has form %d, this program knows %d", k.Form, keptForm)
	}
	if err != nil {
		out.Gap("how far the logs were read before the restart cannot be told, so what came since is not counted: "+err.Error(), "", logRequests, upAttempts)
		return
	}
	for _, u := range k.Counts.Upstreams {
		if u == nil {
			return // not ours
		}
	}
	s.places, s.counts, s.saved = k.Places, k.Counts, b
}

// keep keeps how far the logs were read, if that moved.
func (s *logState) keep(out *metric.Out) {
	if out.Memory.Keep == nil {
		return
	}
	k := kept{Form: keptForm, Places: map[string]nginx.State{}, Counts: s.counts}
	for _, f := range s.files {
		if at, ok := f.tail.State(); ok {
			k.Places[f.tail.Path] = at
		}
	}
	b, err := json.Marshal(k)
	if err == nil && bytes.Equal(b, s.saved) {
		return
	}
	if err == nil {
		err = out.Memory.Keep.Save(b)
	}
	if err != nil {
		out.Gap("how far the logs were read cannot be kept: after a restart, what came meanwhile is missing: "+err.Error(), "", logSkipped)
		return
	}
	s.saved = b
}
