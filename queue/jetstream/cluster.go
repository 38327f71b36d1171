package jetstream

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"headroom/fail"
	"headroom/queue"
)

// ClusterOptions says which NATS to use, and as whom.
type ClusterOptions struct {
	queue.Options        // Dir, MinFree and SegmentBytes mean nothing here
	URL           string // nats://host:4222, several with commas; tls:// for TLS
	Creds         string // file of credentials
	NKey          string // file of an NKey seed
	CA            string // file of the authority of the servers' certificates
	Cert, Key     string // files of our own certificate
}

// Connect uses the JetStream of a NATS cluster (Kind "cluster"). The stream is
// made if it is missing, on three servers where there are as many, else on
// one; a stream whose settings would lose messages is refused by name. What an
// acknowledgement is worth against power loss is up to the servers'
// sync_interval, which a client cannot see: it should be "always".
func Connect(ctx context.Context, o ClusterOptions) (queue.Queue, error) {
	o.Options = o.WithDefaults()
	nc, err := nats.Connect(o.URL, append(o.access(), nats.Name("headroom"), nats.MaxReconnects(-1), nats.ReconnectWait(500*time.Millisecond), nats.Timeout(5*time.Second))...)
	if err != nil {
		return nil, fail.Hint(fmt.Errorf("connect to NATS: %w", err), "is the address right, and may this machine log in?")
	}
	wait, stop := context.WithTimeout(ctx, patience)
	defer stop()
	g, err := begin(wait, nc, o.Options, false, 3, 1)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if r := g.messages.CachedInfo().Config.Replicas; r < 3 {
		o.Note(fmt.Sprintf("the stream is kept by %d server: what it loses is lost", r))
	}
	return &line{
		o: o.Options, kind: "cluster", now: g, stop: make(chan struct{}),
		failed: func(_ *generation, err error) error { return fmt.Errorf("put message: %w", err) },
		done:   func() error { nc.Close(); return nil },
		free:   func() uint64 { return 0 },
	}, nil
}

// access is the options that say who we are. Secrets stay in their files.
func (o ClusterOptions) access() []nats.Option {
	var out []nats.Option
	if o.Creds != "" {
		out = append(out, nats.UserCredentials(o.Creds))
	}
	if o.NKey != "" {
		opt, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			opt = func(*nats.Options) error { return fmt.Errorf("read NKey: %w", err) }
		}
		out = append(out, opt)
	}
	if o.CA != "" {
		out = append(out, nats.RootCAs(o.CA))
	}
	if o.Cert != "" {
		out = append(out, nats.ClientCert(o.Cert, o.Key))
	}
	return out
}
