package sample

import (
	"math/rand/v2"
	"strconv"
)

// MinDocument is the size in bytes under which Document and Reading cannot
// keep to the size asked for: the fixed fields with the largest numbers.
const MinDocument = 89

// Document appends reading i: a JSON object of size bytes without a newline,
// whose field id is i. Smaller than its fixed fields (up to MinDocument
// bytes) it is as long as they are.
func Document(b []byte, seed uint64, i int64, size int) []byte { return Reading(b, seed, i, 0, size) }

// Reading appends version seq of the document with a key: like Document, with
// other values for each seq. Larger documents hold more numeric fields, so
// that they compress about as well as real readings do.
func Reading(b []byte, seed uint64, key, seq int64, size int) []byte {
	s := row(seed+uint64(seq)*0x632be59bd9b4e019, key)
	const hexDigits = "0123456789abcdef"
	start := len(b)
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, key, 10)
	b = append(b, `,"ts":"`...)
	b = appendTime(b, 1_767_225_600+int64(s.below(31_536_000))) // 2026
	b = append(b, `","temp":`...)
	b = appendMoney(b, int64(s.below(8000))-3000)
	b = append(b, `,"hits":`...)
	b = strconv.AppendUint(b, s.below(1000), 10)
	const field, end = 24, len(`,"note":""}`)
	const text = 64 // bytes of note at most, if the fields can be filled otherwise
	for n := 0; size-(len(b)-start)-end > text+field; n++ {
		b = append(b, `,"v`...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, '"', ':')
		b = appendMoney(b, int64(s.below(2_000_000))-1_000_000)
	}
	b = append(b, `,"note":"`...)
	for left := size - (len(b) - start) - len(`"}`); left > 0; {
		for bits, n := s.next(), min(left, 16); n > 0; n-- {
			b = append(b, hexDigits[bits&15])
			bits >>= 4
			left--
		}
	}
	return append(b, '"', '}')
}

// Keys draws keys from 0 to n-1; draw i can be made without those before it.
// One value must not be used by several goroutines at once.
type Keys struct {
	seed uint64
	n    uint64
	src  stream
	zipf *rand.Zipf
}

// Uniform draws every key equally often. n is at least 1.
func Uniform(n int64, seed uint64) *Keys { return &Keys{seed: seed, n: uint64(n)} }

// Zipf draws the key of rank r in proportion to (1+r)^-s, with the ranks spread
// over the range, so that often used keys are not neighbours. n is at least 1
// and under 2654435761, s above 1: 1.2 gives the most common key about a fifth
// of all draws.
func Zipf(n int64, s float64, seed uint64) *Keys {
	k := Uniform(n, seed)
	k.zipf = rand.NewZipf(rand.New(&k.src), s, 1, uint64(n-1))
	return k
}

// scatter is a prime above any n, so that different ranks stay different keys.
const scatter = 2654435761

// At is draw i.
func (k *Keys) At(i int64) int64 {
	k.src = row(k.seed^0x6b657973, i)
	if k.zipf == nil {
		return int64(k.src.below(k.n))
	}
	return int64(k.zipf.Uint64() * scatter % k.n)
}
