package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"headroom/agent"
	"headroom/change"
	"headroom/host"
	"headroom/metric"
	"headroom/peer"
	"headroom/queue"
	"headroom/store"
	"headroom/topic/all"
	"headroom/web/api"
	"headroom/web/live"
)

// watcher is one running `up`.
type watcher struct {
	o       Options
	place   place
	queue   queue.Queue
	house   *house
	worker  *worker
	decoder metric.Decoder
	hub     *live.Hub
	runner  *agent.Runner // nil with NoCollect
	checks  *checker
	marks   *marker
	answers *api.API
	hosts   *peer.Book // what other hosts tell
}

// Run watches until the context ends, and returns nil then. Another `up` on
// the same folder is refused (fail.Locked).
func Run(ctx context.Context, o Options) error {
	o = o.withDefaults()
	if o.Host == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("tell this machine's name: %w", err)
		}
		o.Host = name
	}
	if err := o.check(); err != nil {
		return err
	}
	w := &watcher{o: o, place: upPlace(o.Dirs)}
	release, err := w.place.hold()
	if err != nil {
		return err
	}
	defer release()
	defer thrift()()
	if err := w.build(ctx); err != nil {
		return err
	}
	return w.run(ctx)
}

// build makes all parts; none has begun.
func (w *watcher) build(ctx context.Context) error {
	var err error
	if w.queue, err = openQueue(ctx, w.o, w.place.path("queue")); err != nil {
		return err
	}
	w.house = newHouse(w.o)
	w.hosts = w.o.newBook()
	w.worker = &worker{queue: w.queue, sink: w.house, decoder: &w.decoder, permanent: store.IsPermanent, say: w.o.Say}
	w.hub = live.New(live.Options{Watched: w.watched})
	w.marks = newMarker(w.o.Host, change.OpenJournal(w.o.Dirs), filepath.Join(w.o.Dirs.State, "results"), w.o.Say)
	w.marks.keep = func(ctx context.Context, m []store.Mark) error {
		s, err := w.house.get()
		if err != nil {
			return err
		}
		return s.AddMarks(ctx, m)
	}
	w.checks = &checker{host: w.o.Host, version: w.o.Version, every: w.o.Every, targets: w.targets, say: w.o.Say}
	w.checks.keep = func(ctx context.Context, body []byte) error {
		s, err := w.house.get()
		if err != nil {
			return err
		}
		return s.PutFindings(ctx, store.Findings{Host: w.o.Host, At: time.Now(), Body: body})
	}
	if w.o.NoCollect {
		return nil
	}
	w.runner = agent.New(agent.Options{
		Reader: host.Open(host.Options{}), Host: w.o.Host, Collectors: collectors(),
		Find: finder(w.o.Dirs, w.o.Servers), Sink: w.take, Live: w.hub.Publish, Final: permanentPut, Keep: w.place.keeper,
	})
	return nil
}

// collectors lists those of all topics.
func collectors() (out []*metric.Collector) {
	for _, t := range all.Topics() {
		out = append(out, t.Collectors...)
	}
	return out
}

// take is where this machine's own batches go: queued as any other, then shown.
func (w *watcher) take(ctx context.Context, b *metric.Batch) error {
	if err := w.answers.Take(ctx, b); err != nil {
		return err
	}
	w.marks.notice(b)
	return nil
}

// watched has collectors run each second while somebody looks.
func (w *watcher) watched(yes bool) {
	if w.runner == nil {
		return
	}
	if yes {
		w.runner.Look(time.Now().Add(24 * time.Hour))
	} else {
		w.runner.Look(time.Now())
	}
}

func (w *watcher) targets() []agent.Target {
	if w.runner == nil {
		return nil
	}
	return w.runner.Targets()
}

// part is one thing that runs until the context ends.
type part struct {
	name string
	run  func(context.Context) error
}

// run runs all parts. The first that fails for good ends the others, and so
// does the context; what feeds ends before what is fed.
func (w *watcher) run(ctx context.Context) error {
	socket, done, err := w.place.socket()
	if err != nil {
		return errors.Join(err, w.queue.Close())
	}
	defer done()
	server, err := w.server(socket)
	if err == nil {
		err = w.link(server)
	}
	if err != nil {
		return errors.Join(err, w.queue.Close())
	}
	feeders := []part{{"pages", server.Run}, {"marks", w.marks.run}, {"other hosts", w.keepHosts}}
	if w.runner != nil {
		feeders = append(feeders, part{"collectors", w.runner.Run}, part{"checks", w.checks.run})
	}
	feeders = append(feeders, part{"watchdog", func(ctx context.Context) error { return watchdog(ctx, w.alive) }})
	fed := []part{{"store", w.house.run}, {"worker", w.worker.run}}

	outer, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	inner, stopInner := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopInner(nil)
	var first, last sync.WaitGroup
	begin(inner, &last, fed, stop)
	begin(outer, &first, feeders, stop)
	ready("watching " + w.o.Host)
	<-outer.Done()
	stopping()
	first.Wait()
	w.drain(inner)
	stopInner(nil)
	last.Wait()
	err = context.Cause(outer)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, w.queue.Close())
}

// drainLimit is how long the end waits until the queue is empty; what is left
// then is there at the next start.
const drainLimit = 3 * time.Second

func (w *watcher) drain(ctx context.Context) {
	if w.worker.State().Trouble != "" {
		return
	}
	for end := time.Now().Add(drainLimit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if st, err := w.queue.Status(ctx); err != nil || st.Messages == 0 {
			return
		}
	}
}

func begin(ctx context.Context, all *sync.WaitGroup, parts []part, stop context.CancelCauseFunc) {
	for _, p := range parts {
		all.Go(func() {
			if err := p.run(ctx); err != nil {
				stop(fmt.Errorf("%s: %w", p.name, err))
			}
		})
	}
}

// alive is what the watchdog asks: does the queue answer?
func (w *watcher) alive() bool {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	_, err := w.queue.Status(ctx)
	return err == nil
}

// workerState is the worker's state as the answers give it.
func (w *watcher) workerState() api.WorkerState {
	s := w.worker.State()
	return api.WorkerState{Stored: s.Stored, Killed: s.Killed, Last: s.Last, Lag: s.Lag, Trouble: s.Trouble, Since: s.Since}
}

// gaps lists what cannot be read now.
func (w *watcher) gaps() []metric.Gap {
	out := []metric.Gap{}
	if w.runner != nil {
		out = append(out, w.runner.Gaps()...)
	}
	return append(out, w.marks.gaps()...)
}
