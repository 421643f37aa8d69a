package program

import "sync"

// workers is a number of goroutines.
type workers int

// each calls f for every i in [0, n), in ranges that do not overlap.
func (w workers) each(n int, f func(i int)) {
	if w <= 1 || n <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var group sync.WaitGroup
	parts := min(int(w), n)
	for k := range parts {
		group.Go(func() {
			for i := n * k / parts; i < n*(k+1)/parts; i++ {
				f(i)
			}
		})
	}
	group.Wait()
}
