package watch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"syscall"

	"headroom/fail"
	"headroom/queue"
	"headroom/queue/letter"
	"headroom/web/api"
)

// Dead is the batches that were set aside by this machine's `up`: through the
// running one, or in its queue where none runs.
type Dead struct {
	up    *local // nil where none runs
	queue queue.Queue
}

// OpenDead opens them. o.Dirs counts and, where no `up` runs, o.NATS and
// o.NATSCreds, which have to be those of the `up` that set them aside.
// fail.ErrAbsent if nothing was ever watched here.
func OpenDead(ctx context.Context, o Options) (*Dead, error) {
	p := upPlace(o.Dirs)
	l, err := p.dial()
	if err == nil {
		return &Dead{up: l}, nil
	}
	if !errors.Is(err, errNotRunning) {
		return nil, err
	}
	if err := p.ours(); err != nil {
		return nil, err
	}
	if o.NATS == "" {
		o.QueueBytes = math.MaxInt64 / 2 // what was there once may come back
	}
	q, err := openQueue(ctx, o.withDefaults(), p.path("queue"))
	if err != nil {
		return nil, err
	}
	return &Dead{queue: q}, nil
}

// ours refuses a folder that is not there, or another account's: what is
// written into its queue could not be read by that one.
func (p place) ours() error {
	info, err := os.Stat(p.path("queue"))
	if errors.Is(err, os.ErrNotExist) {
		return fail.Hint(fmt.Errorf("open the queue: nothing was watched here: %w", fail.ErrAbsent), "start it with: headroom up")
	}
	if err != nil {
		return fmt.Errorf("open the queue: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == os.Geteuid() {
		return nil
	}
	name := fmt.Sprint(st.Uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return fail.Hint(fmt.Errorf("open the queue: it belongs to the account %s, and no headroom up runs", name), "start headroom up, or do this as %s", name)
}

// Close ends the work.
func (d *Dead) Close() error {
	if d.up != nil {
		d.up.close()
		return nil
	}
	return d.queue.Close()
}

// All lists all of them, the newest first.
func (d *Dead) All(ctx context.Context) (all []letter.Letter, err error) {
	for before := ""; ; {
		list, err := d.list(ctx, before)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
		if len(list) < api.DeadMost {
			return all, nil
		}
		before = list[len(list)-1].ID
	}
}

func (d *Dead) list(ctx context.Context, before string) ([]letter.Letter, error) {
	if d.up == nil {
		return letter.List(ctx, d.queue, before, api.DeadMost)
	}
	var out struct{ Letters []letter.Letter }
	err := d.up.ask(ctx, http.MethodGet, "dead?before="+url.QueryEscape(before), nil, &out)
	return out.Letters, err
}

// Retry puts letters back into the queue, in the order given. The outcome
// counts also where there is an error, which stops it.
func (d *Dead) Retry(ctx context.Context, ids []string) (letter.Outcome, error) {
	return d.each(ctx, ids, "dead/retry", letter.Retry)
}

// Drop removes letters for good; as Retry.
func (d *Dead) Drop(ctx context.Context, ids []string) (letter.Outcome, error) {
	return d.each(ctx, ids, "dead/drop", letter.Drop)
}

func (d *Dead) each(ctx context.Context, ids []string, path string, here func(context.Context, queue.Queue, []string) (letter.Outcome, error)) (sum letter.Outcome, err error) {
	for len(ids) > 0 && err == nil {
		some := ids[:min(len(ids), api.DeadMost)]
		ids = ids[len(some):]
		var out letter.Outcome
		if d.up == nil {
			out, err = here(ctx, d.queue, some)
		} else {
			err = d.up.ask(ctx, http.MethodPost, path, map[string][]string{"ids": some}, &out)
		}
		sum.Done += out.Done
		sum.Failed = append(sum.Failed, out.Failed...)
	}
	return sum, err
}
