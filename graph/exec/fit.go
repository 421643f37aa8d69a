package exec

import (
	"context"
	"math"
	"runtime/debug"
	"slices"
	"sync"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Work is what somebody is about to do with samples, as far as it takes memory.
type Work struct {
	Threads int   // samples in work at a time, 0 for one
	Outputs int   // of so many samples the outputs are kept
	Extra   int64 // bytes of what is kept beside
}

// Demand is what a command takes beside the process, measured on networks whose tensors, weights and operators grow: multiples of the
// constants of the network, of what is alive in its run at a time and of all tensors of a run, and bytes for each tensor of floats that
// operators make. Largest, where it is not 0, is for work that can make what it needs of constants when it needs it, and keep histograms in
// files: multiples of the largest constant in place of Weights, and Stored, where it is not 0, in place of Tensor.
type Demand struct {
	Weights, Live, All float64
	Tensor             int64
	Largest            float64
	Stored             int64
}

// What commands take: the weights as they are in the file, quantized, as codes, each also as packed for the kernels; runs with what their
// memory grew through; tensors of a run that wait to be compared; histograms, and the plan.
var (
	Running     = Demand{Weights: 3.5, Live: 4, All: 0.3, Tensor: 32 << 10}
	Observing   = Demand{Weights: 4.5, Live: 4, Tensor: 448 << 10, Largest: 16, Stored: 64 << 10}
	Evaluating  = Demand{Weights: 6, Live: 4, All: 0.3, Tensor: 96 << 10, Largest: 16, Stored: 32 << 10}
	Sweeping    = Demand{Weights: 10, Live: 8, All: 1.6, Tensor: 640 << 10}
	Tuning      = Demand{Weights: 8.5, Live: 6, All: 1.2, Tensor: 256 << 10, Largest: 16, Stored: 56 << 10}
	Dispatching = Demand{Weights: 8.5, Live: 6, All: 1.2, Tensor: 256 << 10}
	Analyzing   = Demand{Weights: 8, Live: 6, All: 1.2, Tensor: 512 << 10, Largest: 16, Stored: 48 << 10}
	Verifying   = Demand{Weights: 8, Live: 4, All: 1.6, Tensor: 128 << 10, Largest: 16, Stored: 56 << 10}
)

type memoryKey struct{}

type demandKey struct{}

// bound is what there may be for all that is done under a context, and the widest samples of it.
type bound struct {
	bytes  int64
	mu     sync.Mutex
	widest map[string][]int // by input
	files  sync.Once
}

// WithMemory returns a context under which work may take so many bytes in all: the process, the weights and what is made of them,
// tensors, and what is kept. Fit refuses, before it begins, what would take more.
func WithMemory(ctx context.Context, bytes int64) context.Context {
	return context.WithValue(ctx, memoryKey{}, &bound{bytes: bytes, widest: map[string][]int{}})
}

// Doing says what is done under a context; what is done within that is a part of it.
func Doing(ctx context.Context, d Demand) context.Context {
	if _, ok := ctx.Value(demandKey{}).(Demand); ok {
		return ctx
	}
	return context.WithValue(ctx, demandKey{}, d)
}

// MemoryOf is what work under a context may take in all, 0 where nobody said.
func MemoryOf(ctx context.Context) int64 {
	if b, ok := ctx.Value(memoryKey{}).(*bound); ok {
		return b.bytes
	}
	return 0
}

// MemoryFor is how many bytes work under a context may keep, of so many where nobody said what it may take in all: half of that, as
// what it keeps is not all.
func MemoryFor(ctx context.Context, usual int64) int64 {
	if all := MemoryOf(ctx); all > 0 {
		return all / 2
	}
	return usual
}

// Meets says that work under a context will have a sample of these shapes. Fit judges by the widest of each input, of those that it was
// told of and the one that it is given.
func Meets(ctx context.Context, feeds map[string]*tensor.Tensor) {
	if b, ok := ctx.Value(memoryKey{}).(*bound); ok {
		b.meet(feeds)
	}
}

func (b *bound) meet(feeds map[string]*tensor.Tensor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, t := range feeds {
		was := b.widest[name]
		if len(was) != len(t.Shape) {
			b.widest[name] = slices.Clone(t.Shape)
			continue
		}
		for i, n := range t.Shape {
			was[i] = max(was[i], n)
		}
	}
}

// widestOf are feeds of the widest shapes, without elements.
func widestOf(ctx context.Context, feeds map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	b, ok := ctx.Value(memoryKey{}).(*bound)
	if !ok {
		return feeds
	}
	b.meet(feeds)
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make(map[string]*tensor.Tensor, len(feeds))
	for name, t := range feeds {
		list[name] = &tensor.Tensor{DType: t.DType, Shape: slices.Clone(b.widest[name])}
	}
	return list
}

const (
	processBytes = 52 << 20 // the program, its runtime, and what it reads
	leastMemory  = 96 << 20 // what work may take in any case
	outputCopies = 4        // of the float graph and of the quantized one, as they were computed and as they were handed out
	samplesAhead = 4        // read before their turn, or kept for a second one
	slack        = 1.1      // for the collector, which must not work all the time
	filePages    = 80 << 20 // of files, the program among them, before they are given back, and what is read meanwhile
)

func demandOf(ctx context.Context) Demand {
	if d, ok := ctx.Value(demandKey{}).(Demand); ok {
		return d
	}
	return Evaluating
}

// FitConstants refuses, before anything is made of a network's constants, work that they alone make too large for the bound of the
// context: what Fit would refuse later, when it knows a sample. Work that nothing is said of (Doing) is not refused.
func FitConstants(ctx context.Context, g *graph.Graph) error {
	most := MemoryOf(ctx)
	if _, ok := ctx.Value(demandKey{}).(Demand); !ok || most == 0 {
		return nil
	}
	if need := processBytes + weightBytes(demandOf(ctx), g); need > max(most, leastMemory) {
		return &MemoryError{Bytes: need, Budget: most, Run: true}
	}
	return nil
}

// FitHistograms refuses, within work that keeps histograms in files (Demand.Stored), what has those of all tensors in memory.
func FitHistograms(ctx context.Context, g *graph.Graph) error {
	d, most := demandOf(ctx), MemoryOf(ctx)
	if need := processBytes + weightBytes(d, g) + d.Tensor*int64(g.NumNodes()); g.Store != nil && need > max(most, leastMemory) {
		return &MemoryError{Bytes: need, Budget: most, Run: true}
	}
	return nil
}

// FitBeside refuses, before anything runs, work that takes so many bytes beside what it takes for constants and tensors of floats.
func FitBeside(ctx context.Context, g *graph.Graph, bytes int64) error {
	d, most := demandOf(ctx), MemoryOf(ctx)
	beside := int64(slack * float64(bytes))
	need := processBytes + weightBytes(d, g) + tensorBytes(d, g)*int64(g.NumNodes()) + beside
	if most > 0 && need > max(most, leastMemory) {
		if whole := wholeBytes(d, g); g.Store != nil && whole <= need/2 { // with so much it would be held in memory, see Stream
			need = processBytes + whole + beside
		}
		return &MemoryError{Bytes: need, Budget: most, Run: true}
	}
	return nil
}

// Stream makes a graph forget what is made of its constants, and keeps histograms in files, where the work of the context would otherwise
// take more than half of its memory for the two, and can do without (Demand.Largest). The collector's limit then
// leaves room for their pages. store makes what graph.Graph.Store becomes.
func Stream(ctx context.Context, g *graph.Graph, store func() graph.Store) {
	d, _ := ctx.Value(demandKey{}).(Demand)
	if most := MemoryOf(ctx); most > 0 && d.Largest > 0 && wholeBytes(d, g) > most/2 {
		g.Store = store()
		ctx.Value(memoryKey{}).(*bound).files.Do(func() { // whoever set the bound has set the collector's, and ends it
			if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
				debug.SetMemoryLimit(max(limit-filePages, leastMemory/2))
			}
		})
	}
}

// wholeBytes is what work takes for constants and histograms where all are in memory.
func wholeBytes(d Demand, g *graph.Graph) int64 {
	return int64(min(slack*d.Weights*float64(constantBytes(g)), 1<<60)) + d.Tensor*int64(g.NumNodes())
}

// weightBytes is what work takes for the constants of a graph, and what is made of them.
func weightBytes(d Demand, g *graph.Graph) int64 {
	times, bytes := d.Weights, constantBytes(g)
	var held int64
	if g.Store != nil {
		times, bytes, held = d.Largest, 0, constantBytes(g)
		for _, v := range g.Values() {
			if t := g.Const(v); t != nil {
				size := storageBytes(t.DType, t.Len())
				if bytes = max(bytes, size); g.Store.Holds(t) {
					held -= size
				}
			}
		}
	}
	return int64(min(slack*(times*float64(bytes)+float64(held)), 1<<60))
}

// tensorBytes is what work takes for each tensor of floats.
func tensorBytes(d Demand, g *graph.Graph) int64 {
	if g.Store != nil && d.Stored > 0 {
		return d.Stored
	}
	return d.Tensor
}

// FitSample refuses a sample for which so many bytes are held while it is read, by themselves too many for a bound of so many in all; 0 is
// none.
func FitSample(most, bytes int64) error {
	if need := processBytes + bytes; most > 0 && need > max(most, leastMemory) {
		return &MemoryError{Bytes: need, Budget: most, Sample: true}
	}
	return nil
}

// Fit refuses work of which one sample at a time takes more memory than there may be, known from shapes before anything runs; the error
// says how much would do. threads is how many samples may be in work, and room what is left for them. Without a bound of the context
// usual is one for the tensors of the samples in work alone; 0 is none.
func Fit(ctx context.Context, g *graph.Graph, feeds map[string]*tensor.Tensor, w Work, usual int64) (threads int, room int64, err error) {
	most := MemoryOf(ctx)
	if most == 0 && usual == 0 {
		return max(w.Threads, 1), 1 << 62, nil
	}
	feeds = widestOf(ctx, feeds)
	live, all, tensors := footprint(g, feeds)
	var outputs int64
	shaped, sizes := shaped(g, feeds), openSizes(g, feeds)
	for _, v := range g.Outputs {
		outputs += valueBytes(shaped.Value(v), sizes)
	}
	d := demandOf(ctx)
	of := func(times float64, bytes int64) int64 { return int64(min(slack*times*float64(bytes), 1<<60)) }
	one := of(d.Live, live) + of(d.All, all) + outputCopies*outputs
	for _, t := range feeds {
		w.Extra += samplesAhead * storageBytes(t.DType, tensor.Count(t.Shape))
	}
	rest := processBytes + weightBytes(d, g) + tensors*tensorBytes(d, g) + int64(w.Outputs)*outputs + w.Extra
	if most == 0 {
		most = usual + rest
		one = 2*live + outputCopies*outputs
	}
	if rest+one > max(most, leastMemory) {
		return 0, 0, &MemoryError{Bytes: rest + one, Budget: most, Run: true}
	}
	room = max(most, leastMemory) - rest
	return int(max(1, min(int64(max(w.Threads, 1)), room/max(one, 1)))), room, nil
}
