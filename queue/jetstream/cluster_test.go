package jetstream_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"headroom/fail"
	"headroom/queue"
	"headroom/queue/jetstream"
	"headroom/queue/queuetest"
	"headroom/testkit/need"
)

// servers starts n NATS servers on loopback that form a cluster with
// JetStream, each with a folder of its own.
func servers(t testing.TB, n int) []*server.Server {
	t.Helper()
	var routes []*url.URL
	for range n {
		routes = append(routes, &url.URL{Scheme: "nats", Host: freePort(t)})
	}
	var out []*server.Server
	for i := range n {
		o := &server.Options{ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 40, SyncAlways: true, MaxPayload: queue.MaxMessage + 16<<10}
		if n > 1 {
			port, err := strconv.Atoi(routes[i].Port())
			if err != nil {
				t.Fatal(err)
			}
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}
			o.Routes = routes
		}
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		out = append(out, s)
	}
	for _, s := range out {
		if !s.ReadyForConnections(20 * time.Second) {
			t.Fatal("a NATS server did not start")
		}
	}
	if n > 1 {
		need.Eventually(t, 30*time.Second, "the cluster has a leader and all its servers", func() bool {
			for _, s := range out {
				if s.JetStreamIsLeader() {
					return len(s.JetStreamClusterPeers()) == n
				}
			}
			return false
		})
	}
	return out
}

// freePort is an address of loopback that was free a moment ago.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func addresses(ss []*server.Server) string {
	var out []string
	for _, s := range ss {
		out = append(out, s.ClientURL())
	}
	return strings.Join(out, ",")
}

// wipe removes our streams, so that each test begins with a new queue.
func wipe(t testing.TB, address string) js.JetStream {
	t.Helper()
	nc, err := nats.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	j, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HEADROOM", "HEADROOM_DEAD"} {
		_ = j.DeleteStream(t.Context(), name)
	}
	return j
}

func TestCluster(t *testing.T) {
	address := addresses(servers(t, 3))
	dirs := map[string]bool{} // places of which the queue was made already
	queuetest.Run(t, queuetest.Kind{Small: 1 << 20, Slow: true, Shared: true, Remote: true, Open: func(t testing.TB, o queue.Options) queue.Queue {
		if !dirs[o.Dir] {
			dirs[o.Dir] = true
			wipe(t, address)
		}
		q, err := jetstream.Connect(t.Context(), jetstream.ClusterOptions{Options: o, URL: address})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}})
}

// Three servers keep three copies, and one may go.
func TestOneServerGone(t *testing.T) {
	ss := servers(t, 3)
	j := wipe(t, addresses(ss))
	q, err := jetstream.Connect(t.Context(), jetstream.ClusterOptions{URL: addresses(ss)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	s, err := j.Stream(t.Context(), "HEADROOM")
	if err != nil || s.CachedInfo().Config.Replicas != 3 {
		t.Fatalf("%+v, %v; want three copies", s, err)
	}
	acked := map[uint64]bool{}
	for n := range uint64(60) {
		if n == 20 {
			for i, x := range ss {
				if x.Name() == s.CachedInfo().Cluster.Leader {
					ss[i].Shutdown()
					ss[i].WaitForShutdown()
				}
			}
		}
		for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
			err = q.Put(ctx, queuetest.Payload(n, 500))
			stop()
			if err == nil {
				acked[n] = true
				break
			}
		}
		if err != nil {
			t.Fatalf("put %d: %v", n, err)
		}
	}
	for len(acked) > 0 {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		ms, err := q.Fetch(ctx, 10)
		stop()
		if err != nil {
			t.Fatalf("%d acknowledged messages did not come: %v", len(acked), err)
		}
		for _, m := range ms {
			delete(acked, queuetest.Number(m.Data()))
			if err := m.Ack(t.Context()); err != nil {
				t.Logf("ack: %v", err) // it comes again
			}
		}
	}
}

// One server is used as one, and a stream that would lose messages is not used.
func TestUnsafeStreams(t *testing.T) {
	ss := servers(t, 1)
	j := wipe(t, addresses(ss))
	open := func() (queue.Queue, error) {
		return jetstream.Connect(t.Context(), jetstream.ClusterOptions{URL: addresses(ss)})
	}
	q, err := open()
	if err != nil {
		t.Fatalf("one server: %v", err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	base := js.StreamConfig{Name: "HEADROOM", Subjects: []string{"headroom.batch"}, Retention: js.WorkQueuePolicy, Discard: js.DiscardNew, MaxBytes: 1 << 20}
	for want, alter := range map[string]func(*js.StreamConfig){
		"retention is": func(c *js.StreamConfig) { c.Retention = js.LimitsPolicy },
		"storage is":   func(c *js.StreamConfig) { c.Storage = js.MemoryStorage },
		"discard is":   func(c *js.StreamConfig) { c.Discard = js.DiscardOld },
		"max_age is":   func(c *js.StreamConfig) { c.MaxAge = time.Hour },
		"no_ack":       func(c *js.StreamConfig) { c.NoAck = true },
		"max_msg_size": func(c *js.StreamConfig) { c.MaxMsgSize = 1000 },
		"max_bytes":    func(c *js.StreamConfig) { c.MaxBytes = -1 },
		"persist_mode": func(c *js.StreamConfig) { c.PersistMode = js.AsyncPersistMode },
		"":             func(*js.StreamConfig) {},
	} {
		wipe(t, addresses(ss))
		c := base
		alter(&c)
		need.Eventually(t, 10*time.Second, "the stream is made", func() bool { // the one before is still being removed
			_, err := j.CreateStream(t.Context(), c)
			return err == nil
		})
		q, err := open()
		if err == nil {
			_ = q.Close()
		}
		if want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || fail.HintOf(err) == "" {
			t.Errorf("%q: %v, hint %q", want, err, fail.HintOf(err))
		}
	}
}

func TestNobodyThere(t *testing.T) {
	_, err := jetstream.Connect(t.Context(), jetstream.ClusterOptions{URL: "nats://127.0.0.1:1"})
	if err == nil || fail.HintOf(err) == "" {
		t.Fatalf("%v, want an error with a way out", err)
	}
}
