package exec

import "qwb/kernels"

// parallelFor calls f on consecutive parts of [0,n); cost is the work of one item in elements.
type parallelFor func(n, cost int, f func(lo, hi int))

// grain is how many elements of work are worth a piece of their own.
const grain = 1 << 14

// maxPieces bounds how finely one loop is cut.
const maxPieces = 64

// Parallel returns a way to share work among threads for Options.Parallel, nil for one thread. Its helpers end when there is
// nothing to do for a while.
func Parallel(threads int) kernels.Parallel { return parallelFunc(threads) }

// parallelFunc returns the kernels' way to share n pieces among threads, nil for one thread. Which goroutine takes which
// piece is left to chance; what a piece computes does not depend on it.
func parallelFunc(threads int) kernels.Parallel {
	if t := newTeam(threads); t != nil {
		return t.run
	}
	return nil
}

// pieces is into how many parts a loop over n items of the given cost is cut. It depends on nothing else, so that every part
// computes the same whatever the number of threads.
func pieces(n, cost int) int { return min(n, max(1, n*max(cost, 1)/grain), maxPieces) }

// parallel calls f on consecutive parts of [0,n). cost is the work of one item in elements.
func (s *sessionState) parallel(n, cost int, f func(lo, hi int)) {
	k := pieces(n, cost)
	if k <= 1 || s.par == nil {
		f(0, n)
		return
	}
	s.par(k, func(i int) { f(i*n/k, (i+1)*n/k) })
}
