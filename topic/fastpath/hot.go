package fastpath

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"headroom/engine/sample"
	"headroom/lab"
	"headroom/trial"
)

// HotRow is what S1 and S2 tell of counters that many writers raise at once.
var HotRow = &lab.Lab{
	Name:     "hot-row",
	Title:    "One counter that many writers raise",
	Question: "How far does the rate of increments fall when all writers raise the same row, and what brings it back?",
	Doc: "Writers raise counters by one, each increment durable before the writer sends its next. In the base all of them raise the same row, so each waits for the others' commits. " +
		"The ingest arms send increments without waiting for each, over as many connections. " +
		"After each turn the counters must add up to exactly the increments that were acknowledged.",
	Source:   "S1",
	Then:     "MongoDB: many writers, one document, $inc",
	Uses:     trial.Server,
	Measures: []trial.Measure{lab.Rate("increments/s"), lab.WAL},
	Params: []trial.Param{
		{Name: "writers", Doc: "connections that raise counters", Default: "8", Check: whole(1, 60)},
		{Name: "rows", Doc: "counters, where they are many", Default: "10000", Check: whole(100, 10_000_000)},
		{Name: "slots", Doc: "rows that a counter is spread over in the slotted arm", Default: "64", Check: whole(1, 10_000)},
		secondsParam,
	},
	New: func(p map[string]string) (lab.Experiment, error) {
		h := hot{numbers(p)}
		rows, slots := h.int("rows"), h.int("slots")
		return lab.Experiment{
			Size: fmt.Sprintf("%d writers, %s s a turn", h.int("writers"), p["seconds"]),
			Arms: []lab.Arm{
				{Name: "one row", Doc: "All writers: UPDATE of the same row.", Then: 3e3, As: "3 k/s", Run: h.run(func(*rand.Rand, int) int64 { return 0 })},
				{Name: "uniform", Doc: "Each UPDATE hits a random row of many.", Then: 50e3, As: "50 k/s", Run: h.run(func(r *rand.Rand, _ int) int64 { return r.Int64N(rows) })},
				{Name: "slots", Doc: "The counter is a sum over slots; each UPDATE hits a random one.", Run: h.run(func(r *rand.Rand, _ int) int64 { return r.Int64N(slots) })},
				{Name: "counter_add", Doc: "`headroom.counter_add` of the SQL kit: all writers raise one counter, each takes a slot that is free.", Run: h.counter()},
				{Name: "ingest, one row", Doc: "`headroom ingest --add`: increments of one row, summed per flush; each is acknowledged once its flush is durable.", Run: h.ingest(func(s uint64) *sample.Keys { return sample.Uniform(1, s) })},
				{Name: "ingest, uniform", Doc: "The same over random rows.", Run: h.ingest(func(s uint64) *sample.Keys { return sample.Uniform(rows, s) })},
				{Name: "ingest, Zipf 1.2", Doc: "The same where few rows get most.", Run: h.ingest(func(s uint64) *sample.Keys { return sample.Zipf(rows, 1.2, s) })},
			},
			Claims: []lab.Claim{
				{Text: "a slotted counter, against rows that nobody shares", Arm: "slots", Over: "uniform"},
				{Text: "few rows that get most, against random ones", Arm: "ingest, Zipf 1.2", Over: "ingest, uniform"},
			},
			Setup: func(ctx context.Context, s *lab.Stand, _ func(string)) error {
				if err := kit(ctx, s); err != nil {
					return err
				}
				return s.Exec(ctx, "create table counters (id bigint primary key, n bigint not null) with (fillfactor = 50)", "select headroom.counter_create('slotted')")
			},
			Disk: 3 << 30,
		}, nil
	},
}

type hot struct{ numbers }

// fresh sets all counters to 0.
func (h hot) fresh(ctx context.Context, s *lab.Stand) error {
	rows := max(h.int("rows"), h.int("slots"))
	return s.Exec(ctx, "truncate counters", fmt.Sprintf("insert into counters select i, 0 from generate_series(0, %d) i", rows-1), "vacuum analyze counters")
}

// run is an arm; which says which row a writer raises next.
func (h hot) run(which func(r *rand.Rand, writer int) int64) func(context.Context, *lab.Turn) error {
	return func(ctx context.Context, t *lab.Turn) error {
		if err := h.fresh(ctx, t.Stand); err != nil {
			return err
		}
		g, err := connect(ctx, t.Stand, int(h.int("writers")))
		if err != nil {
			return err
		}
		acked, err := h.raise(ctx, t, g, "update counters set n = n + 1 where id = $1", func(r *rand.Rand, i int) any { return which(r, i) })
		if err = errors.Join(err, g.close()); err != nil {
			return err
		}
		return added(ctx, t, "select sum(n)::text from counters", acked)
	}
}

func (h hot) raise(ctx context.Context, t *lab.Turn, g group, sql string, which func(*rand.Rand, int) any) (acked int64, err error) {
	rngs := make([]*rand.Rand, len(g))
	for i, c := range g {
		if _, err := c.Prepare(ctx, "raise", sql); err != nil {
			return 0, fmt.Errorf("prepare the update: %w", err)
		}
		rngs[i] = rand.New(rand.NewPCG(t.Seed, uint64(i)))
	}
	err = t.Time(ctx, func(ctx context.Context) (int64, error) {
		acked, err = g.during(ctx, h.time("seconds"), func(ctx context.Context, i int) (int, error) {
			tag, err := g[i].Exec(ctx, "raise", which(rngs[i], i))
			return int(tag.RowsAffected()), err // of counter_add: its one row
		})
		return acked, err
	})
	return acked, err
}

// counter is the arm of the SQL kit's counters.
func (h hot) counter() func(context.Context, *lab.Turn) error {
	return func(ctx context.Context, t *lab.Turn) error {
		if err := t.Exec(ctx, "truncate slotted"); err != nil {
			return err
		}
		g, err := connect(ctx, t.Stand, int(h.int("writers")))
		if err != nil {
			return err
		}
		acked, err := h.raise(ctx, t, g, "select headroom.counter_add('slotted', $1)", func(*rand.Rand, int) any { return "hits" })
		if err = errors.Join(err, g.close()); err != nil {
			return err
		}
		return added(ctx, t, "select headroom.counter_read('slotted', 'hits')::text", acked)
	}
}

// added holds an arm to what it acknowledged.
func added(ctx context.Context, t *lab.Turn, sql string, acked int64) error {
	sum, err := one(ctx, t.Stand, sql)
	if err == nil && sum != fmt.Sprint(acked) {
		err = fmt.Errorf("check the counters: they add up to %s, %d increments were acknowledged", sum, acked)
	}
	return err
}
