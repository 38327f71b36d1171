package main

import (
	"context"
	"fmt"
	"time"
)

// filled makes the standard table, and the same with pages that are filled to
// less than 100 %: room in which a new version of a row needs no new entry in
// the key's index (HOT).
func filled(ctx context.Context, b *bench) error {
	whole := b.keys
	b.keys = min(b.keys, 500_000)
	defer func() { b.keys = whole }()
	if err := standard(130)(ctx, b); err != nil {
		return err
	}
	for _, fill := range fills {
		t := fmt.Sprint("t", fill)
		if err := b.exec(ctx, "DROP TABLE IF EXISTS "+t, fmt.Sprintf("CREATE TABLE %s (id bigint PRIMARY KEY, doc jsonb) WITH (fillfactor = %d)", t, fill),
			"INSERT INTO "+t+" TABLE t", "VACUUM ANALYZE "+t); err != nil {
			return err
		}
	}
	return nil
}

var fills = []int{90, 80, 70}

func fillPart(steady bool) comparison {
	feed := func(name, table string) arm {
		return arm{name, func(ctx context.Context, b *bench, d time.Duration) (int64, time.Duration, error) {
			return b.feed(ctx, table, d)
		}}
	}
	const full = "ours, fillfactor 100"
	c := comparison{name: "fillfactor, after a checkpoint", setup: filled, steady: steady,
		arms: []arm{feed(full, "t"), handValues(1000, 130), handSingle(130)}}
	if steady {
		c.name = "fillfactor, between checkpoints"
	}
	for _, fill := range fills {
		name := fmt.Sprint("ours, fillfactor ", fill)
		c.arms = append(c.arms, feed(name, fmt.Sprint("t", fill)))
		c.pairs = append(c.pairs, ratio{Ours: name, Peer: full}, ratio{Ours: name, Peer: "multi-VALUES"}, ratio{Ours: name, Peer: "one row per commit"})
	}
	return c
}
