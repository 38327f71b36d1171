// Package queue is the durable line between those who bring samples and the
// store: what Put acknowledged is on disk, and stays until a reader has
// acknowledged it, through kills, power cuts, full disks and a store that is
// away for hours.
//
// A message is opaque here. One message is one batch of samples, so that one
// fsync serves a thousand points. A message may be delivered twice; that it is
// stored once is the reader's part, by the batch's ID.
package queue

import (
	"context"
	"errors"
	"time"
)

// MaxMessage is the largest message in bytes.
const MaxMessage = 1 << 20

// Errors of Put. After any other error the fate of the message is unknown: it
// may be there or not, and is to be put again under the same batch ID.
var (
	ErrFull     = errors.New("queue is full")         // by its own limit; nothing was dropped
	ErrDiskFull = errors.New("the disk is full")      // pauses, and goes on by itself when there is room
	ErrStopped  = errors.New("queue has stopped")     // Close was called; or a write to disk failed, and it pauses until one succeeds
	ErrTooLarge = errors.New("message is over 1 MiB") // for good
)

// Errors of Retry and Drop.
var (
	ErrNoLetter = errors.New("there is no such dead letter") // it may have made room for newer ones
	ErrDamaged  = errors.New("damaged")                      // what was kept is not what was set aside
)

// ErrHeld is wrapped by what opens a queue whose folder another process holds.
var ErrHeld = errors.New("another process has it open")

// Queue is a bounded durable queue. All methods are safe for concurrent use.
type Queue interface {
	// Put returns nil once the message is on disk (fsync, on a cluster on a
	// majority's).
	Put(ctx context.Context, msg []byte) error
	// Fetch returns the oldest messages that are not out already: at least
	// one, at most n, in order; it waits until there is one or the context
	// ends. A message that is neither acknowledged nor given back within the
	// lease comes again.
	Fetch(ctx context.Context, n int) ([]Message, error)
	// Status says how full the queue is.
	Status(ctx context.Context) (Status, error)
	// Dead lists messages that were set aside, the newest first: at most n, all
	// older than the letter of the ID before; "" begins with the newest.
	Dead(ctx context.Context, before string, n int) ([]DeadLetter, error)
	// Retry puts a dead letter's message into the queue again, behind all others.
	// It is on disk there before it leaves the dead letters: an interruption
	// leaves it in both. The errors are those of Put, ErrNoLetter and ErrDamaged.
	Retry(ctx context.Context, id string) error
	// Drop removes a dead letter for good. ErrNoLetter if there is none.
	Drop(ctx context.Context, id string) error
	Close() error
}

// Message is one message that was handed out.
type Message interface {
	Data() []byte
	// Put is when it was put.
	Put() time.Time
	// Deliveries is how often it was handed out, 1 at first.
	Deliveries() int
	// Ack takes it from the queue for good.
	Ack(ctx context.Context) error
	// Back gives it back; it comes again after the delay.
	Back(ctx context.Context, delay time.Duration) error
	// Kill sets it aside, with the reason, in the dead letters; for errors
	// that no repetition can mend. It is on disk there before it is taken
	// from the queue.
	Kill(ctx context.Context, reason string) error
	// Hold asks for a whole lease anew.
	Hold(ctx context.Context) error
}

// Status is how full a queue is.
type Status struct {
	Kind      string        // "log", "embedded" or "cluster"
	Messages  uint64        // waiting or out
	Bytes     uint64        // on disk, of all messages
	Limit     uint64        // bytes; more is refused with ErrFull
	Oldest    time.Time     // when the oldest message was put; zero if there is none
	Dead      uint64        // dead letters kept
	Killed    uint64        // dead letters since the start of this process
	Refused   uint64        // Puts refused since the start of this process
	Paused    string        // why nothing is taken now, "" if it is
	DiskFree  uint64        // bytes free where the queue lies; 0 if unknown
	FsyncLast time.Duration // how long the last Put took
	Lost      uint64        // messages found damaged or missing since the start of this process
	// DeadDropped is the dead letters that made room for newer ones since the
	// start of this process.
	DeadDropped uint64
	Notes       []string // the newest of what a person should know, oldest first, each with its time
}

// DeadLetter is a message that was set aside for good.
type DeadLetter struct {
	ID     string // names it for as long as it is kept
	At     time.Time
	Reason string
	Data   []byte
}

// ErrNotOut is wrapped by Back and Hold where the lease was over and the
// message went to another reader.
var ErrNotOut = errors.New("is no longer yours")
