package metric

import (
	"flag"
	"os"
	"testing"
)

var write = flag.Bool("metric.write", false, "write the batch of this version to testdata, once, before its release")

// Batches of every released version can be read: they may wait in a queue
// while the program is replaced.
func TestOldBatches(t *testing.T) {
	const v1 = "testdata/batch.v1"
	want := round(40, 2)
	want.ID = ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	if *write {
		if err := os.WriteFile(v1, want.Encode(nil), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(v1)
	if err != nil {
		t.Fatal(err)
	}
	var d Decoder
	got, err := d.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := equal(want, got); err != nil {
		t.Error(err)
	}
}
