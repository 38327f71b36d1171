package loop

import (
	"context"
	"iter"
	"time"

	"golang.org/x/sys/unix"
)

// event is what a client that shares a thread waits for: a descriptor that can
// be read, or a time after the start if fd is negative.
type event struct {
	fd    int
	until time.Duration
}

// member is a client whose loop can be left and taken up again where it waits.
type member struct {
	next func() (event, bool)
	wait event
	done bool
}

type waiterKey struct{}

// Waiter returns the function by which Work waits until a descriptor can be
// read, or nil if the client has a thread of its own and may simply block. It
// belongs to the client whose context it came with.
func Waiter(ctx context.Context) func(fd int) {
	w, _ := ctx.Value(waiterKey{}).(func(fd int))
	return w
}

// share runs several clients on the present thread: each runs until it waits,
// then the next one does, and when all wait the thread waits for all at once.
// The answer for one client often comes while another one works, and then
// nobody has to be put to sleep and woken.
func (r *run) share(ctx context.Context, clients []*client) {
	members := make([]*member, len(clients))
	for i, c := range clients {
		next, stop := iter.Pull(func(yield func(event) bool) {
			c.yield = yield
			c.loop(context.WithValue(ctx, waiterKey{}, func(fd int) { yield(event{fd: fd}) }))
		})
		defer stop()
		members[i] = &member{next: next}
		members[i].resume()
	}
	fds := make([]unix.PollFd, len(members))
	for {
		left := r.await(members, fds)
		if left == 0 {
			return
		}
		now := time.Since(r.start)
		for i, m := range members {
			if m.done {
				continue
			}
			if m.wait.fd >= 0 && fds[i].Revents != 0 || m.wait.fd < 0 && (now >= m.wait.until || r.stop.Load()) {
				m.resume()
			}
		}
	}
}

// resume runs a member until it waits again or ends.
func (m *member) resume() {
	var going bool
	m.wait, going = m.next()
	m.done = !going
}

// sharedSlice is the longest sleep before the end of a run is looked for.
const sharedSlice = 20 * time.Millisecond

// await sleeps until one of the members can go on; it returns how many are not
// done yet.
func (r *run) await(members []*member, fds []unix.PollFd) (left int) {
	sleep := sharedSlice
	for i, m := range members {
		fds[i] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
		switch {
		case m.done:
			continue
		case m.wait.fd >= 0:
			fds[i].Fd = int32(m.wait.fd)
		default:
			sleep = min(sleep, max(m.wait.until-time.Since(r.start), 0))
		}
		left++
	}
	if left > 0 {
		// The server's turn first: often the answers are there when ours comes
		// again, and nobody has to be put to sleep and woken.
		_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		ts := unix.NsecToTimespec(int64(sleep))
		_, _ = unix.Ppoll(fds, &ts, nil) // a signal only ends the sleep early
	}
	return left
}
