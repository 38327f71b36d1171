package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"headroom/engine/ingest"
	"headroom/engine/readtable"
	"headroom/engine/upsert"
	"headroom/fail"
	"headroom/host"
	"headroom/report"
	"headroom/trial"
	"headroom/unit"
)

// ingesting is what the flags of ingest hold.
type ingesting struct {
	machine
	o                               ingest.Options
	key, columns, fields            string
	mode, durability, strategy, way string
	null, delimiter, quote, escape  string
	header                          bool
}

func (a *app) ingest() *cobra.Command {
	var g ingesting
	c := &cobra.Command{
		Use:   "ingest [FILE…] --into TABLE --key COLUMN,…",
		Short: "Upsert a stream of records into a keyed table, the fastest safe way",
		Long: `Reads JSON lines (CSV and text, too; plain, gzip or zstd) from files or standard
input and upserts each record by its key: into key columns and one document, or
into columns by name. How rows travel, in which batches and over how many
connections is measured while it runs.

Bad records (not JSON, key missing, NUL in text, a number out of range, too long)
stop the run, or go to --rejects FILE with line and reason. What is acknowledged
is printed at the end and kept in --checkpoint FILE, with which the same command
goes on where it was: no record is lost, and in mode add none is added twice.

--durability says what an acknowledged row survives: memory (UNLOGGED table, until
a crash of the server), async (all but the last moments before one), local (a crash
of server and machine; the default), replicated (the loss of the machine).

--read-table keeps an indexed copy, TABLE_read, so that the table written to needs
no index but its key: matview refreshes it as a materialized view, merge brings
over what changed.

Ctrl-C writes what was read and tells how far that is. Exit status: 0 all is in,
bad records set aside included; 1 stopped by an error; 130 interrupted.`,
		Example: `  generator | headroom ingest --into readings --key id,ts --create
  headroom ingest readings.ndjson.gz --into readings --key id,ts=meta.time --checkpoint readings.ckpt --rejects bad.tsv
  headroom ingest hits.csv --into counters --key host --mode add --add hits,bytes
  headroom ingest events.ndjson --into events --key id --read-table merge --refresh 30s --index "(doc->>'host')"`,
		RunE: func(c *cobra.Command, args []string) error {
			g.o.Inputs = args
			return a.runIngest(c.Context(), c, &g)
		},
	}
	g.flags1(c)
	g.flags2(c)
	c.Flags().StringVar(&g.db, "db", "", dbHelp)
	a.outputFlag(c)
	for _, sub := range []*cobra.Command{a.ingestFreeze(), a.ingestRefresh(), a.ingestUnread()} {
		sub.Args = usageArgs(sub.Args)
		c.AddCommand(sub)
	}
	return c
}

const dbHelp = "the PostgreSQL server, as libpq takes it: URL, or keyword=value; default: PG* variables, then the local socket"

// flags1 are those of the table and of how it is written.
func (g *ingesting) flags1(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&g.o.Into, "into", "", "the table, as in SQL")
	f.StringVar(&g.key, "key", "", "key columns: NAME [TYPE] [=PATH],…; the path is that in the record, such as meta.id (default: the name)")
	f.StringVar(&g.columns, "columns", "", "other columns, written like --key (default: the whole record in --doc; for CSV its columns)")
	f.StringVar(&g.o.Doc, "doc", "", "column of the whole record (default doc)")
	f.BoolVar(&g.o.Create, "create", false, "make the table if it is not there; types are guessed where not given")
	f.StringVar(&g.mode, "mode", "", "what becomes of a row that is there: replace, merge, ignore or add (default replace)")
	f.StringSliceVar(&g.o.Upsert.Adds, "add", nil, "with mode add: columns, or fields of the document, to add to")
	f.BoolVar(&g.o.Upsert.SkipUnchanged, "skip-unchanged", false, "leave rows alone that would become what they are")
	f.StringVar(&g.durability, "durability", "", "memory, async, local or replicated (default local)")
	f.StringVar(&g.strategy, "strategy", "", "unnest, staging or pipeline (default: measured while it runs)")
	f.IntVar(&g.o.Upsert.Batch, "batch", 0, "rows of a transaction (default: found while it runs)")
	f.IntVar(&g.o.Upsert.Connections, "connections", 0, "connections that write (default: found while it runs)")
	f.DurationVar(&g.o.Upsert.RetryFor, "retry", 0, "how long to try again while the server is away (default 5m)")
	f.StringVar(&g.way, "read-table", "", "keep an indexed copy to read from: matview or merge")
	f.DurationVar(&g.o.Refresh, "refresh", 0, "time between refreshes of the read table (default 1m)")
	f.StringArrayVar(&g.o.Indexes, "index", nil, "an index of the read table when it is made: what stands in the parentheses of CREATE INDEX, or USING …")
}

// flags2 are those of the input.
func (g *ingesting) flags2(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&g.o.Format, "format", "", "ndjson, csv, tsv or text (default: by name, else content)")
	f.BoolVar(&g.header, "header", false, "the first record names the columns (default: if it does)")
	f.StringVar(&g.fields, "fields", "", "names of the columns of input without a header, in order")
	f.StringVar(&g.delimiter, "delimiter", "", "one character between fields; tab may be written \\t")
	f.StringVar(&g.quote, "quote", "", "quote of CSV (default \")")
	f.StringVar(&g.escape, "escape", "", "escape of CSV (default: the quote)")
	f.StringVar(&g.null, "null", "", "text that stands for NULL (default: nothing in CSV, \\N else)")
	f.IntVar(&g.o.Read.MaxRecord, "max-record", 0, "longest record in bytes (default 16 MiB; memory grows with it; PostgreSQL's own limit is 1 GiB)")
	f.StringVar(&g.o.Rejects, "rejects", "", "file for bad records, appended to (default: the first one stops the run)")
	f.Int64Var(&g.o.MaxRejects, "max-rejects", 1000, "stop after so many bad records; -1: never")
	f.StringVar(&g.o.Checkpoint, "checkpoint", "", "file that keeps how far the input is in; if it is there, the run goes on from it")
}

// read takes the flags that are not values of the options.
func (g *ingesting) read(c *cobra.Command) (err error) {
	if g.o.Into == "" {
		return fail.With(fail.Hint(errors.New("no table given"), "write: headroom ingest FILE --into TABLE --key COLUMN"), fail.Usage)
	}
	if g.o.Key, err = ingest.ParseFields("--key", g.key); err != nil {
		return err
	}
	if g.o.Columns, err = ingest.ParseFields("--columns", g.columns); err != nil {
		return err
	}
	fields, err := ingest.ParseFields("--fields", g.fields)
	if err != nil {
		return err
	}
	for _, f := range fields {
		g.o.Fields = append(g.o.Fields, f.Name)
	}
	if g.o.Upsert.Mode, err = upsert.ParseMode(g.mode); err != nil {
		return err
	}
	if g.o.Upsert.Durability, err = upsert.ParseDurability(g.durability); err != nil {
		return err
	}
	if g.o.Upsert.Strategy, err = upsert.ParseStrategy(g.strategy); err != nil {
		return err
	}
	if g.way != "" {
		if g.o.ReadTable, err = readtable.ParseWay(g.way); err != nil {
			return err
		}
	} else if len(g.o.Indexes) > 0 || g.o.Refresh != 0 {
		return fail.With(errors.New("read --index and --refresh: they are for --read-table"), fail.Usage)
	}
	if c.Flags().Changed("header") {
		g.o.Header = &g.header
	}
	g.o.Read.Null, g.o.Read.HasNull = g.null, c.Flags().Changed("null")
	for _, x := range []struct {
		name, text string
		to         *byte
	}{{"delimiter", g.delimiter, &g.o.Read.Delimiter}, {"quote", g.quote, &g.o.Read.Quote}, {"escape", g.escape, &g.o.Read.Escape}} {
		text := strings.ReplaceAll(x.text, `\t`, "\t")
		if len(text) > 1 {
			return fail.With(fmt.Errorf("read --%s: %q is not one ASCII character", x.name, x.text), fail.Usage)
		}
		if text != "" {
			*x.to = text[0]
		}
	}
	return nil
}

// server reads the connection string and sees that the server answers.
func (m *machine) server(ctx context.Context, a *app) (*pgx.ConnConfig, error) {
	h := m.open(a)
	defer h.Close()
	cfg, err := host.ParseDSN(m.db)
	if err != nil {
		return nil, err
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "headroom"
	}
	return cfg, h.Ping(ctx)
}

func (a *app) runIngest(ctx context.Context, c *cobra.Command, g *ingesting) error {
	if err := g.read(c); err != nil {
		return err
	}
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	if g.o.Config, err = g.server(ctx, a); err != nil {
		return err
	}
	progress := report.NewProgress(a.err, os.Getenv)
	defer progress.Done()
	g.o.Stdin, g.o.Say = a.in, progress.Note
	var last ingest.Progress
	g.o.Progress = func(p ingest.Progress) {
		progress.Event(trial.Event{Phase: "ingesting", Text: ingestText(p, last)})
		last = p
	}
	// Garbage of large records is not let grow to as much again as is in use.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(ingestMemory))
	sum, err := ingest.Run(ctx, g.o)
	progress.Done()
	if err != nil && sum.Strategy == "" { // nothing was begun
		return err
	}
	return errors.Join(err, out.Print("Headroom: ingest", report.Ingested(sum)))
}

// ingestMemory is what the collector keeps the heap below, in bytes, as long
// as what is in use fits: records of the default size do.
const ingestMemory = 96 << 20

// ingestText is the live line: what happened since the last one.
func ingestText(p, last ingest.Progress) string {
	passed := max((p.Elapsed - last.Elapsed).Seconds(), 0.001)
	text := fmt.Sprintf("%s rows  %s  batch %d × %d %s p50 %s p99 %s", unit.Format(float64(p.Rows), unit.Count),
		unit.Format(float64(p.Rows-last.Rows)/passed, unit.PerSecond), p.Write.Connections, p.Write.Batch, p.Write.Strategy,
		unit.Seconds(p.Write.P50), unit.Seconds(p.Write.P99))
	if p.Write.WALBytes >= 0 {
		text += "  WAL " + unit.Format(float64(p.Write.WALBytes-max(last.Write.WALBytes, 0))/passed, unit.BytesPerSecond)
	}
	if p.Rejected > 0 {
		text += fmt.Sprintf("  %d rejected", p.Rejected)
	}
	if p.Write.Retries > 0 {
		text += fmt.Sprintf("  %d retries", p.Write.Retries)
	}
	return text
}

func (a *app) ingestFreeze() *cobra.Command {
	var m machine
	var yes bool
	var wait time.Duration
	c := &cobra.Command{
		Use:   "freeze TABLE",
		Short: "Make an UNLOGGED table crash-safe, when the run is over; shows the cost first",
		Long: `Shows what it costs to make an unlogged table (or the unlogged partitions of one)
survive a crash: bytes written, log, time, lock. With --yes it is done, by ALTER
TABLE … SET LOGGED; without it nothing is changed.`,
		Example: "  headroom ingest freeze readings\n  headroom ingest freeze readings --yes --lock-timeout 30s",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onTable(c.Context(), &m, func(ctx context.Context, conn *pgx.Conn, out *report.Output) error {
				cost, err := ingest.FreezeCost(ctx, conn, args[0])
				if err != nil {
					return err
				}
				if yes && len(cost.Parts) > 0 {
					err = ingest.Freeze(ctx, conn, cost, wait, a.progress)
				} else if len(cost.Parts) > 0 {
					fmt.Fprintln(a.err, "nothing was changed; to do it: headroom ingest freeze "+args[0]+" --yes")
				}
				if err != nil {
					return err
				}
				return out.Print("Headroom: freeze", report.FreezeCost(cost, yes))
			})
		},
	}
	c.Flags().StringVar(&m.db, "db", "", dbHelp)
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	c.Flags().DurationVar(&wait, "lock-timeout", 5*time.Second, "how long to wait for the table before giving up")
	a.outputFlag(c)
	return c
}

func (a *app) ingestRefresh() *cobra.Command {
	var m machine
	c := &cobra.Command{
		Use:   "refresh TABLE",
		Short: "Bring the read table of a table up to date",
		Long: `Brings the read table that --read-table made up to now, the way it was made. For a
timer, or after other programs wrote to the table.`,
		Example: "  headroom ingest refresh events",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onTable(c.Context(), &m, func(ctx context.Context, conn *pgx.Conn, out *report.Output) error {
				t, err := readtable.Find(ctx, conn, args[0])
				if err != nil {
					return err
				}
				d, err := t.Refresh(ctx, conn)
				if err != nil {
					return err
				}
				return out.Print("Headroom: refresh", report.Refreshed(t, d))
			})
		},
	}
	c.Flags().StringVar(&m.db, "db", "", dbHelp)
	a.outputFlag(c)
	return c
}

func (a *app) ingestUnread() *cobra.Command {
	var m machine
	c := &cobra.Command{
		Use:     "unread TABLE",
		Short:   "Remove the read table of a table",
		Long:    "Removes the copy that --read-table made, with its indexes. The table itself is not touched.",
		Example: "  headroom ingest unread events",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onTable(c.Context(), &m, func(ctx context.Context, conn *pgx.Conn, _ *report.Output) error {
				if err := readtable.Drop(ctx, conn, args[0]); err != nil {
					return err
				}
				fmt.Fprintln(a.out, "Removed: the read table of "+args[0])
				return nil
			})
		},
	}
	c.Flags().StringVar(&m.db, "db", "", dbHelp)
	return c
}

// onTable runs f with a connection.
func (a *app) onTable(ctx context.Context, m *machine, f func(context.Context, *pgx.Conn, *report.Output) error) error {
	out, err := a.open()
	if err != nil {
		return err
	}
	defer out.Close()
	cfg, err := m.server(ctx, a)
	if err != nil {
		return err
	}
	conn, err := ingest.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return f(ctx, conn, out)
}
