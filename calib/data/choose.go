package data

import "math/rand/v2"

// choose returns which k of n samples, in sorted order, a seed picks: a Fisher-Yates shuffle of 0..n-1 by the PCG generator
// seeded with (seed, 0), drawing j = x mod (i+1) for i from n-1 down to 1, of which the first k are taken and put back in
// order. It is written out because the results must not change with the standard library.
func choose(n, k int, seed uint64) []int {
	if k <= 0 || k >= n {
		return nil
	}
	perm := make([]int, n)
	for i := range perm {
		perm[i] = i
	}
	g := rand.NewPCG(seed, 0)
	for i := n - 1; i > 0; i-- {
		j := int(g.Uint64() % uint64(i+1))
		perm[i], perm[j] = perm[j], perm[i]
	}
	taken := make([]bool, n)
	for _, i := range perm[:k] {
		taken[i] = true
	}
	list := make([]int, 0, k)
	for i, t := range taken {
		if t {
			list = append(list, i)
		}
	}
	return list
}
