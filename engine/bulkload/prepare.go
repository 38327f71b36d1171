package bulkload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"headroom/fail"
)

// prepare connects, opens the input, looks and plans. It alters nothing.
func prepare(ctx context.Context, o *Options) (*job, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.absolute(); err != nil {
		return nil, err
	}
	j := &job{o: o, begun: time.Now()}
	if err := j.prepare(ctx, o); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

func (j *job) prepare(ctx context.Context, o *Options) (err error) {
	opened := make(chan error, 1)
	go func() { // while the server is looked at
		var err error
		if j.src, err = openSource(o); err == nil {
			j.src.sampleAhead(o)
		}
		opened <- err
	}()
	server, table, looked := j.look(ctx, o)
	if err := <-opened; err != nil {
		return err
	}
	if looked != nil {
		return looked
	}
	var statements []string
	if table == nil {
		if table, statements, err = j.newTarget(ctx, o); err != nil {
			return err
		}
	}
	var sm sample
	if j.m, sm, err = fit(table, j.src, o); err != nil {
		return err
	}
	j.checker = newChecker(j.m, server, o)
	if err := fits(j.m, sm, &j.checker, j.src); err != nil {
		return err
	}
	plan, err := makePlan(*table, server, j.src.Estimate, *o)
	if err != nil {
		return err
	}
	plan.Create, plan.Columns = statements, j.m.names()
	if len(j.m.left) > 0 {
		plan.Notes = append(plan.Notes, fmt.Sprintf("no column takes these members of the documents, which are left out: %s", strings.Join(j.m.left, ", ")))
	}
	now := time.Now().UTC()
	j.Journal = &Journal{Format: journalFormat, Schema: 1, ID: newID(now), Begun: now, Database: j.conn.Config().Database,
		System: server.System, State: Planned, Options: *o, Plan: *plan}
	j.rejects = &rejects{path: o.Rejects, max: o.MaxRejects}
	j.res = Result{ID: j.ID, Table: table.ident(), Way: plan.Way, Rebuilt: []Rebuilt{}}
	if len(j.m.left) > 0 {
		j.res.Notes = append(j.res.Notes, "left out, because no column takes them: "+strings.Join(j.m.left, ", "))
	}
	return nil
}

func newChecker(m *mapping, s Server, o *Options) checker {
	c := checker{columns: m.columns, utf8: s.Encoding == "UTF8" && isUTF8(o.encoding())}
	c.ready()
	return c
}

func isUTF8(name string) bool {
	return strings.EqualFold(name, "UTF8") || strings.EqualFold(name, "UTF-8")
}

// look connects, and looks at the server and the table; nil for a table that
// is still to be made.
func (j *job) look(ctx context.Context, o *Options) (s Server, t *Table, err error) {
	if j.conn, err = dial(ctx, o.Config, nil); err != nil {
		return s, nil, err
	}
	if s, err = lookServer(ctx, j.conn); err != nil || o.PartitionOf != "" || o.Create != nil {
		return s, nil, err
	}
	oid, err := resolve(ctx, j.conn, o.Table)
	if err != nil {
		return s, nil, err
	}
	if t, err = lookTable(ctx, j.conn, oid); err == nil {
		err = t.refuse()
	}
	return s, t, err
}

// newTarget is the table that the load makes, and the statements for that.
func (j *job) newTarget(ctx context.Context, o *Options) (*Table, []string, error) {
	if o.PartitionOf != "" {
		return j.newPartition(ctx)
	}
	return j.newTable(ctx)
}

// Make looks and plans, and alters nothing.
func Make(ctx context.Context, o Options) (*Plan, error) {
	j, err := prepare(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	return &j.Plan, nil
}

// Reference names a load that was begun, and what is needed to go on with it.
type Reference struct {
	Options        // Config, Dir, Stdin, Say, Progress; Path if the input has moved
	ID      string // "" for the only one that is not over
}

// again opens a load that was begun.
func again(ctx context.Context, r *Reference) (*job, error) {
	conn, err := dial(ctx, r.Config, nil)
	if err != nil {
		return nil, err
	}
	j := &job{conn: conn, begun: time.Now(), resumed: true}
	if err := j.again(ctx, r); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

func (j *job) again(ctx context.Context, r *Reference) (err error) {
	conn := j.conn
	if _, err := lookServer(ctx, conn); err != nil {
		return err
	}
	if j.Journal, err = find(ctx, conn, r.Dir, r.ID); err != nil {
		return err
	}
	if j.State.over() {
		return fail.With(fmt.Errorf("load %s: it is over: %s", j.ID, j.State), fail.Usage)
	}
	o := j.Options
	o.Config, o.Dir, o.Stdin, o.Say, o.Progress = r.Config, r.Dir, r.Stdin, r.Say, r.Progress
	if r.Path != "" {
		o.Path = r.Path
	}
	if r.MaxRejects != 0 {
		o.MaxRejects = r.MaxRejects
	}
	if err := o.absolute(); err != nil {
		return err
	}
	j.o = &o
	j.rejects = &rejects{path: o.Rejects, max: o.MaxRejects}
	j.res = Result{ID: j.ID, Table: j.table().ident(), Way: j.Plan.Way, Rebuilt: []Rebuilt{}}
	if err := makeTables(ctx, conn); err != nil {
		return err
	}
	if err := hold(ctx, conn, j.ID); err != nil {
		return err
	}
	return j.refresh(ctx)
}

// refresh reads the state anew once the load is ours, and which table it is.
func (j *job) refresh(ctx context.Context) error {
	var state string
	err := j.conn.QueryRow(ctx, "select coalesce((select state from headroom.load where id = $1), '')", j.ID).Scan(&state)
	if err != nil {
		return fmt.Errorf("read load %s: %w", j.ID, err)
	}
	if state == "" {
		if err := j.rowAgain(ctx); err != nil {
			return err
		}
		state = string(j.State)
	}
	j.State = State(state)
	if j.State.over() {
		return fail.With(fmt.Errorf("load %s: it is over: %s", j.ID, j.State), fail.Usage)
	}
	if j.Plan.Table.OID == 0 && j.State != Planned { // it was made by the load itself
		oid, err := resolve(ctx, j.conn, j.table().ident())
		if err != nil && !errors.Is(err, fail.ErrAbsent) {
			return err
		}
		j.Plan.Table.OID = oid
	}
	return nil
}

// rowAgain is for a load whose row is missing: it died before that was
// written, or somebody dropped the table. The catalog tells which.
func (j *job) rowAgain(ctx context.Context) error {
	j.State = Planned
	if drops := j.Plan.Drops(); len(drops) > 0 && j.Plan.Table.OID != 0 {
		now, err := lookTable(ctx, j.conn, j.Plan.Table.OID)
		if err != nil {
			return err
		}
		for _, o := range drops {
			if is := now.object(o.Kind, o.Name); is == nil || !o.same(*is) {
				j.State = Loaded
			}
		}
	}
	return j.writeRow(ctx, j.conn)
}

// Resume goes on with a load that was interrupted: chunks that are in stay,
// none comes twice, and what was dropped is made again.
func Resume(ctx context.Context, r Reference) (*Result, error) {
	j, err := again(ctx, &r)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if j.State == Undoing {
		return nil, fail.Hint(fmt.Errorf("resume load %s: it is being taken back", j.ID), "finish that: headroom load restore %s", j.ID)
	}
	if j.State == Planned || j.State == Loading {
		if err := j.reopen(); err != nil {
			return nil, err
		}
	}
	return j.goOn(ctx)
}

// reopen opens the input of an interrupted load once more.
func (j *job) reopen() error {
	if j.o.Path == "-" && j.o.Stdin == nil {
		return fail.With(fail.Hint(fmt.Errorf("resume load %s: it read standard input", j.ID), "give it the same input again: headroom load resume %s < FILE", j.ID), fail.Usage)
	}
	src, err := openSource(j.o)
	if err != nil {
		return err
	}
	j.src = src
	if err := src.sameAs(j.Plan.Input); err != nil {
		return err
	}
	m, _, err := fit(j.table(), src, j.o)
	if err != nil {
		return err
	}
	j.m = m
	j.checker = newChecker(m, j.Plan.Server, j.o)
	return nil
}

// Restore takes a load back: its rows go, and what was dropped is made again.
// With keep the rows that are in stay.
func Restore(ctx context.Context, r Reference, keep bool) (*Result, error) {
	j, err := again(ctx, &r)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if err := j.restore(ctx, keep); err != nil {
		return nil, fail.Hint(err, "when that is mended: headroom load restore %s", j.ID)
	}
	j.enter("")
	j.res.Seconds = time.Since(j.begun).Seconds()
	return &j.res, nil
}

func (j *job) restore(ctx context.Context, keep bool) error {
	if !keep || len(j.Plan.Create) > 0 && j.State == Planned {
		return j.undo(ctx)
	}
	if j.State == Undoing {
		return fmt.Errorf("restore load %s: its rows are being taken out already", j.ID)
	}
	if err := j.rebuild(ctx); err != nil {
		return err
	}
	return j.end(ctx, Undone, j.State)
}

// List tells of all loads that the database, or the folder, knows of, the
// newest first.
func List(ctx context.Context, o Options) ([]*Journal, error) {
	conn, err := dial(ctx, o.Config, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	return list(ctx, conn, o.Dir)
}
