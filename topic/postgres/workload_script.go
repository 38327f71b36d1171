package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"headroom/engine/loop"
	"headroom/engine/pgscript"
	"headroom/engine/pgwire"
	"headroom/fail"
	"headroom/trial"
	"headroom/unit"
)

// TPCB runs the transactions that pgbench runs by default.
var TPCB = &trial.Workload{
	Name: "pg.tpcb",
	Doc: "pgbench's default transaction, TPC-B (sort of): three updates, a select and an insert, on tables of its own. " +
		"Many small commits: it shows what syncing, group commit and row locks cost (S18).",
	Uses:     trial.Server,
	Params:   benchParams,
	Measures: scriptMeasures,
	New:      builtinWork(pgscript.TPCB),
}

// Select runs pgbench's select-only transaction.
var Select = &trial.Workload{
	Name:     "pg.select",
	Doc:      "pgbench's select-only transaction: one row by its primary key. It shows caching and what a round trip costs (S18).",
	Uses:     trial.Server,
	Params:   benchParams,
	Measures: scriptMeasures,
	New:      builtinWork(pgscript.SelectOnly),
}

// Script runs the user's own transactions.
var Script = &trial.Workload{
	Name: "pg.script",
	Doc: "Your own transactions, written as pgbench scripts (\\set, random functions, \\if, \\gset, pipelines), each file with a weight. " +
		"A private server is empty: name an SQL file that makes your tables with setup=FILE.",
	Uses: trial.Server,
	Params: append([]trial.Param{
		{Name: "files", Doc: "script files with weights: FILE@3,FILE", Default: ""},
		{Name: "vars", Doc: "variables for the scripts: NAME=VALUE,NAME=VALUE", Default: ""},
		{Name: "setup", Doc: "SQL file that makes the tables and rows", Default: ""},
		{Name: "teardown", Doc: "SQL file that removes them, run on a live server afterwards", Default: ""},
		{Name: "tries", Doc: "how often a transaction is tried after a serialization failure or deadlock", Default: "1", Check: whole(1, 1000)},
		{Name: "scale", Doc: "pgbench's tables of this scale, too; 0: none", Default: "0", Check: whole(0, 100_000)},
	}, clientParams...),
	Measures: scriptMeasures,
	New:      scriptWork,
}

var clientParams = []trial.Param{
	{Name: "clients", Doc: "connections", Default: "4", Check: whole(1, 1000)},
	{Name: "protocol", Doc: "simple, extended or prepared", Default: "prepared", Check: oneOf("simple", "extended", "prepared")},
	{Name: "connect", Doc: "once, or each: a new connection for every transaction", Default: "once", Check: oneOf("once", "each")},
}

var benchParams = append([]trial.Param{
	{Name: "scale", Doc: "size of the tables: 100,000 accounts each, about 15 MB", Default: "10", Check: whole(1, 100_000)},
}, clientParams...)

var scriptMeasures = append([]trial.Measure{{Name: "rate", Unit: unit.PerSecond, Higher: true, Noun: "transactions/s"}}, latencyMeasures("a transaction")...)

// scripted is the work of all three.
type scripted struct {
	scripts         []pgscript.Weighted
	clients, tries  int
	scale           int // of pgbench's tables; 0: none
	protocol        pgscript.Protocol
	newConn         bool
	vars            map[string]string
	setup, teardown string // SQL
	home            *schema
	made            *bool // the setup file ran through
}

func builtinWork(script func() *pgscript.Script) func(map[string]string) (trial.Work, error) {
	return func(p map[string]string) (trial.Work, error) {
		w, err := scriptedOf(p)
		w.scripts = []pgscript.Weighted{{Script: script(), Weight: 1}}
		return w, err
	}
}

func scriptedOf(p map[string]string) (scripted, error) {
	w := scripted{protocol: pgscript.Protocol(p["protocol"]), newConn: p["connect"] == "each", tries: 1, home: &schema{}, made: new(bool)}
	var err1, err2 error
	w.clients, err1 = strconv.Atoi(p["clients"])
	w.scale, err2 = strconv.Atoi(p["scale"])
	return w, errors.Join(err1, err2)
}

func scriptWork(p map[string]string) (trial.Work, error) {
	w, err := scriptedOf(p)
	if err != nil {
		return nil, err
	}
	if w.tries, err = strconv.Atoi(p["tries"]); err != nil {
		return nil, err
	}
	if w.scripts, err = readScripts(p["files"]); err != nil {
		return nil, err
	}
	w.vars = map[string]string{}
	for _, v := range split(p["vars"]) {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("read parameter vars: %q is not NAME=VALUE", v)
		}
		w.vars[name] = value
	}
	for name, to := range map[string]*string{"setup": &w.setup, "teardown": &w.teardown} {
		if p[name] == "" {
			continue
		}
		b, err := os.ReadFile(p[name])
		if err != nil {
			return nil, fmt.Errorf("read parameter %s: %w", name, err)
		}
		*to = string(b)
	}
	return w, nil
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// readScripts reads "FILE@3,FILE": each file with its weight, 1 if none.
func readScripts(list string) ([]pgscript.Weighted, error) {
	var out []pgscript.Weighted
	for _, f := range split(list) {
		path, weight := f, 1
		if i := strings.LastIndexByte(f, '@'); i >= 0 {
			n, err := strconv.Atoi(f[i+1:])
			if err != nil || n < 1 {
				return nil, fmt.Errorf("read parameter files: %q: the weight is a whole number from 1 up", f)
			}
			path, weight = f[:i], n
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read parameter files: %w", err)
		}
		s, err := pgscript.Parse(path, string(src))
		if err != nil {
			return nil, err
		}
		out = append(out, pgscript.Weighted{Script: s, Weight: weight})
	}
	if len(out) == 0 {
		return nil, fail.Hint(errors.New("read parameter files: none is named"), "name them: --param files=read.sql@3,write.sql")
	}
	return out, nil
}

// Size is about what pgbench's tables take on disk, in bytes.
func (w scripted) Size() int64 { return int64(w.scale) * 16 * unit.MB }

// Setup implements trial.Work.
func (w scripted) Setup(ctx context.Context, s *trial.Stand, say func(string)) error {
	if s.Live && w.setup != "" && w.teardown == "" {
		return fail.With(fail.Hint(errors.New("set up pg.script: what setup makes on a live server could not be taken away again"),
			"name an SQL file that removes it with teardown=FILE, or leave setup out"), fail.Usage)
	}
	if w.scale > 0 {
		say(fmt.Sprintf("filling pgbench's tables, scale %d", w.scale))
		if err := w.fill(ctx, s, say); err != nil {
			return fmt.Errorf("set up pgbench's tables: %w", err)
		}
	}
	if w.setup != "" {
		say("running the setup file")
		if err := script(ctx, s.DSN, w.setup); err != nil {
			return fail.Hint(fmt.Errorf("run the setup file: %w", err), "correct it; the teardown file was not run: what is there may be somebody else's")
		}
		*w.made = true
	}
	return nil
}

// fill makes pgbench's tables anew in our own schema.
func (w scripted) fill(ctx context.Context, s *trial.Stand, say func(string)) error {
	if err := w.home.make(ctx, s, say); err != nil {
		return err
	}
	c, err := pgwire.Connect(ctx, inSchema(s.DSN))
	if err != nil {
		return err
	}
	return errors.Join(pgscript.Init(ctx, c, w.scale), c.Close())
}

// inSchema is a connection string with our schema first in the search path.
func inSchema(dsn string) string {
	const path = trialSchema + `, "$user", public`
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		sep := "?"
		if strings.Contains(dsn, "?") {
			sep = "&"
		}
		return dsn + sep + "search_path=" + url.QueryEscape(path)
	}
	return dsn + " search_path='" + path + "'"
}

// Teardown implements trial.Work.
func (w scripted) Teardown(ctx context.Context, s *trial.Stand) error {
	var err error
	if w.teardown != "" && (*w.made || w.setup == "") {
		if err = script(ctx, s.DSN, w.teardown); err != nil {
			err = fmt.Errorf("run the teardown file: %w", err)
		}
	}
	if w.scale > 0 {
		err = errors.Join(err, w.home.remove(ctx, s))
	}
	return err
}

// Open implements trial.Work.
func (w scripted) Open(ctx context.Context, s *trial.Stand) (trial.Session, error) {
	dsn := s.DSN
	if err := w.home.keep(ctx, s); err != nil {
		return nil, err
	}
	if w.scale > 0 {
		dsn = inSchema(dsn)
	}
	d, err := pgscript.Open(ctx, pgscript.Options{Options: loop.Options{Clients: w.clients}, DSN: dsn, Scripts: w.scripts,
		Protocol: w.protocol, Vars: w.vars, MaxTries: w.tries, NewConnEach: w.newConn})
	if err != nil {
		return nil, err
	}
	return scripting{d}, nil
}

type scripting struct{ *pgscript.Driver }

// Run implements trial.Session.
func (s scripting) Run(ctx context.Context, d time.Duration, o trial.RoundOptions) (trial.Round, error) {
	s.Tune(o.Seed, o.Rate, o.Throttle)
	r, err := s.Driver.Run(ctx, d)
	if err != nil {
		return trial.Round{}, err
	}
	return roundOf(r.Result, 1), nil
}
