package program

import (
	"sync"
	"sync/atomic"

	"qwb/graph"
)

// workers is a number of goroutines.
type workers int

// each calls f for every i in [0, n), in ranges that do not overlap.
func (w workers) each(n int, f func(i int)) {
	w.ranges(n, func(from, to int) {
		for i := from; i < to; i++ {
			f(i)
		}
	})
}

// ranges calls f for ranges that together are [0, n). A panic of f is one of the caller.
func (w workers) ranges(n int, f func(from, to int)) {
	if w <= 1 || n <= 1 {
		f(0, n)
		return
	}
	var group sync.WaitGroup
	var bug atomic.Pointer[error]
	parts := min(int(w), n)
	for k := range parts {
		group.Go(func() {
			err := graph.Try(func() error {
				f(n*k/parts, n*(k+1)/parts)
				return nil
			})
			if err != nil {
				bug.Store(&err)
			}
		})
	}
	group.Wait()
	if err := bug.Load(); err != nil {
		panic(*err)
	}
}
