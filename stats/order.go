package stats

import "math/rand/v2"

// Order draws the order of arms (numbered from 0) within each of blocks
// blocks. Every block holds each arm once. Over any arms×2 blocks counted from
// the start each arm stands in each position exactly twice; over all blocks
// the counts differ by at most one. So neither what comes first in a block nor
// a slow drift favours an arm. The same rng state gives the same order.
// There is none without arms.
func Order(rng *rand.Rand, arms, blocks int) [][]int {
	if arms < 1 || blocks < 1 {
		return nil
	}
	order := make([][]int, 0, blocks)
	for len(order) < blocks {
		group := square(rng, arms)
		if left := blocks - len(order); left >= 2*arms || left > arms {
			second := square(rng, arms)
			group = append(group, second[:min(arms, left-arms)]...)
		} else {
			group = group[:left]
		}
		rng.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
		order = append(order, group...)
	}
	return order
}

// square is a random Latin square: the shifts of a random order, shuffled.
func square(rng *rand.Rand, arms int) [][]int {
	first := rng.Perm(arms)
	rows := make([][]int, arms)
	for i, start := range rng.Perm(arms) {
		for j := range arms {
			rows[i] = append(rows[i], first[(start+j)%arms])
		}
	}
	return rows
}
