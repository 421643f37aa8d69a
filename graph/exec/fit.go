package exec

import (
	"context"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Work is what somebody is about to do with samples, as far as it takes memory.
type Work struct {
	Threads  int   // samples in work at a time, 0 for one
	Integers bool  // the integers run beside the floats
	Outputs  int   // of so many samples the outputs are kept
	Extra    int64 // bytes of what is kept beside
}

type memoryKey struct{}

// WithMemory returns a context under which work may take so many bytes in all: the process, the weights and what is made of them,
// tensors, and what is kept. Fit refuses, before it begins, what would take more.
func WithMemory(ctx context.Context, bytes int64) context.Context {
	return context.WithValue(ctx, memoryKey{}, bytes)
}

// MemoryOf is what work under a context may take in all, 0 where nobody said.
func MemoryOf(ctx context.Context) int64 {
	n, _ := ctx.Value(memoryKey{}).(int64)
	return n
}

// MemoryFor is how many bytes work under a context may keep, of so many where nobody said what it may take in all: half of that, as
// what it keeps is not all.
func MemoryFor(ctx context.Context, usual int64) int64 {
	if all := MemoryOf(ctx); all > 0 {
		return all / 2
	}
	return usual
}

// What a run takes was measured: the resident memory of commands on networks whose tensors grow, with the collector at its limit.
const (
	processBytes = 48 << 20 // the program, its runtime, and what it reads
	leastMemory  = 96 << 20 // what work may take in any case
	weightCopies = 4        // as they are and quantized, each also as packed for the kernels
	liveCopies   = 2        // of what is alive in a run: that of one sample and what its memory grew through
	outputCopies = 4        // of the float graph and of the quantized one, as they were computed and as they were handed out
)

// Fit refuses work of which one sample at a time takes more memory than there may be, known from shapes before anything runs; the error
// says how much would do. threads is how many samples may be in work, and room what is left for them. Without a bound of the context
// usual is one for the tensors of the samples in work alone; 0 is none.
func Fit(ctx context.Context, g *graph.Graph, feeds map[string]*tensor.Tensor, w Work, usual int64) (threads int, room int64, err error) {
	bound, weights := MemoryOf(ctx), weightCopies*constantBytes(g)
	if bound == 0 && usual == 0 {
		return max(w.Threads, 1), 1 << 62, nil
	}
	live, _ := Footprint(g, feeds)
	var outputs int64
	shaped, sizes := shaped(g, feeds), openSizes(g, feeds)
	for _, v := range g.Outputs {
		outputs += valueBytes(shaped.Value(v), sizes)
	}
	one := liveCopies*live + outputCopies*outputs
	if w.Integers {
		one += live
	}
	rest := processBytes + weights + int64(w.Outputs)*outputs + w.Extra
	if bound == 0 {
		bound = usual + rest
	}
	if rest+one > max(bound, leastMemory) {
		return 0, 0, &MemoryError{Bytes: rest + one, Budget: bound, Run: true}
	}
	room = max(bound, leastMemory) - rest
	return int(max(1, min(int64(max(w.Threads, 1)), room/max(one, 1)))), room, nil
}
