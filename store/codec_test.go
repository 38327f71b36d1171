package store

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"headroom/metric"
)

// numbers draws columns as machines make them, and hostile ones.
func numbers(r *rapid.T) []int64 {
	n := rapid.IntRange(0, 200).Draw(r, "n")
	kind := rapid.SampledFrom([]string{"any", "small", "steps", "ramp", "equal", "missed"}).Draw(r, "kind")
	start, step := rapid.Int64().Draw(r, "start"), rapid.Int64Range(-1<<40, 1<<40).Draw(r, "step")
	out := make([]int64, n)
	for i := range out {
		switch kind {
		case "any":
			out[i] = rapid.Int64().Draw(r, "x")
		case "small":
			out[i] = rapid.Int64Range(-100, 100).Draw(r, "x")
		case "steps":
			out[i] = start>>4 + int64(i)*step + rapid.Int64Range(0, 9).Draw(r, "x")
		case "ramp":
			out[i] = start>>8 + int64(i)*step
		case "missed":
			out[i] = start>>8 + int64(i)*10_000
			if i > n/2 {
				out[i] += step >> 20
			}
		case "equal":
			out[i] = start
		}
	}
	return out
}

func TestIntsComeBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v := numbers(r)
		got, err := unpackInts(nil, packInts(nil, v), len(v))
		if err != nil || !slices.Equal(got, v) {
			r.Fatalf("%v\n%v %v", v, got, err)
		}
	})
}

func TestFloatsComeBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var v []float64
		switch rapid.SampledFrom([]string{"any", "decimal", "whole", "pages"}).Draw(r, "kind") {
		case "any":
			v = rapid.SliceOf(rapid.Float64()).Draw(r, "v")
		case "decimal":
			for _, n := range numbers(r) {
				v = append(v, float64(n>>20)/100)
			}
		case "whole":
			for _, n := range numbers(r) {
				v = append(v, float64(n))
			}
		case "pages":
			for _, n := range numbers(r) {
				v = append(v, float64(n>>16*4096))
			}
		}
		for i := range v {
			v[i] += 0 // Write makes 0 of -0
		}
		got, _, err := unpackFloats(nil, packFloats(nil, v, nil), len(v), nil)
		if err != nil || len(got) != len(v) {
			r.Fatal(err)
		}
		for i := range v {
			if math.Float64bits(v[i]) != math.Float64bits(got[i]) {
				r.Fatalf("%d: %v became %v", i, v[i], got[i])
			}
		}
	})
}

func TestSealedBlocks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var c coder
		var all []metric.Point
		var mem []byte
		for range rapid.IntRange(1, 4).Draw(r, "blocks") {
			var ps []metric.Point
			for range rapid.IntRange(1, 40).Draw(r, "n") {
				ps = append(ps, metric.Point{At: rapid.Int64Range(0, 1<<42).Draw(r, "at"), Value: rapid.Float64().Draw(r, "v")})
			}
			mem, all = c.seal(mem, ps), append(all, ps...)
		}
		if got := c.unseal(nil, mem); !slices.Equal(got, all) {
			r.Fatalf("%v\n%v", all, got)
		}
	})
}

// FuzzUnpack: damaged columns are an error, never a crash or a huge answer.
func FuzzUnpack(f *testing.F) {
	f.Add(packInts(nil, []int64{1, 5, 9, 1000}), 4)
	f.Add(packFloats(nil, []float64{1.5, 2.25, math.Pi}, nil), 3)
	f.Fuzz(func(t *testing.T, src []byte, n int) {
		n = min(n, 1<<16)
		if got, err := unpackInts(nil, src, n); err == nil && len(got) != max(n, 0) {
			t.Errorf("%d numbers of %d", len(got), n)
		}
		if got, _, err := unpackFloats(nil, src, n, nil); err == nil && len(got) != max(n, 0) {
			t.Errorf("%d values of %d", len(got), n)
		}
	})
}

// TestMissedRoundIsCheap: times of an hour in which rounds were missed take
// hardly more than those of a whole hour.
func TestMissedRoundIsCheap(t *testing.T) {
	var v []int64
	at := int64(0)
	for i := range 360 {
		if at += 10_000; i == 100 || i == 250 {
			at += 34_000
		}
		v = append(v, at)
	}
	if n := len(packInts(nil, v)); n > 180 {
		t.Errorf("%d bytes", n)
	}
}
