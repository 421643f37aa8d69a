package exec

import (
	"sync"
	"sync/atomic"

	"qwb/kernels"
)

// parallelFor calls f on consecutive parts of [0,n); cost is the work of one item in elements.
type parallelFor func(n, cost int, f func(lo, hi int))

// grain is how many elements of work are worth a goroutine.
const grain = 1 << 14

// parallelFunc returns the kernels' way to share n pieces among threads, nil for one thread. Which goroutine takes which
// piece is left to chance; what a piece computes does not depend on it.
func parallelFunc(threads int) kernels.Parallel {
	if threads <= 1 {
		return nil
	}
	return func(n int, body func(i int)) {
		var next atomic.Int64
		var wg sync.WaitGroup
		work := func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				body(i)
			}
		}
		for range min(threads, n) - 1 {
			wg.Go(work)
		}
		work()
		wg.Wait()
	}
}

// parallel calls f on consecutive parts of [0,n). cost is the work of one item in elements. The parts depend on n and cost
// alone.
func (s *sessionState) parallel(n, cost int, f func(lo, hi int)) {
	pieces := min(n, max(1, n*max(cost, 1)/grain), 64)
	if pieces <= 1 || s.par == nil {
		f(0, n)
		return
	}
	s.par(pieces, func(i int) { f(i*n/pieces, (i+1)*n/pieces) })
}
