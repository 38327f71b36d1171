package store

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"headroom/fail"
	"headroom/host"
)

// Options says where the store is and how it is kept.
type Options struct {
	DSN       string               // as libpq's; a superuser is not needed, CREATE on the database is
	Retention Retention            // the zero value: the default, 1m:14d,1h:2y,1d:forever with raw:2d
	Holder    string               // name of this process, told to a second one that wants the same store
	Now       func() time.Time     // the machine's clock, which may jump; nil: time.Now
	Lived     func() time.Duration // how much time passed, by a clock that does not jump; nil: since Open
	Log       func(string)         // one line each; nil: nowhere
	HeadBytes int64                // memory for points that are not packed yet; 0: 96 MiB
	MaxSeries int64                // more are refused; 0: 2,000,000
	Readers   int                  // connections for queries; 0: 4
}

// Store is one store in one PostgreSQL database. One process writes at a time.
// All methods are safe for concurrent use.
type Store struct {
	o     Options
	cfg   *pgx.ConnConfig
	read  *pgxpool.Pool // queries
	maint *pgxpool.Pool // packing, roll-ups: one connection, long time limit
	citus bool
	seed  maphash.Seed

	wmu       sync.Mutex // one writer
	closed    bool
	writer    *pgx.Conn // holds the store's lock; nil after it broke
	epoch     int64     // of our hold
	seq       int64     // of the last write
	hot       int       // which of the two hot tables is written
	frozen    bool      // the other hot table waits to be packed
	frozenSeq int64     // of the last write into it
	nids      int64     // series that the table holds, about
	rows      []written // room of the last write's
	out       hotRows

	head *head
	full chan struct{} // memory for points is full

	mmu       sync.Mutex // one pass of maintenance
	packed    time.Time  // when hours were packed last, by our clock
	packedAt  time.Time  // the same with the monotonic clock
	emu       sync.Mutex
	passError error // of the last pass
	clock     trusted
}

// Open connects, brings the schema up to this version, and takes the store for
// this process until Close. Errors: another process holds it (named); the
// schema is of a newer program; a pooler is between.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	cfg, err := host.ParseDSN(o.DSN)
	if err != nil {
		return nil, err
	}
	s := &Store{o: o, epoch: -1, cfg: cfg, seed: maphash.MakeSeed(), packedAt: time.Now(), full: make(chan struct{}, 1)}
	s.head = newHead()
	s.clock.lived = o.Lived()
	set(cfg)
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s, nil
}

func (o *Options) defaults() error {
	now := o.Now
	if now == nil {
		now = time.Now
	}
	// Between two readings of time.Now a jump would not show: their difference is
	// that of the clock that does not jump.
	o.Now = func() time.Time { return now().Round(0) }
	if o.Lived == nil {
		began := time.Now()
		o.Lived = func() time.Duration { return time.Since(began) }
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.HeadBytes == 0 {
		o.HeadBytes = 96 << 20
	}
	if o.MaxSeries == 0 {
		o.MaxSeries = 2_000_000
	}
	if o.Readers == 0 {
		o.Readers = 4
	}
	if o.Holder == "" {
		o.Holder = "headroom"
	}
	if o.Retention.zero() {
		o.Retention = DefaultRetention()
	}
	return o.Retention.check()
}

// set gives a connection what all of ours have: a name, limits, and nothing
// that an object in another schema or a time zone could change.
func set(cfg *pgx.ConnConfig) {
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "headroom"
	}
	maps.Copy(cfg.RuntimeParams, map[string]string{
		"search_path": "pg_catalog", "timezone": "UTC", "lock_timeout": "5s", "statement_timeout": "60s",
		"idle_in_transaction_session_timeout": "60s", "client_min_messages": "warning", "jit": "off",
	})
	cfg.ConnectTimeout = 10 * time.Second
}

func (s *Store) open(ctx context.Context) error {
	var err error
	if s.read, err = s.pool(ctx, s.o.Readers, "30s"); err != nil {
		return err
	}
	if s.maint, err = s.pool(ctx, 2, "15min"); err != nil {
		return err
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	return s.distribute(ctx)
}

func (s *Store) pool(ctx context.Context, n int, limit string) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	pc.ConnConfig = s.cfg.Copy()
	pc.ConnConfig.RuntimeParams["statement_timeout"] = limit
	pc.MaxConns, pc.MinConns = int32(n), 0
	pc.MaxConnIdleTime = 5 * time.Minute
	return pgxpool.NewWithConfig(ctx, pc)
}

// Close gives the store back. Points that are not packed yet stay in the hot
// tables.
func (s *Store) Close() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.closed = true
	s.drop()
	if s.maint != nil {
		s.maint.Close()
	}
	if s.read != nil {
		s.read.Close()
	}
}

// drop closes the writer's connection, and with it ends our hold.
func (s *Store) drop() {
	if s.writer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = s.writer.Close(ctx)
		s.writer = nil
	}
}

// storeLock is the advisory lock of whoever writes: "headroom" as a number.
const storeLock int64 = 0x68656164726f6f6d

// take connects, takes the lock, and reads what was written but not packed if
// anybody else may have written since we held the store last.
func (s *Store) take(ctx context.Context) error {
	if s.closed {
		return errors.New("the store was closed")
	}
	c, err := pgx.ConnectConfig(ctx, s.cfg.Copy())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := s.hold(ctx, c); err != nil {
		_ = c.Close(ctx)
		return err
	}
	s.writer = c
	if err := s.catchUp(ctx); err != nil {
		s.drop()
		return err
	}
	return nil
}

func (s *Store) hold(ctx context.Context, c *pgx.Conn) error {
	var pid uint32
	var ours, recovery bool
	err := c.QueryRow(ctx, "select pg_backend_pid(), pg_is_in_recovery()").Scan(&pid, &recovery)
	if err != nil {
		return err
	}
	if pid != c.PgConn().PID() {
		return fail.Hint(errors.New("a connection pooler answers, and the store's lock needs a connection of its own"), "give --store the server's own address and port")
	}
	if recovery {
		return fail.Hint(errors.New("the server is a standby and takes no writes"), "give --store the primary")
	}
	// Whoever held it may be gone a moment ago: its back end ends what it does
	// before it sees that.
	for range 30 {
		if err := c.QueryRow(ctx, "select pg_try_advisory_lock($1)", storeLock).Scan(&ours); err != nil {
			return err
		}
		if ours {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	if !ours {
		return s.taken(ctx, c)
	}
	return s.sign(ctx, c)
}

func (s *Store) taken(ctx context.Context, c *pgx.Conn) error {
	var name string
	var pid int
	var since time.Time
	if err := c.QueryRow(ctx, "select holder, pid, since from headroom.store_state").Scan(&name, &pid, &since); err != nil {
		return err
	}
	return fail.Hint(fmt.Errorf("the store is %w: %s (process %d, since %s)", ErrHeld, name, pid, since.UTC().Format(time.RFC3339)),
		"stop that one, or give this one a database of its own with --store")
}

// sign writes down that the store is ours. Where nobody signed since we did,
// what we know still holds.
func (s *Store) sign(ctx context.Context, c *pgx.Conn) error {
	var before int64
	if err := c.QueryRow(ctx, "select epoch from headroom.store_state").Scan(&before); err != nil {
		return err
	}
	if before != s.epoch {
		s.head.forget()
		s.seq, s.frozen = 0, false
	}
	err := c.QueryRow(ctx, `update headroom.store_state set epoch = epoch + 1, holder = $1, pid = $2, since = now() returning epoch`,
		s.o.Holder, pid()).Scan(&s.epoch)
	return err
}
