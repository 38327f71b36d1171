package page

import (
	"context"
	"fmt"
	"math"
	"time"

	"headroom/queue"
	"headroom/queue/letter"
	"headroom/store"
	"headroom/unit"
	"headroom/web/api"
)

// queueData is the page of the way from collectors to the store.
type queueData struct {
	*view
	Charts []Chart
}

func (p *pages) queue(v *view) (string, bool, any) {
	h := hostScope(v.Host)
	return "queue", true, queueData{v, []Chart{
		{Title: "Time of collectors", Help: "of the slowest: how long reading took", Unit: "seconds", Lines: []Line{{Match: h.sel("headroom_collector_duration_seconds"), Func: "max", By: []string{"collector", "of"}, Agg: "max", Top: 8, Label: "{collector} {of}"}}},
		{Title: "Rounds left out", Help: "because the one before was still under way", Unit: "count/s", Lines: []Line{h.rate("{collector}", "headroom_collector_skipped_total", "collector").top(8)}},
		{Title: "Headroom's own CPU", Help: "share of one core", Unit: "ratio", Stack: true, Lines: []Line{h.rate("{mode}", "headroom_process_cpu_seconds_total", "mode")}},
		{Title: "Headroom's own memory", Help: "resident, and the heap of it", Unit: "bytes", Lines: []Line{h.gauge("resident", "headroom_process_resident_bytes"), h.gauge("heap", "headroom_process_heap_bytes")}},
		{Title: "Open files and goroutines", Help: "of Headroom itself", Unit: "count", Lines: []Line{h.gauge("open files", "headroom_process_open_files"), h.gauge("goroutines", "headroom_process_goroutines")}},
	}}
}

// state is how queue, worker and store do now.
type state struct {
	Queue    queue.Status
	QueueWhy string
	Worker   api.WorkerState
	Dead     []letter.Letter // the newest that were set aside
	DeadWhy  string
	Store    store.Status
	StoreWhy string
	HasStore bool
}

// State reads it.
func (d queueData) State() state {
	ctx, stop := context.WithTimeout(d.r.Context(), 3*time.Second)
	defer stop()
	var s state
	var err error
	if s.Queue, err = d.p.Parts.Queue.Status(ctx); err != nil {
		s.QueueWhy = err.Error()
	}
	if s.Queue.Dead > 0 {
		if s.Dead, err = letter.List(ctx, d.p.Parts.Queue, "", deadShown); err != nil {
			s.DeadWhy = err.Error()
		}
	}
	if d.p.Parts.Worker != nil {
		s.Worker = d.p.Parts.Worker()
	}
	if d.p.Parts.StoreStatus == nil {
		s.StoreWhy = "there is no store"
		return s
	}
	got, err := d.p.Parts.StoreStatus(ctx)
	if err != nil {
		s.StoreWhy = err.Error()
		return s
	}
	s.Store, s.HasStore = got.(store.Status)
	return s
}

// deadShown is how many batches that were set aside are listed.
const deadShown = 20

// DeadMore is how many more there are.
func (s state) DeadMore() int { return max(int(s.Queue.Dead)-len(s.Dead), 0) }

// Fill is the share of the queue that is in use.
func (s state) Fill() float64 {
	return float64(s.Queue.Bytes) / math.Max(1, float64(s.Queue.Limit))
}

// Oldest is how long the oldest message has waited.
func (s state) Oldest() string {
	if s.Queue.Oldest.IsZero() {
		return "none waits"
	}
	return unit.Seconds(time.Since(s.Queue.Oldest).Seconds())
}

// Kept says how long what is kept.
func (s state) Kept() string { return fmt.Sprint(s.Store.Retention) }

// WaitInt and those below are for templates.
func (s state) WaitInt() int        { return int(s.Queue.Messages) }
func (s state) QueueBytes() float64 { return float64(s.Queue.Bytes) }
func (s state) QueueLimit() float64 { return float64(s.Queue.Limit) }
func (s state) Fsync() float64      { return s.Queue.FsyncLast.Seconds() }
func (s state) Stored() float64     { return float64(s.Worker.Stored) }
func (s state) StoreBytes() float64 { return float64(s.Store.Bytes) }
func (s state) StoreFull() float64  { return float64(s.Store.Forecast.Total) }

// storeTable is a table of the store.
type storeTable struct{ store.Table }

// Size is its size in bytes.
func (t storeTable) Size() float64 { return float64(t.Bytes) }

// Tables are the tables of the store.
func (s state) Tables() (out []storeTable) {
	for _, t := range s.Store.Tables {
		out = append(out, storeTable{t})
	}
	return out
}
