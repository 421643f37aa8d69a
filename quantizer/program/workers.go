package program

import "qwb/graph"

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
	var group graph.Group
	parts := min(int(w), n)
	for k := range parts {
		group.Go(func() { f(n*k/parts, n*(k+1)/parts) })
	}
	group.Wait()
}
