package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/stats"
)

// killResult is what random kills cost.
type killResult struct {
	What                         string
	Kills                        map[string]int
	Requests, Retried            int64
	Acked, Lost, Double, Phantom int64 // points; Phantom: stored, never acknowledged, and never sent again
	Counted                      int64 // points of the same series, as a chart's query counts them
	RestartHalf, RestartMax      float64
	AgentPoints, AgentDouble     int64
	SetAside                     int64
	Why                          map[string]int `json:",omitempty"` // what the log says of batches set aside
}

const (
	killWriters = 4
	killSeries  = 5
	killPoints  = 20 // of each series in a request
)

// killWriter sends numbered points and remembers what was acknowledged.
type killWriter struct {
	id    int
	acked [][2]int64 // requests [from, to) that were acknowledged, joined
	sent  int64
}

// kills kills agent, server and PostgreSQL at random moments while writers
// send, and counts what is stored in the end.
func kills(ctx context.Context, b *bench) (any, error) {
	u, err := b.running(ctx, "--no-collect")
	if err != nil {
		return nil, err
	}
	defer func() { _ = u.stop() }()
	r := &killResult{What: fmt.Sprintf("%d writers of %d points a request over HTTP, an agent beside them; kill -9 of one process after 0 to 1.5 s, at random", killWriters, killSeries*killPoints), Kills: map[string]int{}}
	agent, err := b.startAgent(u)
	if err != nil {
		return nil, err
	}
	defer func() { _ = agent.Process.Kill(); _ = agent.Wait() }()
	writing, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	base := time.Now().Add(-6 * time.Hour).Truncate(time.Hour).UnixMilli()
	ws := make([]*killWriter, killWriters)
	for i := range ws {
		ws[i] = &killWriter{id: i}
		all.Go(func() { ws[i].write(writing, u, base, &r.Requests, &r.Retried) })
	}
	var restarts []float64
	for n := 0; n < b.runs && ctx.Err() == nil; n = r.total() {
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
		took, err := r.kill(ctx, b, u, &agent)
		if err != nil {
			stop()
			return r, err
		}
		if took > 0 {
			restarts = append(restarts, took.Seconds())
		}
		if st, err := u.status(); err == nil && st.Queue.Dead > uint64(r.SetAside) {
			r.SetAside = int64(st.Queue.Dead)
			b.note("%d batches are set aside after %d kills; the log ends with: %s", r.SetAside, r.total(), u.said())
		}
		if now := r.total(); now > n && now%25 == 0 {
			b.note("%d kills %v, %d requests, %d retried", now, r.Kills, atomic.LoadInt64(&r.Requests), atomic.LoadInt64(&r.Retried))
		}
	}
	time.Sleep(2 * time.Second)
	stop()
	all.Wait()
	if err := u.settled(ctx, 10*time.Minute); err != nil {
		return r, err
	}
	if len(restarts) > 0 {
		r.RestartHalf, r.RestartMax = stats.Quantile(restarts, 0.5), stats.Quantile(restarts, 1)
	}
	return r, r.check(ctx, u, ws, base)
}

// total is how many processes were killed.
func (r *killResult) total() (n int) {
	for _, k := range r.Kills {
		n += k
	}
	return n
}

func (b *bench) startAgent(u *up) (*exec.Cmd, error) {
	c := exec.Command(b.program, "agent", "--to", u.url)
	c.Env = append(os.Environ(), "HEADROOM_STATE="+filepath.Join(b.dir, "agent"), "HEADROOM_TOKEN="+u.token)
	c.Stderr, c.SysProcAttr = u.log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c, c.Start()
}

// kill ends one process; for the server it returns how long its return took.
func (r *killResult) kill(ctx context.Context, b *bench, u *up, agent **exec.Cmd) (time.Duration, error) {
	switch rand.IntN(5) {
	case 0, 1:
		r.Kills["server"]++
		if err := u.cmd.Process.Kill(); err != nil {
			return 0, err
		}
		_ = u.cmd.Wait()
		return u.start(ctx)
	case 2, 3:
		pid, err := u.postmaster()
		if err != nil {
			return 0, nil // it is being started just now
		}
		r.Kills["postgres"]++
		return 0, ignoreGone(syscall.Kill(pid, syscall.SIGKILL))
	}
	r.Kills["agent"]++
	_ = (*agent).Process.Kill()
	_ = (*agent).Wait()
	var err error
	*agent, err = b.startAgent(u)
	return 0, err
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

func (u *up) postmaster() (int, error) {
	b, err := os.ReadFile(filepath.Join(u.state, "state", "store", "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.SplitN(string(b), "\n", 2)[0])
}

// write sends requests one after the other, each until it is acknowledged,
// under the same key.
func (w *killWriter) write(ctx context.Context, u *up, base int64, requests, retried *int64) {
	client := &http.Client{Timeout: 20 * time.Second}
	for n := int64(0); ctx.Err() == nil; n++ {
		var body strings.Builder
		for s := range killSeries {
			fmt.Fprintf(&body, `{"name":"bench_seq","labels":{"writer":"%d","s":"%d"},"points":[`, w.id, s)
			for p := range killPoints {
				at := n*killPoints + int64(p)
				fmt.Fprintf(&body, "%s[%d,%d]", map[bool]string{true: ",", false: ""}[p > 0], base+at*5, at)
			}
			body.WriteString("]}\n")
		}
		w.sent = n + 1
		key := fmt.Sprintf("%032x", n<<8|int64(w.id))
		for ctx.Err() == nil {
			atomic.AddInt64(requests, 1)
			code, _, err := post(context.WithoutCancel(ctx), client, u.url+"/api/v1/ingest", u.token, "application/x-ndjson", []byte(body.String()), "X-Headroom-Batch", key)
			if err == nil && code/100 == 2 {
				w.acked = append(w.acked, [2]int64{n, n + 1})
				break
			}
			atomic.AddInt64(retried, 1)
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// check reads every point back with SQL.
func (r *killResult) check(ctx context.Context, u *up, ws []*killWriter, base int64) error {
	conn, err := pgx.Connect(ctx, "host="+filepath.Join(u.state, "state", "store", "s")+" port=5432 user=postgres dbname=postgres")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := r.compare(ctx, conn, ws, base); err != nil {
		return err
	}
	if r.Counted, err = u.sum(url.Values{"match": {"bench_seq"}, "func": {"count"}, "agg": {"sum"}, "by": {""}, "step": {"3600"},
		"from": {time.UnixMilli(base).UTC().Format(time.RFC3339)}, "to": {"now"}}); err != nil {
		return fmt.Errorf("count by a query: %w", err)
	}
	err = conn.QueryRow(ctx, `select count(*), count(*) - count(distinct (s.id, p.at)) from headroom.series s, headroom.series_points(s.id, now() - interval '2 days', now() + interval '2 days') p where s.name like 'host%'`).Scan(&r.AgentPoints, &r.AgentDouble)
	if err != nil {
		return fmt.Errorf("count the agent's points: %w", err)
	}
	st, err := u.status()
	r.SetAside, r.Why = int64(st.Queue.Dead), u.aside()
	return err
}

// aside counts the reasons that the log gives for batches set aside.
func (u *up) aside() map[string]int {
	b, _ := os.ReadFile(filepath.Join(u.state, "log"))
	why := map[string]int{}
	for line := range strings.Lines(string(b)) {
		if _, reason, ok := strings.Cut(strings.TrimSpace(line), "a batch was set aside: "); ok {
			why[reason]++
		}
	}
	return why
}

// compare holds every series against what its writer knows.
func (r *killResult) compare(ctx context.Context, conn *pgx.Conn, ws []*killWriter, base int64) error {
	seen := make([][killSeries][]uint8, len(ws)) // how often each number is there
	for i, w := range ws {
		for s := range seen[i] {
			seen[i][s] = make([]uint8, w.sent*killPoints)
		}
	}
	rows, err := conn.Query(ctx, `select (s.labels->>'writer')::int, (s.labels->>'s')::int, (extract(epoch from p.at) * 1000)::bigint, p.value
		from headroom.point p join headroom.series s on s.id = p.series where s.name = 'bench_seq'`)
	if err != nil {
		return err
	}
	var w, s int
	var at int64
	var v float64
	if _, err := pgx.ForEachRow(rows, []any{&w, &s, &at, &v}, func() error {
		n := int64(v)
		if (at-base)%5 != 0 || (at-base)/5 != n || n < 0 || n >= int64(len(seen[w][s])) {
			return fmt.Errorf("a point at %d has the value %g", at, v)
		}
		seen[w][s][n]++
		return nil
	}); err != nil {
		return err
	}
	for i, w := range ws {
		acked := make([]bool, w.sent*killPoints)
		for _, a := range w.acked {
			for n := a[0] * killPoints; n < a[1]*killPoints; n++ {
				acked[n] = true
			}
		}
		for s := range seen[i] {
			for n, times := range seen[i][s] {
				switch {
				case acked[n] && times == 0:
					r.Lost++
				case !acked[n] && times > 0:
					r.Phantom++
				}
				if acked[n] {
					r.Acked++
				}
				r.Double += int64(max(times, 1) - 1)
			}
		}
	}
	// The view shows one of two hot points at one time. An agent that was killed
	// may measure twice for one tick: those are not counted.
	var hidden int64
	err = conn.QueryRow(ctx, `select count(*) - count(distinct (u.id, u.at)) from (select * from headroom.store_hot_0 union all select * from headroom.store_hot_1) h, unnest(h.series, h.at) u(id, at)
		where u.id in (select id from headroom.series where name = 'bench_seq')`).Scan(&hidden)
	r.Double += hidden
	return err
}
