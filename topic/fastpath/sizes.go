package fastpath

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"headroom/engine/sample"
	"headroom/engine/upsert"
	"headroom/lab"
	"headroom/trial"
	"headroom/unit"
)

// volume is the bytes of documents written per second.
var volume = trial.Measure{Name: "volume", Unit: unit.BytesPerSecond, Higher: true, Noun: "bytes of documents"}

// UpsertSizes asks how the rate depends on the documents.
var UpsertSizes = &lab.Lab{
	Name:     "upsert-sizes",
	Budget:   5 * time.Minute, // under six rounds there is no verdict
	Title:    "Upserts of documents from 100 bytes to 100 kB",
	Question: "How many documents, and how many bytes of them, can be upserted per second as they grow?",
	Doc: "As lab upsert, batched and logged, with documents of each size. A batch holds at most 4 MB. Larger documents have fewer keys, so that the table stays about as large. " +
		"From about 2 kB on PostgreSQL compresses a document and stores it apart (TOAST).",
	Source:   "S1",
	Then:     "no figures by size; records of a few hundred bytes",
	Uses:     trial.Server,
	Measures: []trial.Measure{volume, lab.Rate("upserts/s"), lab.WAL},
	Params: []trial.Param{
		{Name: "sizes", Doc: "sizes of a document in bytes, the first is the base", Default: "100,1000,10000,100000", Check: func(v string) error { _, err := sizes(v); return err }},
		{Name: "keys", Doc: "rows in the table, for small documents", Default: "50000", Check: whole(100, 10_000_000)},
		clientsParam,
		{Name: "seconds", Doc: secondsParam.Doc, Default: "1", Check: seconds},
	},
	New: func(p map[string]string) (lab.Experiment, error) {
		n := numbers(p)
		all, err := sizes(p["sizes"])
		if err != nil {
			return lab.Experiment{}, err
		}
		if len(all) < 2 {
			return lab.Experiment{}, fmt.Errorf("read parameter sizes of lab upsert-sizes: one size has nothing to be compared with")
		}
		e := lab.Experiment{Size: fmt.Sprintf("up to %d keys, %d clients, %s s a turn", n.int("keys"), n.int("clients"), p["seconds"])}
		for _, size := range all {
			w := sized(n, size)
			e.Disk += 8 * w.keys * (w.bytes + 200)
			e.Arms = append(e.Arms, lab.Arm{Name: unit.Bytes(size), Doc: fmt.Sprintf("Documents of %d bytes, %d in a batch, %d keys.", size, w.batch, w.keys), Run: w.turn(w.run(kind{from: templateOf(size)}))})
		}
		for _, size := range all {
			w, by := sized(n, size), unit.Bytes(size)
			name := by + ", ingest"
			e.Arms = append(e.Arms, lab.Arm{Name: name, Doc: fmt.Sprintf("`headroom ingest` of documents of %d bytes, %d keys.", size, w.keys), Run: w.turn(w.ingest(kind{from: templateOf(size)}, upsert.Options{}))})
			e.Claims = append(e.Claims, lab.Claim{Text: "`headroom ingest` of " + by + ", against batches by hand", Arm: name, Over: by})
		}
		e.Setup = func(ctx context.Context, s *lab.Stand, say func(string)) error {
			for _, size := range all {
				say("making documents of " + unit.Bytes(size))
				if err := fill(ctx, s, templateOf(size), sized(n, size).keys, int(size)); err != nil {
					return err
				}
			}
			return nil
		}
		return e, nil
	},
}

func sizes(v string) (out []int64, err error) {
	for _, word := range strings.Split(v, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 64)
		if err != nil || n < sample.MinDocument || n > 10_000_000 {
			return nil, fmt.Errorf("%q is not a list of sizes from %d to 10000000 with commas between", v, sample.MinDocument)
		}
		out = append(out, n)
	}
	return out, nil
}

// sized is the work with documents of a size: batches of 4 MB at most, tables
// of 32 MB or so, and keys enough for every client's batch.
func sized(n numbers, size int64) writing {
	w := writing{numbers: n, bytes: size, clients: n.int("clients")}
	w.batch = min(max(4<<20/size, 2), 1000)
	w.keys = max(min(n.int("keys"), 32<<20/size), 100)
	w.batch = max(min(w.batch, w.keys/w.clients/2), 2)
	return w
}

func templateOf(size int64) string { return fmt.Sprintf("template_%d", size) }

// turn adds the bytes per second to what an arm yields.
func (w writing) turn(run func(context.Context, *lab.Turn) error) func(context.Context, *lab.Turn) error {
	return func(ctx context.Context, t *lab.Turn) error {
		if err := run(ctx, t); err != nil {
			return err
		}
		t.Figure(volume.Name, t.PerSecond()*float64(w.bytes))
		return nil
	}
}
