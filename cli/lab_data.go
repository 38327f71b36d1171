package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"headroom/engine/sample"
	"headroom/fail"
)

// making is what the flags of lab data hold.
type making struct {
	rows   int64
	seed   uint64
	format string
	header bool
	ddl    bool
	bad    float64
	size   int
	keys   int64
	zipf   float64
}

func (a *app) labData() *cobra.Command {
	c := &cobra.Command{
		Use:   "data people|documents",
		Short: "Write the labs' sample data to standard output: the same seed gives the same bytes",
		Long: `people: the table of the bulk-load lab, about 106 bytes a row: a UUID key, a
client number, three names from many languages, dates and an amount. --ddl
prints the table and its indexes instead. --bad SHARE makes that share of the
rows such that PostgreSQL refuses them, in seven ways.

documents: one JSON document on each line, of --size bytes, with an id. With
--keys N the ids are drawn from N keys, evenly or, with --zipf 1.2, so that a
few keys get most; else they count up from 0.`,
	}
	c.AddCommand(a.peopleData(), a.documentData())
	c.Args = usageArgs(func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fail.Hint(errors.New("make data: say which"), "write: headroom lab data people --rows 600000")
		}
		return fail.Hint(fmt.Errorf("make data: there is no %q", args[0]), "there are: people, documents")
	})
	c.RunE = func(*cobra.Command, []string) error { return nil }
	return c
}

func (a *app) peopleData() *cobra.Command {
	var m making
	c := &cobra.Command{
		Use:   "people",
		Short: "Rows of the people table",
		Example: `  headroom lab data people --rows 600000 > people.tsv
  headroom lab data people --rows 1000 --format csv --header --bad 0.001
  headroom lab data people --ddl`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return m.people(c.Context(), a.out) },
	}
	f := c.Flags()
	m.common(c, 600_000)
	f.StringVar(&m.format, "format", "tsv", "tsv (PostgreSQL's COPY text), csv or ndjson")
	f.BoolVar(&m.header, "header", false, "begin with a line of column names (tsv, csv)")
	f.BoolVar(&m.ddl, "ddl", false, "print the statements that make the table and its indexes, and no rows")
	f.Float64Var(&m.bad, "bad", 0, "share of the rows that PostgreSQL refuses, 0 to 1")
	return c
}

func (a *app) documentData() *cobra.Command {
	var m making
	c := &cobra.Command{
		Use:     "documents",
		Short:   "JSON documents of a given size, one on each line",
		Example: "  headroom lab data documents --rows 1000 --size 130 --keys 100 --zipf 1.2",
		Args:    usageArgs(cobra.NoArgs),
		RunE:    func(c *cobra.Command, _ []string) error { return m.documents(c.Context(), a.out) },
	}
	m.common(c, 1_000_000)
	f := c.Flags()
	f.IntVar(&m.size, "size", 130, "bytes of a document, without the newline")
	f.Int64Var(&m.keys, "keys", 0, "draw ids from so many keys; 0: count up")
	f.Float64Var(&m.zipf, "zipf", 0, "with --keys: exponent of the spread, above 1; 0: even")
	return c
}

func (m *making) common(c *cobra.Command, rows int64) {
	c.Flags().Int64Var(&m.rows, "rows", rows, "rows to make")
	c.Flags().Uint64Var(&m.seed, "seed", 1, "the same seed gives the same bytes, on every machine")
}

func (m *making) people(ctx context.Context, w io.Writer) error {
	if m.ddl {
		_, err := fmt.Fprintln(w, strings.Join(append([]string{sample.PeopleDDL("people")}, sample.PeopleIndexes("people")...), ";\n")+";")
		return err
	}
	g := sample.People(m.seed)
	switch {
	case !(m.bad >= 0 && m.bad <= 1):
		return fail.With(fmt.Errorf("read --bad %v: not a share from 0 to 1", m.bad), fail.Usage)
	case m.header && m.format == "ndjson":
		return fail.With(errors.New("read --header: ndjson has no header"), fail.Usage)
	}
	if m.bad > 0 {
		g = g.WithBad(m.bad)
	}
	add, sep := g.AppendTSV, "\t"
	switch m.format {
	case "tsv":
	case "csv":
		add, sep = g.AppendCSV, ","
	case "ndjson":
		add = g.AppendJSON
	default:
		return fail.With(fmt.Errorf("read --format %q: want tsv, csv or ndjson", m.format), fail.Usage)
	}
	var head []byte
	if m.header {
		head = []byte(strings.Join(sample.PeopleColumns, sep) + "\n")
	}
	return m.write(ctx, w, head, add)
}

func (m *making) documents(ctx context.Context, w io.Writer) error {
	switch {
	case m.size < sample.MinDocument || m.size > 1<<30:
		return fail.With(fmt.Errorf("read --size %d: want %d to %d bytes", m.size, sample.MinDocument, 1<<30), fail.Usage)
	case m.keys < 0 || m.keys > 1_000_000_000:
		return fail.With(fmt.Errorf("read --keys %d: want 1 to 1000000000", m.keys), fail.Usage)
	case m.zipf != 0 && !(m.zipf > 1 && m.zipf < 100):
		return fail.With(fmt.Errorf("read --zipf %v: want above 1", m.zipf), fail.Usage)
	case m.zipf != 0 && m.keys == 0:
		return fail.With(fail.Hint(errors.New("read --zipf: there are no keys to spread"), "give --keys as well"), fail.Usage)
	}
	key := func(i int64) int64 { return i }
	switch {
	case m.zipf != 0:
		key = sample.Zipf(m.keys, m.zipf, m.seed).At
	case m.keys > 0:
		key = sample.Uniform(m.keys, m.seed).At
	}
	return m.write(ctx, w, nil, func(b []byte, i int64) []byte {
		return append(sample.Reading(b, m.seed, key(i), i, m.size), '\n')
	})
}

// write makes the rows in pieces. A reader that has enough and closes the pipe
// is no error.
func (m *making) write(ctx context.Context, w io.Writer, buf []byte, add func([]byte, int64) []byte) error {
	const piece = 1 << 18
	if m.rows < 0 {
		return fail.With(fmt.Errorf("read --rows %d: want 0 or more", m.rows), fail.Usage)
	}
	for i := int64(0); i < m.rows || len(buf) > 0; {
		for ; i < m.rows && len(buf) < piece; i++ {
			buf = add(buf, i)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := w.Write(buf); err != nil {
			if errors.Is(err, syscall.EPIPE) {
				return nil
			}
			return fmt.Errorf("write the rows: %w", err)
		}
		buf = buf[:0]
	}
	return nil
}
