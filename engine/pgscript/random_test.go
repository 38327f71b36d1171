package pgscript

import (
	"math"
	"math/rand/v2"
	"testing"
)

const draws = 200_000

// near checks an observed share of the draws, allowing five standard errors.
func near(t *testing.T, what string, got int, want float64) {
	t.Helper()
	if dev := 5 * math.Sqrt(draws*want*(1-want)); math.Abs(float64(got)-draws*want) > dev+1 {
		t.Errorf("%s: %d of %d, want %.0f ± %.0f", what, got, draws, draws*want, dev)
	}
}

// shares draws from 1..n and checks each number's share.
func shares(t *testing.T, name string, n int64, param float64, want func(k int64) float64) {
	t.Helper()
	rng, seen := rand.New(rand.NewPCG(1, 2)), make([]int, n)
	for range draws {
		k, err := skewed(rng, name, n, param)
		if err != nil || k < 0 || k >= n {
			t.Fatal(k, err)
		}
		seen[k]++
	}
	for k, got := range seen {
		near(t, name, got, want(int64(k)))
	}
}

func TestSkewedDistributions(t *testing.T) {
	const n = 20
	for _, param := range []float64{0.5, 3, 12} {
		shares(t, "random_exponential", n, param, func(k int64) float64 {
			f := func(i int64) float64 { return math.Exp(-param * float64(i) / n) }
			return (f(k) - f(k+1)) / (1 - math.Exp(-param))
		})
	}
	phi := func(x float64) float64 { return (1 + math.Erf(x/math.Sqrt2)) / 2 }
	for _, param := range []float64{2, 4} {
		shares(t, "random_gaussian", n, param, func(k int64) float64 {
			f := func(i int64) float64 { return phi(2*param*float64(i)/n - param) }
			return (f(k+1) - f(k)) / (2*phi(param) - 1)
		})
	}
	for _, s := range []float64{1.1, 1.5, 3} {
		sum := 0.0
		for k := 1; k <= n; k++ {
			sum += math.Pow(float64(k), -s)
		}
		shares(t, "random_zipfian", n, s, func(k int64) float64 { return math.Pow(float64(k+1), -s) / sum })
	}
}

func TestUniform(t *testing.T) {
	e := env{rng: rand.New(rand.NewPCG(5, 5))}
	var seen [7]int
	for range draws {
		v, err := e.draw("random", []value{intValue(-3), intValue(3)})
		if err != nil {
			t.Fatal(err)
		}
		seen[v.i+3]++
	}
	for _, n := range seen {
		near(t, "random", n, 1.0/7)
	}
}

func TestPermuteIsOneToOneAndMixes(t *testing.T) {
	for _, size := range []int64{1, 2, 3, 4, 5, 16, 17, 1000, 65537} {
		seen, fixed := map[int64]bool{}, 0
		for i := range size {
			p := permute(i, size, 42)
			if p < 0 || p >= size || seen[p] {
				t.Fatalf("size %d: %d goes to %d", size, i, p)
			}
			seen[p] = true
			if p == i {
				fixed++
			}
		}
		if size >= 1000 && fixed > 10 {
			t.Errorf("size %d: %d stay in place", size, fixed)
		}
	}
	if permute(-1, 10, 1) != permute(9, 10, 1) || permute(math.MinInt64, math.MaxInt64, 1) < 0 {
		t.Error("numbers outside the size are not wrapped")
	}
	if permute(1, 1000, 1) == permute(1, 1000, 2) && permute(2, 1000, 1) == permute(2, 1000, 2) {
		t.Error("the seed changes nothing")
	}
}
