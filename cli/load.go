package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headroom/engine/bulkload"
	"headroom/engine/record"
	"headroom/fail"
	"headroom/host"
	"headroom/report"
	"headroom/trial"
	"headroom/unit"
)

// loading is what the flags of load hold.
type loading struct {
	machine
	o                        bulkload.Options
	format, null, maxRecord  string
	delimiter, quote, escape string
	header, create, unlogged bool
	plan                     bool
	key                      []string
}

func (a *app) load() *cobra.Command {
	var l loading
	c := &cobra.Command{
		Use:   "load FILE --into TABLE",
		Short: "Load a file into a table the fastest safe way, or show how with --plan",
		Long: `Loads CSV, TSV, COPY text or JSON lines (plain, gzip or zstd, a file or - for
standard input) into a table. It looks at the table and decides which indexes and
keys to keep and which to drop and build again, sends the input over several
connections, and builds what was dropped side by side. --plan shows all of that
with estimated times and changes nothing.

Bad records go to a file with line, column and reason; the rest loads. With
--atomic the first bad record ends it and nothing is loaded.

Each chunk of the input is committed with a note of itself, and definitions are
stored before anything is dropped: after a kill or a crash, load resume goes on
with what is missing, and load restore puts the table back as it was.

Indexes and keys of a table that holds rows are only dropped with --offline:
others may need them. Exit status: 0 loaded (also with rejected records); 1 an
error, nothing changed or the load is open (the hint says so); 6 failed, and the
table was put back; 7 failed, and putting it back failed; 130 interrupted.`,
		Example: `  headroom load people.tsv --into people --plan
  headroom load people.tsv --into people --rejects people.rejects
  headroom load events.csv.gz --into events --create --key id
  headroom load feb.csv --into readings_2026_02 --partition-of readings --values "FROM ('2026-02-01') TO ('2026-03-01')"
  headroom load - --into people --format csv --atomic`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l.o.Path = args[0]
			return a.runLoad(c.Context(), c, &l)
		},
	}
	l.inputFlags(c)
	l.tableFlags(c)
	a.loadFlags(c, &l)
	for _, sub := range []*cobra.Command{a.loadResume(), a.loadRestore(), a.loadList()} {
		sub.Args = usageArgs(sub.Args)
		c.AddCommand(sub)
	}
	return c
}

func (l *loading) inputFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&l.format, "format", "", "csv, tsv, text or ndjson (default: by the file's name, then its content)")
	f.BoolVar(&l.header, "header", false, "the first record names the columns (default: if it does)")
	f.StringVar(&l.delimiter, "delimiter", "", "one character between fields; tab may be written \\t")
	f.StringVar(&l.quote, "quote", "", "quote of CSV (default \")")
	f.StringVar(&l.escape, "escape", "", "escape of CSV (default: the quote)")
	f.StringVar(&l.null, "null", "", "text that stands for NULL (default: nothing in CSV, \\N else)")
	f.StringVar(&l.o.Encoding, "encoding", "", "encoding of the input, as PostgreSQL names it (default UTF8)")
	f.StringSliceVar(&l.o.Columns, "columns", nil, "columns of the input in their order, - for one to leave out; for JSON: column=path,… (. is the whole document)")
	f.StringVar(&l.o.Rejects, "rejects", "", "file for bad records, appended to (default: the input's name with .rejects, in the working folder)")
	f.StringVar(&l.maxRecord, "max-record", "16MB", "largest record taken, up to 1GB; longer ones are bad. Memory grows with it")
	f.Int64Var(&l.o.MaxRejects, "max-rejects", -1, "give up, and put the table back, after so many bad records (default: any number)")
}

func (l *loading) tableFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&l.o.Table, "into", "", "the table, as in SQL")
	f.BoolVar(&l.create, "create", false, "make the table, with types guessed from the first records")
	f.StringSliceVar(&l.key, "key", nil, "with --create: columns of the primary key")
	f.BoolVar(&l.unlogged, "unlogged", false, "with --create: an UNLOGGED table, emptied by a crash")
	f.BoolVar(&l.o.Truncate, "truncate", false, "empty the table first")
	f.BoolVar(&l.o.Atomic, "atomic", false, "one transaction: all or nothing")
	f.StringVar(&l.o.Indexes, "indexes", "auto", "auto, keep or drop")
	f.BoolVar(&l.o.Offline, "offline", false, "nobody else uses the table now: its indexes and keys may go for the time of the load")
	f.BoolVar(&l.o.NoTriggers, "no-triggers", false, "disable the table's triggers for the time of the load")
	f.BoolVar(&l.o.Sorted, "sorted", false, "keep the input's order in the table: one connection")
	f.StringVar(&l.o.PartitionOf, "partition-of", "", "load beside this table, then attach as its partition")
	f.StringVar(&l.o.Values, "values", "", "the partition's bound: FROM (…) TO (…) or IN (…)")
	f.IntVar(&l.o.Connections, "connections", 0, "connections that carry rows (default: as the plan finds right)")
	f.DurationVar(&l.o.LockTimeout, "lock-timeout", 0, "how long to wait for the table before giving up (default 3s)")
	f.BoolVar(&l.plan, "plan", false, "show what would be done, with estimated times, and change nothing")
}

// loadFlags are those of load and of the verbs below it.
func (a *app) loadFlags(c *cobra.Command, l *loading) {
	c.Flags().StringVar(&l.db, "db", "", "the PostgreSQL server, as libpq takes it: URL, or keyword=value; default: PG* variables, then the local socket")
	a.outputFlag(c)
}

// connect fills in what all verbs of load need.
func (l *loading) connect(a *app) error {
	l.machine.open(a).Close()
	cfg, err := host.ParseDSN(l.db)
	if err != nil {
		return err
	}
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	l.o.Config, l.o.Dir, l.o.Stdin, l.o.Say = cfg, filepath.Join(dirs.State, "load"), a.in, a.progress
	return nil
}

// read takes the flags that are not values of the options.
func (l *loading) read(c *cobra.Command) error {
	if l.format != "" {
		f, err := record.ParseFormat(l.format)
		if err != nil {
			return err
		}
		l.o.Format = &f
	}
	if c.Flags().Changed("header") {
		l.o.Header = &l.header
	}
	if c.Flags().Changed("null") {
		l.o.Null = &l.null
	}
	for _, x := range []struct {
		name, text string
		to         *byte
	}{{"delimiter", l.delimiter, &l.o.Delimiter}, {"quote", l.quote, &l.o.Quote}, {"escape", l.escape, &l.o.Escape}} {
		text := strings.NewReplacer(`\t`, "\t").Replace(x.text)
		if len(text) > 1 {
			return fail.With(fmt.Errorf("read --%s: %q is not one ASCII character", x.name, x.text), fail.Usage)
		}
		if text != "" {
			*x.to = text[0]
		}
	}
	size, u, err := unit.Parse(l.maxRecord)
	if err != nil || u != unit.Byte || size < 1024 || size > record.MaxRecord+1 {
		return fail.With(fail.Hint(fmt.Errorf("read --max-record %q: not a size between 1kB and 1GB", l.maxRecord), "write: --max-record 64MB"), fail.Usage)
	}
	l.o.MaxRecord = int(min(size, record.MaxRecord))
	if l.create {
		l.o.Create = &bulkload.Create{Key: l.key, Unlogged: l.unlogged}
	} else if len(l.key) > 0 || l.unlogged {
		return fail.With(errors.New("read --key and --unlogged: they are for tables that --create makes"), fail.Usage)
	}
	if l.o.Rejects == "" && !l.o.Atomic {
		l.o.Rejects = "stdin.rejects"
		if l.o.Path != "-" {
			l.o.Rejects = filepath.Base(l.o.Path) + ".rejects"
		}
	}
	return nil
}

func (a *app) runLoad(ctx context.Context, c *cobra.Command, l *loading) error {
	if err := l.read(c); err != nil {
		return err
	}
	if err := l.connect(a); err != nil {
		return err
	}
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	if l.plan {
		p, err := bulkload.Make(ctx, l.o)
		if err != nil {
			return err
		}
		return out.Print("Headroom: load", report.LoadPlan(p))
	}
	res, err := a.watched(l, func() (*bulkload.Result, error) { return bulkload.Run(ctx, l.o) })
	if err != nil {
		return err
	}
	return out.Print("Headroom: load", report.Loaded(res))
}

// watched runs a load with its progress on standard error.
func (a *app) watched(l *loading, f func() (*bulkload.Result, error)) (*bulkload.Result, error) {
	// Rather collect garbage early than take memory from the server beside us.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(96 << 20))
	progress := report.NewProgress(a.err, os.Getenv)
	defer progress.Done()
	l.o.Say = progress.Note
	l.o.Progress = func(p bulkload.Progress) {
		text := ""
		if p.Rows > 0 {
			text = fmt.Sprintf("%s rows, %s rows/s", unit.Format(float64(p.Rows), unit.Count), unit.Format(float64(p.Rows)/max(p.Elapsed.Seconds(), 0.001), unit.Count))
		}
		if p.Bytes > 0 {
			text += ", " + unit.Bytes(p.Bytes)
		}
		if p.Total > 0 && p.Bytes > 0 {
			text += fmt.Sprintf(" of %s", unit.Bytes(p.Total))
		}
		if p.Rejected > 0 {
			text += fmt.Sprintf(", %d rejected", p.Rejected)
		}
		progress.Event(trial.Event{Phase: trial.Phase(p.Phase), Text: text})
	}
	return f()
}

func (a *app) loadResume() *cobra.Command {
	var l loading
	c := &cobra.Command{
		Use:   "resume [LOAD]",
		Short: "Go on with a load that was interrupted: nothing comes twice",
		Long: `Goes on with a load after a kill, a crash of the server or an interruption: what
is committed stays, what is missing comes in, and what was dropped is built
again. A load of standard input needs the same input once more. Without an ID it
is the only load that is open.`,
		Example: "  headroom load resume\n  headroom load resume 20261120-101500-7f3a --max-rejects 1000",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runAgain(&l, func(out *report.Output) error {
				res, err := a.watched(&l, func() (*bulkload.Result, error) {
					return bulkload.Resume(c.Context(), bulkload.Reference{Options: l.o, ID: strings.Join(args, "")})
				})
				if err != nil {
					return err
				}
				return out.Print("Headroom: load", report.Loaded(res))
			})
		},
	}
	a.loadFlags(c, &l)
	c.Flags().StringVar(&l.o.Path, "from", "", "where the input is now, if it has moved")
	c.Flags().Int64Var(&l.o.MaxRejects, "max-rejects", 0, "another limit for bad records (default: that of the load)")
	return c
}

func (a *app) loadRestore() *cobra.Command {
	var l loading
	var keep bool
	c := &cobra.Command{
		Use:   "restore [LOAD]",
		Short: "Take an interrupted load back: its rows go, indexes and keys come back",
		Long: `Puts the table back as it was before a load that was interrupted: the rows of the
load are taken out, and what was dropped is built again from the definitions
that were stored. With --keep-rows the rows that are in stay. Without an ID it
is the only load that is open.`,
		Example: "  headroom load restore\n  headroom load restore 20261120-101500-7f3a --keep-rows",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runAgain(&l, func(out *report.Output) error {
				res, err := a.watched(&l, func() (*bulkload.Result, error) {
					return bulkload.Restore(c.Context(), bulkload.Reference{Options: l.o, ID: strings.Join(args, "")}, keep)
				})
				if err != nil {
					return err
				}
				return out.Print("Headroom: load", report.Restored(res, keep))
			})
		},
	}
	a.loadFlags(c, &l)
	c.Flags().BoolVar(&keep, "keep-rows", false, "let the rows that are in stay")
	return c
}

func (a *app) loadList() *cobra.Command {
	var l loading
	c := &cobra.Command{
		Use:     "list",
		Short:   "List loads into a database, and in what state they are",
		Example: "  headroom load list\n  headroom load list -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.runAgain(&l, func(out *report.Output) error {
				ctx, stop := context.WithTimeout(c.Context(), time.Minute)
				defer stop()
				all, err := bulkload.List(ctx, l.o)
				if err != nil {
					return err
				}
				return out.Print("Headroom: loads", report.Loads(all))
			})
		},
	}
	a.loadFlags(c, &l)
	return c
}

// runAgain is what the verbs on loads that were begun have in common.
func (a *app) runAgain(l *loading, f func(*report.Output) error) error {
	if err := l.connect(a); err != nil {
		return err
	}
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	return f(out)
}
