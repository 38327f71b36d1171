package bulkload

import (
	"testing"

	"headroom/engine/record"
	people "headroom/engine/sample"
)

// BenchmarkSift: how fast records are judged, in bytes of input.
func BenchmarkSift(b *testing.B) {
	g := people.People(1)
	var data []byte
	for i := range int64(9000) {
		data = g.AppendTSV(data, i)
	}
	columns := []Column{{Name: "id", Base: "varchar", Mod: 40, NotNull: true}, {Name: "client_id", Base: "int4", Mod: -1, NotNull: true}, {Name: "first_name", Base: "varchar", Mod: 64, NotNull: true},
		{Name: "middle_name", Base: "varchar", Mod: 64}, {Name: "last_name", Base: "varchar", Mod: 64, NotNull: true}, {Name: "born", Base: "date", Mod: -1, NotNull: true},
		{Name: "balance", Base: "numeric", Mod: 10<<16 + 2 + 4, NotNull: true}, {Name: "created", Base: "timestamptz", Mod: -1, NotNull: true}}
	r := &run{job: &job{m: &mapping{columns: columns}, src: &source{opts: record.Options{Format: record.TSV}}}, checker: checker{columns: columns, utf8: true}}
	r.checker.ready()
	w := &worker{r: r}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, n, err := w.sift(record.Chunk{Data: data}); err != nil || n != 9000 {
			b.Fatal(n, err)
		}
	}
}
