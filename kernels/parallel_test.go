package kernels

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever the sizes, the passes over k are consecutive, complete, and made of the segments in order.
func TestBlocks(t *testing.T) {
	for _, lens := range [][]int{{5}, {1000}, {577}, {100, 300, 500, 1}, {1, 1, 1}, {384, 384, 384}, {0}} {
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
			Parallel(nil).slices(n, grain, body)
			Parallel(func(n int, body func(int)) {
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() { body(i) })
				}
				wg.Wait()
			}).slices(n, grain, body)
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
