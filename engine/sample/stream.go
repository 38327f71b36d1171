// Package sample makes data to measure with: people (a table with the columns,
// sizes and indexes of the bulk loading source, S19), documents of a given
// size, and keys with an even or an uneven spread.
//
// Everything follows from a seed and a row's number alone: the same seed gives
// the same bytes on every machine and in every release, and any row can be
// made without those before it, by several goroutines at once.
package sample

import "math/bits"

// stream is a short run of random numbers that belongs to one row: SplitMix64,
// whose state is the seed and the row's number mixed.
type stream uint64

// golden is 2^64 divided by the golden ratio, SplitMix64's step.
const golden = 0x9e3779b97f4a7c15

// mix spreads each bit of z over all others and can be undone, so different
// numbers stay different.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// row is the stream of row i; different rows of a seed start at different
// states.
func row(seed uint64, i int64) stream {
	return stream(mix(mix(seed+golden) + uint64(i)*golden))
}

func (s *stream) next() uint64 {
	*s += golden
	return mix(uint64(*s))
}

// below is an even draw from 0 to n-1. It is off by less than n in 2^64, which
// nothing here can see.
func (s *stream) below(n uint64) uint64 {
	hi, _ := bits.Mul64(s.next(), n)
	return hi
}

// Uint64 makes a stream a source for math/rand/v2.
func (s *stream) Uint64() uint64 { return s.next() }
