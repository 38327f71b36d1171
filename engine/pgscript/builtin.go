package pgscript

import (
	"context"
	"errors"
	"fmt"

	"headroom/engine/pgwire"
)

const pick = `\set aid random(1, 100000 * :scale)
`

const pickAll = pick + `\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
`

const updateAccount = `UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
`

const addHistory = `INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
`

// TPCB is the script that pgbench runs by default, its "TPC-B (sort of)".
func TPCB() *Script {
	return builtin("tpcb", pickAll+"BEGIN;\n"+updateAccount+`UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
`+addHistory)
}

// SelectOnly reads one account by its key.
func SelectOnly() *Script {
	return builtin("select", pick+"SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n")
}

func builtin(name, src string) *Script {
	s, err := Parse(name, src)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return s
}

// maxScale keeps the accounts within an int8 and the generated series within
// reason.
const maxScale = 1_000_000

// Init makes and fills the tables of the built-in scripts, with the schema and
// contents of pgbench -i: scale branches, 10 tellers and 100,000 accounts for
// each. It is one transaction, then VACUUM ANALYZE. It fails, and changes
// nothing, if one of the tables is there already.
func Init(ctx context.Context, c *pgwire.Conn, scale int) error {
	if scale < 1 || scale > maxScale {
		return fmt.Errorf("make pgbench tables: scale %d: it goes from 1 to %d", scale, maxScale)
	}
	aid := "int"
	if scale >= 20000 { // as pgbench does
		aid = "bigint"
	}
	_, err := c.Exec(ctx, fmt.Sprintf(`BEGIN;
CREATE TABLE pgbench_history (tid int, bid int, aid %[2]s, delta int, mtime timestamp, filler char(22));
CREATE TABLE pgbench_tellers (tid int NOT NULL, bid int, tbalance int, filler char(84)) WITH (fillfactor = 100);
CREATE TABLE pgbench_accounts (aid %[2]s NOT NULL, bid int, abalance int, filler char(84)) WITH (fillfactor = 100);
CREATE TABLE pgbench_branches (bid int NOT NULL, bbalance int, filler char(88)) WITH (fillfactor = 100);
INSERT INTO pgbench_branches (bid, bbalance) SELECT bid, 0 FROM generate_series(1, %[1]d) AS bid;
INSERT INTO pgbench_tellers (tid, bid, tbalance) SELECT tid, (tid - 1) / 10 + 1, 0 FROM generate_series(1, 10 * %[1]d) AS tid;
INSERT INTO pgbench_accounts (aid, bid, abalance, filler)
	SELECT aid, (aid - 1) / 100000 + 1, 0, '' FROM generate_series(1, 100000 * %[1]d::%[2]s) AS aid;
ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid);
ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid);
ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid);
COMMIT`, scale, aid))
	if err != nil {
		if c.Lost() == nil && c.TxStatus() != 'I' {
			// ctx may be the reason; undoing must not depend on it.
			_, undo := c.Exec(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, undo)
		}
		return fmt.Errorf("make pgbench tables: %w", err)
	}
	for _, t := range []string{"branches", "tellers", "accounts", "history"} {
		if _, err := c.Exec(ctx, "VACUUM ANALYZE pgbench_"+t); err != nil {
			return fmt.Errorf("vacuum pgbench_%s: %w", t, err)
		}
	}
	return nil
}
