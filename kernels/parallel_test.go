package kernels

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever the sizes, the passes over k are consecutive, complete, and made of the segments in order.
func TestBlocks(t *testing.T) {
	for _, lens := range [][]int{{5}, {1025}, {3000}, {100, 300, 500, 1, 200}, {1, 1, 1}, {1024, 1024, 1024}, {0}} {
		p := product{row: goRows[0]}
		off := 0
		for _, n := range lens {
			p.segs = append(p.segs, segment{off, n})
			p.k += n
			off += n + 7
		}
		var want, got []int
		for _, s := range p.segs {
			for i := range s.n {
				want = append(want, s.off+i)
			}
		}
		from := 0
		p.cutSums(new(job))
		for _, b := range p.blocks {
			require.Equal(t, from, b.from, "%v", lens)
			from += b.n
			for _, s := range b.segs {
				for i := range s.n {
					got = append(got, s.off+i)
				}
			}
			require.Len(t, got, from, "%v", lens)
		}
		assert.Equal(t, want, got, "%v", lens)
	}
}

// Pieces cover everything once, and do not depend on who runs them.
func TestSlices(t *testing.T) {
	for _, n := range []int{0, 1, 5, 64, 1000, 4097} {
		for _, grain := range []int{0, 1, 7, 5000} {
			var mu sync.Mutex
			seen := make([]int, n)
			body := func(lo, hi int) {
				mu.Lock()
				defer mu.Unlock()
				for i := lo; i < hi; i++ {
					seen[i]++
				}
			}
			Parallel(nil).Slices(n, grain, body)
			Parallel(func(n int, body func(int)) {
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() { body(i) })
				}
				wg.Wait()
			}).Slices(n, grain, body)
			for i, count := range seen {
				require.Equal(t, 2, count, "element %d of %d, grain %d", i, n, grain)
			}
		}
	}
}

func TestFloorDiv(t *testing.T) {
	for _, c := range [][3]int{{5, 2, 2}, {-1, 2, -1}, {-4, 2, -2}, {-5, 3, -2}, {0, 3, 0}} {
		assert.Equal(t, c[2], floorDiv(c[0], c[1]), "%d/%d", c[0], c[1])
	}
}

// Products and windows are cut into pieces that cover them, as many as threads can share evenly where there is work enough.
func TestPieces(t *testing.T) {
	for _, c := range []struct{ positions, k, n, rows, cols int }{
		{1, 1280, 1000, 1, 32},    // reading the weights takes the time
		{49, 960, 160, 2, 5},      // few rows
		{196, 576, 96, 2, 3},      // few panels
		{196, 384, 64, 3, 2},      // fewer still
		{196, 96, 384, 1, 12},     // panels alone
		{3136, 24, 144, 14, 2},    // rows first
		{12, 8, 16, 1, 1},         // little work
		{12544, 512, 4096, 56, 1}, // the most pieces there are
		{1024, 1024, 1024, 8, 8},  // rows so long that few of them stay in the cache
	} {
		p := product{row: Row{MR: 14, NR: 32}, k: c.k, n: c.n, segs: []segment{{0, c.k}}, in: places{pos: c.k}}
		p.cutSums(new(job))
		p.cutPieces(c.positions, (c.positions+13)/14, (c.n+31)/32)
		assert.Equal(t, [2]int{c.rows, c.cols}, [2]int{p.rowPieces, p.colPieces}, "%+v", c)
	}
}
