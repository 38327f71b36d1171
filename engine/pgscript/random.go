package pgscript

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// draw evaluates the functions that need the client's random state or seed.
func (v *env) draw(name string, a []value) (value, error) {
	first, err := a[0].toInt()
	if err != nil {
		return value{}, err
	}
	seed, last := v.seed, len(a)-1
	switch {
	case name == "permute" && last == 2, name[0] == 'h' && last == 1:
		if seed, err = a[last].toInt(); err != nil {
			return value{}, err
		}
	}
	switch name {
	case "hash", "hash_murmur2":
		return intValue(murmur2(first, uint64(seed))), nil
	case "hash_fnv1a":
		return intValue(fnv1a(first, uint64(seed))), nil
	}
	second, err := a[1].toInt()
	if err != nil {
		return value{}, err
	}
	if name == "permute" {
		if second <= 0 {
			return value{}, errors.New("permute needs a size above zero")
		}
		return intValue(permute(first, second, uint64(seed))), nil
	}
	if first > second {
		return value{}, fmt.Errorf("empty range given to %s: %d to %d", name, first, second)
	}
	n := uint64(second) - uint64(first) + 1
	if n == 0 || n > math.MaxInt64 {
		return value{}, fmt.Errorf("the range of %s is too large: %d to %d", name, first, second)
	}
	if name == "random" {
		return intValue(first + v.rng.Int64N(int64(n))), nil
	}
	param, err := a[2].toDouble()
	if err != nil {
		return value{}, err
	}
	off, err := skewed(v.rng, name, int64(n), param)
	return intValue(first + off), err
}

// Bounds of the parameters, as pgbench documents them.
const (
	minGaussian            = 2.0
	minZipfian, maxZipfian = 1.001, 1000.0
)

// skewed draws from 0 to n-1 as pgbench's manual defines the distributions.
func skewed(rng *rand.Rand, name string, n int64, param float64) (int64, error) {
	switch name {
	case "random_exponential":
		if !(param > 0) {
			return 0, fmt.Errorf("random_exponential needs a parameter above zero, not %g", param)
		}
		return scaled(exponential(rng, param), n), nil
	case "random_gaussian":
		if !(param >= minGaussian) {
			return 0, fmt.Errorf("random_gaussian needs a parameter of at least %g, not %g", minGaussian, param)
		}
		return scaled(gaussian(rng, param), n), nil
	}
	if !(param >= minZipfian && param <= maxZipfian) {
		return 0, fmt.Errorf("random_zipfian needs a parameter from %g to %g, not %g", minZipfian, maxZipfian, param)
	}
	return zipfian(rng, n, param) - 1, nil
}

func scaled(unit float64, n int64) int64 { return min(int64(unit*float64(n)), n-1) }

// exponential is in [0,1): an exponential law cut off at param, by inversion.
func exponential(rng *rand.Rand, param float64) float64 {
	cut := math.Exp(-param)
	return -math.Log(cut+(1-cut)*(1-rng.Float64())) / param
}

// gaussian is in [0,1): a normal law cut off at param deviations on each side.
func gaussian(rng *rand.Rand, param float64) float64 {
	for {
		if z := rng.NormFloat64(); z >= -param && z < param {
			return (z + param) / (2 * param)
		}
	}
}

// zipfian is in 1..n with a probability proportional to k^-s: rejection after
// Devroye, "Non-Uniform Random Variate Generation", chapter X.6.1.
func zipfian(rng *rand.Rand, n int64, s float64) int64 {
	if n <= 1 {
		return 1
	}
	b := math.Pow(2, s-1)
	for {
		u, v := 1-rng.Float64(), rng.Float64()
		x := math.Floor(math.Pow(u, -1/(s-1)))
		t := math.Pow(1+1/x, s-1)
		if x <= float64(n) && v*x*(t-1)/(b-1) <= t/b {
			return int64(x)
		}
	}
}

// fnv1a is FNV-1a over the eight bytes of v, lowest first.
func fnv1a(v int64, seed uint64) int64 {
	h := uint64(0xcbf29ce484222325) ^ seed
	for i := range 8 {
		h = (h ^ uint64(v)>>(8*i)&0xff) * 0x100000001b3
	}
	return int64(h)
}

// murmur2 is MurmurHash64A over the eight bytes of v.
func murmur2(v int64, seed uint64) int64 {
	const m, r = 0xc6a4a7935bd1e995, 47
	size := uint64(8) // not a constant: the product wraps
	h := seed ^ size*m
	k := uint64(v) * m
	k = (k ^ k>>r) * m
	h = (h ^ k) * m
	h = (h ^ h>>r) * m
	return int64(h ^ h>>r)
}

// permute maps 0..size-1 one to one onto itself, differently for each seed: a
// Feistel network over the next even number of bits, walked until it lands
// inside. The order is not pgbench's.
func permute(v, size int64, seed uint64) int64 {
	x := uint64(v % size)
	if v%size < 0 {
		x += uint64(size)
	}
	half := 1
	for uint64(1)<<(2*half) < uint64(size) && half < 32 {
		half++
	}
	mask := uint64(1)<<half - 1
	for {
		l, r := x>>half, x&mask
		for round := range uint64(6) {
			l, r = r, l^uint64(murmur2(int64(r), seed+round))&mask
		}
		if x = l<<half | r; x < uint64(size) {
			return int64(x)
		}
	}
}
