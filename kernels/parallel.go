package kernels

// Parallel calls body(0) ... body(n-1), each exactly once, in any order and on any goroutines, and returns when all have
// returned. nil means one after the other. How work is cut into pieces depends on shapes alone, never on threads.
type Parallel func(n int, body func(i int))

// Run calls body for every number below n, as par does, and one after the other where par is nil.
func (par Parallel) Run(n int, body func(i int)) {
	if par != nil && n > 1 {
		par(n, body)
		return
	}
	for i := range n {
		body(i)
	}
}

// Slices cuts n elements into pieces of at least grain and calls body with the bounds of each.
func (par Parallel) Slices(n, grain int, body func(lo, hi int)) {
	pieces := piecesOf(n, grain)
	par.Run(pieces, func(i int) { body(part(n, pieces, i), part(n, pieces, i+1)) })
}

// piecesOf returns into how many pieces of at least grain n elements are cut.
func piecesOf(n, grain int) int { return max(1, min(n/max(grain, 1), maxPieces)) }

// maxPieces bounds how finely one operation is cut: enough for many threads to finish at about the same time.
const maxPieces = 64

// part returns where piece i of n elements cut into equal pieces begins.
func part(n, pieces, i int) int { return i * n / pieces }
