package fastpath

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/sqlkit"
	"headroom/lab"
	"headroom/trial"
	"headroom/unit"
)

// each is the time of one query, of as many as fit into a turn.
var each = trial.Measure{Name: "each", Unit: unit.Second, Noun: "time of a query"}

// firstRow is the time until the first row is there.
var firstRow = trial.Measure{Name: "first_row", Unit: unit.Second, Noun: "time to the first row"}

// Distinct is what S2 wanted of a document store and did not get.
var Distinct = &lab.Lab{
	Name:     "distinct",
	Title:    "The distinct first column of a composite key",
	Question: "How long does it take to list the distinct keys of a table with a key of (id, time), and to get the first of them?",
	Doc: "A table with the key (id, ts) holds few ids and many times each. Each arm lists the ids through a cursor, the first row by itself, then the rest. " +
		"All must list the same ids in the same order.",
	Source:   "S2",
	Then:     "500 M rows; wanted: streamed from the index, first row at once, no full scan",
	Uses:     trial.Server,
	Measures: []trial.Measure{each, firstRow},
	Params: []trial.Param{
		{Name: "rows", Doc: "rows in the table", Default: "2000000", Check: whole(1000, 1_000_000_000)},
		{Name: "values", Doc: "distinct ids", Default: "1000", Check: whole(1, 10_000_000)},
		{Name: "seconds", Doc: "how long each turn repeats its query; once at least", Default: "0.3", Check: seconds},
	},
	New: func(p map[string]string) (lab.Experiment, error) {
		n := numbers(p)
		rows, values := n.int("rows"), n.int("values")
		if values > rows {
			return lab.Experiment{}, fmt.Errorf("read parameters of lab distinct: %d values in %d rows", values, rows)
		}
		q := query{within: n.time("seconds")}
		return lab.Experiment{
			Size: fmt.Sprintf("%d distinct ids in %d rows; the source had 500 M rows", values, rows),
			Arms: []lab.Arm{
				{Name: "SELECT DISTINCT", Doc: "As one would write it, sorted.", Run: q.run("select distinct id from readings order by id")},
				{Name: "by hand", Doc: "A recursive query that jumps from id to id in the index.", Run: q.run(`with recursive ids (id) as (
	(select id from readings order by id limit 1)
	union all
	select (select r.id from readings r where r.id > ids.id order by r.id limit 1) from ids where ids.id is not null)
select id from ids where id is not null`)},
				{Name: "distinct_keys", Doc: "The same through `headroom.distinct_keys` of the SQL kit, which finds the index by itself.", Run: q.run("select k ->> 'id' from headroom.distinct_keys('readings', 'id') k")},
			},
			Claims: []lab.Claim{{Text: "the SQL kit, against the recursive query by hand", Arm: "distinct_keys", Over: "by hand"}},
			Setup: func(ctx context.Context, s *lab.Stand, say func(string)) error {
				say(fmt.Sprintf("making %d rows", rows))
				if err := kit(ctx, s); err != nil {
					return err
				}
				return s.Exec(ctx, "create unlogged table readings (id bigint not null, ts timestamptz not null, v real not null)",
					fmt.Sprintf("insert into readings select i %% %d, '2026-01-01'::timestamptz + i / %d * interval '1 s', i from generate_series(0, %d) i", values, values, rows-1),
					"alter table readings add primary key (id, ts)", "vacuum (analyze, freeze) readings")
			},
			Disk: rows*200 + 1<<30,
		}, nil
	},
}

// kit installs the SQL kit, as `headroom sql install` does.
func kit(ctx context.Context, s *lab.Stand) error {
	c, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	_, err = sqlkit.Install(ctx, c)
	return err
}

// query repeats one query until a turn is over.
type query struct{ within time.Duration }

func (q query) run(sql string) func(context.Context, *lab.Turn) error {
	return func(ctx context.Context, t *lab.Turn) error {
		g, err := connect(ctx, t.Stand, 1)
		if err != nil {
			return err
		}
		return errors.Join(q.repeat(ctx, t, g[0], sql), g.close())
	}
}

func (q query) repeat(ctx context.Context, t *lab.Turn, c *pgx.Conn, sql string) error {
	var all, first time.Duration
	var n int64
	var same string
	err := t.Time(ctx, func(ctx context.Context) (int64, error) {
		for start := time.Now(); n == 0 || time.Since(start) < q.within; n++ {
			a, f, s, err := list(ctx, c, sql)
			if err != nil {
				return n, err
			}
			if n > 0 && s != same {
				return n, errors.New("the same query gave two answers")
			}
			all, first, same = all+a, first+f, s
		}
		return n, nil
	})
	if err != nil {
		return err
	}
	t.Figure(each.Name, all.Seconds()/float64(n))
	t.Figure(firstRow.Name, first.Seconds()/float64(n))
	t.Same("answer", same)
	return nil
}

// list reads a query through a cursor, the first row by itself, and says how
// many rows there were, with a checksum of their text.
func list(ctx context.Context, c *pgx.Conn, sql string) (all, first time.Duration, same string, err error) {
	h := sha256.New()
	rows := 0
	start := time.Now()
	if err := lab.Exec(ctx, c, "begin", "declare listed no scroll cursor for "+sql); err != nil {
		return 0, 0, "", err
	}
	for _, fetch := range []string{"fetch 1 from listed", "fetch all from listed"} {
		res := c.PgConn().ExecParams(ctx, fetch, nil, nil, nil, nil)
		for res.NextRow() {
			if rows == 0 {
				first = time.Since(start)
			}
			rows++
			for _, v := range res.Values() {
				fmt.Fprintf(h, "%d:%s", len(v), v)
			}
		}
		if _, err := res.Close(); err != nil {
			return 0, 0, "", fmt.Errorf("run the query: %w", err)
		}
	}
	all = time.Since(start)
	return all, first, fmt.Sprintf("%d rows, %x", rows, h.Sum(nil)[:8]), lab.Exec(ctx, c, "commit")
}

// ValueCounts is S4: one row with the number of each value.
var ValueCounts = &lab.Lab{
	Name:     "value-counts",
	Title:    "How often each value occurs, in one jsonb value",
	Question: "What does it cost to count every value of a column into one jsonb object, and how fast can plain SQL do it?",
	Doc: "Counts the values of a column, NULLs left out, into {value: count}. The naive aggregate rewrites the object for each row, so its time grows with rows × values. " +
		"All arms must give the same object.",
	Source:   "S4",
	Then:     "no figures: the aggregate was written for its convenience",
	Uses:     trial.Server,
	Measures: []trial.Measure{each},
	Params: []trial.Param{
		{Name: "rows", Doc: "rows in the table", Default: "30000", Check: whole(100, 100_000_000)},
		{Name: "values", Doc: "distinct values", Default: "1000", Check: whole(1, 1_000_000)},
		{Name: "seconds", Doc: "how long each turn repeats its query; once at least", Default: "0.3", Check: seconds},
	},
	New: func(p map[string]string) (lab.Experiment, error) {
		n := numbers(p)
		rows, values := n.int("rows"), n.int("values")
		q := query{within: n.time("seconds")}
		return lab.Experiment{
			Size: fmt.Sprintf("%d rows, %d values", rows, values),
			Arms: []lab.Arm{
				{Name: "naive aggregate", Doc: "An aggregate in SQL that raises the value's count with jsonb_set, row by row.", Run: q.run("select naive_counts(v) from measured")},
				{Name: "GROUP BY", Doc: "A subquery that groups, and jsonb_object_agg over it.", Run: q.run("select jsonb_object_agg(v, n) from (select v, count(*) n from measured where v is not null group by v) g")},
				{Name: "value_counts", Doc: "The aggregate `headroom.value_counts` of the SQL kit.", Run: q.run("select headroom.value_counts(v) from measured")},
				{Name: "of a table", Doc: "The function `headroom.value_counts(table, column)` of the SQL kit, which groups.", Run: q.run("select headroom.value_counts('measured', 'v')")},
			},
			Claims: []lab.Claim{
				{Text: "the SQL kit, against grouping by hand", Arm: "value_counts", Over: "GROUP BY"},
				{Text: "the same of a whole table", Arm: "of a table", Over: "GROUP BY"},
			},
			Setup: func(ctx context.Context, s *lab.Stand, say func(string)) error {
				say(fmt.Sprintf("making %d rows", rows))
				if err := kit(ctx, s); err != nil {
					return err
				}
				return s.Exec(ctx, "create table measured (v text)",
					fmt.Sprintf("insert into measured select case when i %% 17 = 3 then null else 'value ' || mod(i * 7919, %d) end from generate_series(1::bigint, %d) i", values, rows),
					"vacuum analyze measured",
					`create function naive_step(state jsonb, v text) returns jsonb language sql immutable strict parallel safe as
$$ select jsonb_set(state, array[v], to_jsonb(coalesce((state ->> v)::bigint, 0) + 1)) $$`,
					"create aggregate naive_counts(text) (sfunc = naive_step, stype = jsonb, initcond = '{}')")
			},
			Disk: rows*100 + 1<<30,
		}, nil
	},
}
