package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"headroom/fail"
	"headroom/queue"
)

// Names on the server; stable for ever.
const (
	streamName   = "HEADROOM"
	subject      = "headroom.batch"
	deadName     = "HEADROOM_DEAD"
	deadSubject  = "headroom.dead"
	readerName   = "headroom"
	reasonHeader = "Headroom-Reason"
)

func messagesConfig(o queue.Options, replicas int) js.StreamConfig {
	return js.StreamConfig{
		Name: streamName, Subjects: []string{subject}, Description: "batches of samples on their way to the store",
		Retention: js.WorkQueuePolicy, Storage: js.FileStorage, Replicas: replicas,
		MaxBytes: o.MaxBytes, Discard: js.DiscardNew, PersistMode: js.DefaultPersistMode,
	}
}

func deadConfig(o queue.Options, replicas int) js.StreamConfig {
	return js.StreamConfig{
		Name: deadName, Subjects: []string{deadSubject}, Description: "batches that cannot be stored, with the reason",
		Retention: js.LimitsPolicy, Storage: js.FileStorage, Replicas: replicas,
		MaxBytes: o.DeadBytes, Discard: js.DiscardOld, PersistMode: js.DefaultPersistMode,
	}
}

// unsafeField names what in a stream that is there would lose messages.
func unsafeField(c js.StreamConfig) string {
	switch {
	case c.Retention != js.WorkQueuePolicy:
		return "retention is " + c.Retention.String() + ", not workqueue"
	case c.Storage != js.FileStorage:
		return "storage is " + c.Storage.String() + ", not file"
	case c.Discard != js.DiscardNew:
		return "discard is old: a full stream drops what was acknowledged"
	case c.MaxAge > 0:
		return fmt.Sprintf("max_age is %s: older messages are dropped", c.MaxAge)
	case c.NoAck:
		return "no_ack is set: nothing is acknowledged"
	case c.PersistMode != js.DefaultPersistMode:
		return "persist_mode is async: acknowledged before it is written"
	case c.MaxMsgSize > 0 && c.MaxMsgSize < queue.MaxMessage:
		return fmt.Sprintf("max_msg_size is %d, less than %d", c.MaxMsgSize, queue.MaxMessage)
	case c.MaxBytes <= 0:
		return "max_bytes is not set: nothing bounds it"
	case c.MaxMsgsPerSubject > 0 && !c.DiscardNewPerSubject:
		return "max_msgs_per_subject drops what was acknowledged"
	case c.AllowRollup:
		return "allow_rollup_hdrs is set: a message may drop others"
	case c.Sealed:
		return "it is sealed"
	case c.Mirror != nil || len(c.Sources) > 0:
		return "it is a copy of another stream"
	}
	return ""
}

// begin finds or makes the streams and the reader. A reader that nobody else
// can have is made anew: what was out when it ended is out no more.
func begin(ctx context.Context, nc *nats.Conn, o queue.Options, alone bool, replicas ...int) (*generation, error) {
	j, err := js.New(nc)
	if err != nil {
		return nil, err
	}
	g := &generation{nc: nc, js: j}
	if g.messages, err = ensure(ctx, j, func(r int) js.StreamConfig { return messagesConfig(o, r) }, replicas); err != nil {
		return nil, err
	}
	if why := unsafeField(g.messages.CachedInfo().Config); why != "" {
		return nil, fail.Hint(fmt.Errorf("use stream %s: %s", streamName, why), "change it with `nats stream edit %s`, or remove it when it is empty: it is then made anew", streamName)
	}
	if g.dead, err = ensure(ctx, j, func(r int) js.StreamConfig { return deadConfig(o, r) }, replicas); err != nil {
		return nil, err
	}
	g.deadGone = gone(g.dead.CachedInfo())
	name := readerName
	if alone { // under a new name: the server may still be removing the files of the old one
		name = fmt.Sprintf("%s-%d", readerName, time.Now().UnixNano())
		if err := dropReaders(ctx, g.messages); err != nil {
			return nil, err
		}
	}
	g.reader, err = g.messages.CreateOrUpdateConsumer(ctx, js.ConsumerConfig{
		Durable: name, AckPolicy: js.AckExplicitPolicy, AckWait: o.Lease,
		MaxDeliver: -1, MaxAckPending: o.MaxOut, DeliverPolicy: js.DeliverAllPolicy,
	})
	if err != nil {
		return nil, fmt.Errorf("make reader %s: %w", name, err)
	}
	return g, nil
}

func dropReaders(ctx context.Context, s js.Stream) error {
	names := s.ConsumerNames(ctx)
	for name := range names.Name() {
		if err := s.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, js.ErrConsumerNotFound) {
			return fmt.Errorf("remove reader %s: %w", name, err)
		}
	}
	if err := names.Err(); err != nil {
		return fmt.Errorf("list readers: %w", err)
	}
	return nil
}

// ensure returns the stream, made with the first number of replicas that the
// servers can give if it is not there.
func ensure(ctx context.Context, j js.JetStream, config func(replicas int) js.StreamConfig, replicas []int) (js.Stream, error) {
	name := config(1).Name
	s, err := j.Stream(ctx, name)
	for _, r := range replicas {
		if !errors.Is(err, js.ErrStreamNotFound) && !tooFewServers(err) {
			break
		}
		s, err = j.CreateStream(ctx, config(r))
	}
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", name, err)
	}
	return s, nil
}

// tooFewServers says whether a stream was refused for want of servers
// (JSClusterNoPeersErr, JSStreamReplicasNotSupportedErr), not of their disks.
func tooFewServers(err error) bool {
	var api *js.APIError
	return errors.As(err, &api) && (api.ErrorCode == 10005 || api.ErrorCode == 10074) && !strings.Contains(api.Description, "storage")
}
