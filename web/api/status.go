package api

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"headroom/queue"
	"headroom/store"
)

// flow remembers how many bytes came within the last minutes, to tell for how
// long the queue has room while the store is away.
type flow struct {
	mu    sync.Mutex
	slots [flowSlots]int64
	at    int64 // minute of the newest slot
	first int64 // minute of the first note; 0: none yet
}

const flowSlots = 10 // minutes

func (f *flow) note(now time.Time, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn(now)
	f.slots[f.at%flowSlots] += int64(bytes)
}

func (f *flow) turn(now time.Time) {
	minute := now.Unix() / 60
	if f.first == 0 || minute < f.at { // begins, or the clock was set back
		f.first, f.at, f.slots = minute, minute, [flowSlots]int64{}
	}
	for steps := min(minute-f.at, flowSlots); steps > 0; steps-- {
		f.at = minute - steps + 1
		f.slots[f.at%flowSlots] = 0
	}
	f.at = minute
}

// rate is bytes per second over the last minutes; ok is false in the first
// minute, which tells nothing.
func (f *flow) rate(now time.Time) (perSecond float64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == 0 {
		return 0, false
	}
	f.turn(now)
	minutes := min(f.at-f.first, flowSlots-1)
	if minutes < 1 {
		return 0, false
	}
	var sum int64
	for _, n := range f.slots {
		sum += n
	}
	seconds := float64(minutes)*60 + float64(now.Unix()%60)
	return float64(sum) / seconds, true
}

// queueJSON is how full the queue is. Fields that could not be told are null.
type queueJSON struct {
	Kind      string    `json:"kind"`
	Messages  uint64    `json:"messages"`
	Bytes     uint64    `json:"bytes"`
	Limit     uint64    `json:"limit_bytes"`
	Oldest    time.Time `json:"oldest,omitzero"`
	Dead      uint64    `json:"dead_letters"`
	Refused   uint64    `json:"refused"`
	Paused    string    `json:"paused,omitempty"`
	DiskFree  uint64    `json:"disk_free_bytes,omitempty"`
	Fsync     float64   `json:"last_put_seconds"`
	RoomFor   *float64  `json:"room_seconds"` // at the present rate; null: not known yet
	RoomLimit string    `json:"room_ends_at,omitempty"`
	Because   string    `json:"unknown_because,omitempty"`
}

// statusJSON is how this server does.
type statusJSON struct {
	Host    string       `json:"host"`
	Version string       `json:"version"`
	Since   time.Time    `json:"since"`
	Now     time.Time    `json:"now"`
	OK      bool         `json:"ok"`
	Wrong   []string     `json:"wrong"` // why it is not
	Queue   queueJSON    `json:"queue"`
	Worker  *WorkerState `json:"worker"`
	Store   any          `json:"store"`
	StoreIs string       `json:"store_missing,omitempty"` // why store is null
	Ingest  ingestJSON   `json:"ingest"`
	Live    liveJSON     `json:"live"`
	Self    selfJSON     `json:"self"`
	Changes bool         `json:"changes_allowed"`
}

type ingestJSON struct {
	Points    int64 `json:"points"` // acknowledged since the start
	Rejected  int64 `json:"rejected_points"`
	Stale     int64 `json:"stale_markers"`
	Odd       int64 `json:"not_numbers"`        // of remote-write, passed over
	Over      int64 `json:"refused_new_series"` // over a token's budget
	Batches   int64 `json:"batches"`
	Series    int   `json:"series"` // seen within a day
	MaxSeries int   `json:"max_series"`
}

type liveJSON struct {
	Streams int   `json:"streams"`
	Series  int   `json:"series"`
	Points  int   `json:"points"`
	Refused int64 `json:"refused_points"`
}

type selfJSON struct {
	Goroutines int    `json:"goroutines"`
	HeapBytes  uint64 `json:"heap_bytes"`
}

func (a *API) queueStatus(ctx context.Context) queueJSON {
	st, err := a.Queue.Status(ctx)
	if err != nil {
		return queueJSON{Because: err.Error()}
	}
	j := queueJSON{Kind: st.Kind, Messages: st.Messages, Bytes: st.Bytes, Limit: st.Limit, Oldest: st.Oldest.UTC(),
		Dead: st.Dead, Refused: st.Refused, Paused: st.Paused, DiskFree: st.DiskFree, Fsync: st.FsyncLast.Seconds()}
	if rate, ok := a.flow.rate(a.Now()); ok && rate > 0 {
		room, what := roomOf(st)
		seconds := float64(room) / rate
		j.RoomFor, j.RoomLimit = &seconds, what
	}
	return j
}

// roomOf is how many bytes the queue can still take, and what ends it first.
func roomOf(st queue.Status) (bytes uint64, what string) {
	bytes, what = st.Limit-min(st.Limit, st.Bytes), "the queue's limit"
	if st.DiskFree > 0 && st.DiskFree < bytes {
		bytes, what = st.DiskFree, "the disk"
	}
	return bytes, what
}

func (a *API) status(w http.ResponseWriter, r *http.Request) error {
	ctx, stop := context.WithTimeout(r.Context(), 5*time.Second)
	defer stop()
	j := statusJSON{Host: a.Host, Version: a.Version, Since: a.began.UTC(), Now: a.Now().UTC(), Wrong: []string{},
		Queue: a.queueStatus(ctx), Changes: a.changesAllowed()}
	if a.Parts.Worker != nil {
		s := a.Parts.Worker()
		j.Worker = &s
		if s.Trouble != "" {
			j.Wrong = append(j.Wrong, "samples wait in the queue: "+s.Trouble)
		}
	}
	if j.Queue.Because != "" {
		j.Wrong = append(j.Wrong, "the queue does not say how it does: "+j.Queue.Because)
	}
	if j.Queue.Paused != "" {
		j.Wrong = append(j.Wrong, "the queue takes nothing: "+j.Queue.Paused)
	}
	j.Store, j.StoreIs = a.storeStatus(ctx)
	if j.StoreIs != "" {
		j.Wrong = append(j.Wrong, "the store: "+j.StoreIs)
	}
	if st, ok := j.Store.(storeJSON); ok && st.Problem != "" {
		j.Wrong = append(j.Wrong, "the store takes samples but is not in order: "+st.Problem)
	}
	c := &a.counts
	j.Ingest = ingestJSON{c.points.Load(), c.rejected.Load(), c.stale.Load(), c.odd.Load(), c.over.Load(), c.batches.Load(), a.book.size(), a.Limits.Series}
	series, points, refused := a.Hub.Kept()
	j.Live = liveJSON{a.Hub.Lookers(), series, points, refused}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	j.Self = selfJSON{runtime.NumGoroutine(), m.HeapAlloc}
	j.OK = len(j.Wrong) == 0
	writeJSON(w, http.StatusOK, j)
	return nil
}

func (a *API) storeStatus(ctx context.Context) (status any, why string) {
	if _, err := a.openStore(); err != nil {
		return nil, err.Error()
	}
	if a.Parts.StoreStatus == nil {
		return nil, ""
	}
	s, err := a.Parts.StoreStatus(ctx)
	if err != nil {
		return nil, err.Error()
	}
	if st, ok := s.(store.Status); ok {
		return storeOf(st), ""
	}
	return s, ""
}

// healthz tells anybody whether samples are taken and stored, and no more.
func (a *API) healthz(w http.ResponseWriter, r *http.Request) error {
	ctx, stop := context.WithTimeout(r.Context(), 2*time.Second)
	defer stop()
	st, err := a.Queue.Status(ctx)
	well := err == nil && st.Paused == ""
	if well {
		_, err = a.openStore()
		well = err == nil && (a.Parts.Worker == nil || a.Parts.Worker().Trouble == "")
	}
	if !well {
		writeJSON(w, http.StatusServiceUnavailable, map[string]bool{"ok": false})
		return nil
	}
	writeJSON(w, http.StatusOK, map[string]bool{"ok": true})
	return nil
}

func (a *API) openapi(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI) // that the client has gone is nobody's fault
	return nil
}
