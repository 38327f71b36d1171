package api

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"headroom/metric"
)

// turned is a series with its samples before its labels, which only the
// general way reads.
func turned(series []byte) []byte {
	n := plainFields(series, labelTag)
	return append(append([]byte{}, series[n:]...), series[:n]...)
}

// The short way takes what the general way takes, and refuses what that
// refuses.
func TestPlainSeriesAsAll(t *testing.T) {
	now := time.Now().UnixMilli()
	plain, general := serve(t, nil), serve(t, nil)
	rng := rand.New(rand.NewPCG(7, 7))
	values := []float64{0, 1, -2.5, math.NaN(), math.Inf(1), math.Float64frombits(staleMarker), 1e300}
	for round := range 30 {
		var straight, shuffled [][]byte
		for i := range 1 + rng.IntN(20) {
			labels := map[string]string{"__name__": fmt.Sprintf("m%d", rng.IntN(30)), "instance": "h:1"}
			order := []string{"__name__", "instance"}
			if rng.IntN(4) == 0 {
				labels["path"], order = fmt.Sprintf("%0*d", 1+rng.IntN(200), i), append(order, "path")
			}
			if rng.IntN(9) == 0 {
				labels["bad\xff"], order = "x", append(order, "bad\xff")
			}
			var samples []remoteSample
			for range 1 + rng.IntN(3) {
				samples = append(samples, remoteSample{values[rng.IntN(len(values))], now - rng.Int64N(1000) + int64(rng.IntN(10)/9)*1e12})
			}
			x := remoteSeries(labels, order, samples...)
			if rng.IntN(9) == 0 { // zeros left out, as protobuf does
				x = protowire.AppendBytes(protowire.AppendTag(x, 2, protowire.BytesType), nil)
			}
			straight, shuffled = append(straight, x), append(shuffled, turned(x))
		}
		codeA, a := plain.remote(t, writeRequest(straight...))
		codeB, b := general.remote(t, writeRequest(shuffled...))
		if codeA != codeB || a.Accepted != b.Accepted || a.Rejected != b.Rejected || a.Stale != b.Stale || fmt.Sprint(reasons(a)) != fmt.Sprint(reasons(b)) {
			t.Fatalf("round %d: %d %+v, want %d %+v", round, codeA, a, codeB, b)
		}
		if a.Accepted > 0 {
			if x, y := texts(plain.queued(t)), texts(general.queued(t)); !maps.Equal(x, y) {
				t.Fatalf("round %d: %v, want %v", round, x, y)
			}
		}
	}
	if len(plain.book.texts) != len(general.book.texts) {
		t.Errorf("%d texts by the short way, %d by the other", len(plain.book.texts), len(general.book.texts))
	}
}

func reasons(r receipt) (out []string) {
	for _, x := range r.Rejects {
		out = append(out, fmt.Sprint(x.Index, *x.Point, x.Reason))
	}
	return out
}

// What came behind a text leads to it only as long as texts are kept: then a
// series is admitted anew.
func TestSpellingsEndWithTheirTurn(t *testing.T) {
	now := time.Now()
	b := newBook(100, func() time.Time { return now })
	by := &bringer{id: "t", budget: 100}
	var all []*metric.Series
	for i := range 3 {
		s, err := metric.NewSeries(fmt.Sprintf("m%d", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
		if err := b.admit(s, []byte(s.Key()), by); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		var last *spelling
		for _, s := range all {
			if last = b.find(last, []byte(s.Key())); last == nil || last.series != s {
				t.Fatalf("%s is not found", s)
			}
		}
	}
	first := b.find(nil, []byte("m0"))
	if first.after.Load() == nil {
		t.Fatal("nothing is known to come behind the first")
	}
	if x := b.find(first, []byte("m2")); x == nil || x.series != all[2] {
		t.Error("another text behind it than the last time is not found")
	}
	now = now.Add(generationLife + time.Minute)
	if err := b.admit(all[0], []byte("m0"), by); err != nil {
		t.Fatal(err)
	}
	if x := b.find(first, []byte("m2")); x != nil {
		t.Error("a text of the generation before is found")
	}
}

func TestRowTable(t *testing.T) {
	var table rowTable
	for range 3 {
		var series []*metric.Series
		rows := map[*metric.Series]int32{}
		for i := range 5000 {
			s, err := metric.NewSeries(fmt.Sprintf("m%d", i), nil)
			if err != nil {
				t.Fatal(err)
			}
			asked := []*metric.Series{s}
			if len(series) > 0 {
				asked = append(asked, series[rand.IntN(len(series))])
			}
			for _, s := range asked {
				row, known := table.row(s, series)
				want, met := rows[s]
				if !met {
					want = int32(len(series))
					rows[s], series = want, append(series, s)
				}
				if row != want || known != met {
					t.Fatalf("%s: row %d %t, want %d %t", s, row, known, want, met)
				}
			}
		}
		table.reset()
	}
}
