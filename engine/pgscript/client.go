package pgscript

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"headroom/engine/loop"
	"headroom/engine/pgwire"
)

// client runs transactions on one connection. What it allocates, it keeps.
type client struct {
	d    *Driver
	id   int
	conn *pgwire.Conn
	pcg  *rand.PCG
	env  env

	prepared []bool  // per step of all scripts, on this connection
	columns  [][]int // per step: slot of each result column; nil is not known yet
	pending  []int   // steps whose Parse is in the request
	params   []pgwire.Param
	buf      []byte
	piped    bool

	script              *linked
	step                *step // whose rows come
	number              int   // of the step among all scripts' steps
	rows                int
	handler, describing pgwire.Handler

	save    checkpoint
	retried int64
	retries int64
	times   []timing
}

// checkpoint is where a database transaction began, to try it again from there
// with the same variables and random numbers.
type checkpoint struct {
	pc   int // -1 is none
	vars []value
	pcg  rand.PCG
}

type timing struct {
	count int64
	total time.Duration
}

func (c *client) set(name string, v value) {
	if slot, ok := c.d.global[name]; ok {
		c.env.vars[slot] = v
	}
}

func (c *client) drop() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}

// transaction chooses a script and runs it once.
func (c *client) transaction(ctx context.Context) error {
	if c.d.opt.NewConnEach {
		conn, err := c.d.cfg.Connect(ctx)
		if err != nil {
			return err
		}
		stop := conn.Watch(ctx)
		c.conn = conn
		clear(c.prepared)
		defer func() { stop(); _ = c.drop() }()
	}
	c.choose()
	c.env.slots = c.script.slots
	return c.play(ctx)
}

func (c *client) choose() {
	c.script = &c.d.scripts[0]
	if len(c.d.scripts) == 1 {
		return
	}
	n := c.env.rng.IntN(c.d.weights)
	for i := range c.d.scripts {
		c.script = &c.d.scripts[i]
		if n -= c.script.weight; n < 0 {
			return
		}
	}
}

func (c *client) play(ctx context.Context) error {
	tries := 1
	c.piped, c.save.pc = false, -1
	for pc := 0; pc < len(c.script.steps); {
		st := &c.script.steps[pc]
		if st.do == runSQL || st.do == startPipeline {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			c.mark(pc)
		}
		next, err := c.do(ctx, st, pc)
		if err == nil {
			pc = next
			continue
		}
		se, counted := c.counted(err)
		if !counted {
			return c.explain(st, err)
		}
		if err := c.rollback(); err != nil {
			return c.explain(st, err)
		}
		if !se.Retryable() || tries >= c.d.opt.MaxTries || c.save.pc < 0 {
			return &loop.Failure{Code: se.Code, Err: c.explain(st, err)}
		}
		if tries++; tries == 2 {
			c.retried++
		}
		c.retries++
		pc = c.restore()
	}
	if c.conn.TxStatus() != 'I' {
		return fmt.Errorf("%s: the script ends inside a transaction: COMMIT or END is missing", c.script.Name)
	}
	return nil
}

// counted tells whether err is a failed transaction of a load that goes on. A
// statement that is wrong in itself (class 42), or a connection that is lost,
// is not.
func (c *client) counted(err error) (*pgwire.ServerError, bool) {
	var se *pgwire.ServerError
	if !errors.As(err, &se) || c.conn.Lost() != nil || strings.HasPrefix(se.Code, "42") {
		return nil, false
	}
	return se, true
}

func (c *client) explain(st *step, err error) error {
	var in *exprError
	if errors.As(err, &in) {
		return c.script.errorAt(in.at, in.Error(), "")
	}
	return fmt.Errorf("%s: %w", c.script.place(st.at), err)
}

func (c *client) mark(pc int) {
	if c.d.opt.MaxTries > 1 && !c.piped && c.conn.TxStatus() == 'I' {
		c.save.pc, c.save.pcg = pc, *c.pcg
		c.save.vars = append(c.save.vars[:0], c.env.vars...)
	}
}

func (c *client) restore() (pc int) {
	*c.pcg = c.save.pcg
	copy(c.env.vars, c.save.vars)
	return c.save.pc
}

func (c *client) rollback() error {
	c.piped = false
	if c.conn.TxStatus() == 'I' {
		return nil
	}
	c.conn.Query("ROLLBACK")
	_, err := c.conn.Do(nil)
	return err
}

// do runs one step and tells which is next.
func (c *client) do(ctx context.Context, st *step, pc int) (next int, err error) {
	next = pc + 1
	c.step, c.number = st, c.script.first+pc
	switch st.do {
	case setVar:
		var v value
		if v, err = c.env.eval(st.expr); err == nil {
			c.env.vars[c.script.slots[st.slot]] = v
		}
	case jump:
		next = st.target
	case unless:
		var v value
		if v, err = c.env.eval(st.expr); err == nil && !v.truth() {
			next = st.target
		}
	case sleep:
		err = c.sleep(ctx, st)
	case startPipeline:
		c.piped = true
	case endPipeline:
		c.piped = false
		c.conn.Sync()
		err = c.flush(&c.handler)
	case runSQL:
		err = c.sql(st)
	}
	return next, err
}

func (c *client) sleep(ctx context.Context, st *step) error {
	v, err := c.env.eval(st.expr)
	if err != nil {
		return err
	}
	n, err := v.toInt()
	if err != nil || n <= 0 {
		return at(st.expr, err)
	}
	const day = 24 * time.Hour
	t := time.NewTimer(st.unit * time.Duration(min(n, int64(day/st.unit))))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
