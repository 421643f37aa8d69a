package exec

import (
	"cmp"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// budget counts the bytes of the values that a run keeps at a time, its scratch memory among them, so that numbers in a model
// (the shape of an Expand, the repeats of a Tile, the trip count of a Loop) cannot ask for all memory. Inputs and constants, which
// exist already, and lists that operators keep for themselves do not count.
type budget struct {
	limit, held int64
	single      int64   // what one value may take; 0 is as much as there is room
	ends        []int64 // by step: the bytes that nobody needs after it
	over        int     // steps before it are over
}

// MemoryError says that a run would have taken more memory than it may.
type MemoryError struct {
	Type   string // of the value that was asked for; of a whole run, what it does
	Bytes  int64  // it takes
	Held   int64  // others take at the same time
	Budget int64
	Single bool // the budget is that of one value; see Options.Memory
	Run    bool // it is what a whole run takes, known before it began; see Fit
	Sample bool // it is what reading one sample takes, known before it is read; see FitSample
}

// Error names the value, its size, what is in use and the budget.
func (e *MemoryError) Error() string {
	const mega = 1 << 20
	if e.Sample {
		return fmt.Sprintf("reading this sample takes about %dM of memory, more than the %dM that it may take: --mem %dM is the least",
			(e.Bytes+mega-1)/mega, e.Budget/mega, (e.Bytes+mega-1)/mega)
	}
	if e.Run {
		return fmt.Sprintf("%s takes about %dM of memory, more than the %dM that it may take: --mem %dM would do",
			cmp.Or(e.Type, "a run of one sample"), (e.Bytes+mega-1)/mega, e.Budget/mega, (e.Bytes+mega-1)/mega)
	}
	if e.Single {
		return fmt.Sprintf("%s takes %d bytes: more than the %d bytes that one value of a model of this size may take unless a memory "+
			"budget is given",
			e.Type, e.Bytes, e.Budget)
	}
	return fmt.Sprintf("%s takes %d bytes where others take %d: more than the memory budget of %d bytes", e.Type, e.Bytes, e.Held, e.Budget)
}

// reach ends the lives of what no step from i on needs.
func (b *budget) reach(i int) {
	for ; b.over < i && b.over < len(b.ends); b.over++ {
		b.held -= b.ends[b.over]
		b.ends[b.over] = 0
	}
}

// check refuses a value for which there is no room.
func (b *budget) check(d tensor.DType, shape []int, n int) error {
	bytes := storageBytes(d, n)
	switch {
	case bytes > b.limit-b.held:
		return &MemoryError{Type: tensor.TypeString(d, shape), Bytes: bytes, Held: b.held, Budget: b.limit}
	case b.single > 0 && bytes > b.single:
		return &MemoryError{Type: tensor.TypeString(d, shape), Bytes: bytes, Held: b.held, Budget: b.single, Single: true}
	}
	return nil
}

// take counts bytes until step last is over.
func (b *budget) take(bytes int64, last int32) {
	b.held += bytes
	if int(last) < len(b.ends) {
		b.ends[last] += bytes
	}
}

// prolong moves the end of what take counted from one step to another.
func (b *budget) prolong(bytes int64, from, to int32) {
	if int(from) < len(b.ends) {
		b.ends[from] -= bytes
	}
	if int(to) < len(b.ends) {
		b.ends[to] += bytes
	}
}

// storageBytes is the memory of n elements; a string counts as its header.
func storageBytes(d tensor.DType, n int) int64 {
	if d.Bits() == 0 {
		return 16 * int64(n)
	}
	return (int64(n)*int64(d.Bits()) + 7) / 8
}

// limit is the memory that a run of the session may take.
func (s *sessionState) limit() int64 {
	if s.opt.Memory > 0 {
		return s.opt.Memory
	}
	return defaultMemory()
}

// Without a budget one value may take singleFactor times what constants and inputs take, and leastSingle in any case: more is
// hardly what somebody wants to compute, but what a number in a damaged or malicious model asks for.
const (
	singleFactor = 64
	leastSingle  = 4 << 30
)

// single is what one value of a run may take whose inputs take so many bytes, 0 if a budget was given.
func (s *sessionState) single(inputs int64) int64 {
	if s.opt.constants == 0 {
		return 0
	}
	return max(leastSingle, singleFactor*min(s.opt.constants+inputs, math.MaxInt64/singleFactor))
}

// constantBytes is what the constants of a graph take, those that nodes hold and those of subgraphs included.
func constantBytes(g *graph.Graph) int64 {
	var sum int64
	for _, v := range g.Values() {
		if t := g.Const(v); t != nil {
			sum += storageBytes(t.DType, t.Len())
		}
	}
	for _, id := range g.Nodes() {
		for _, a := range g.Node(id).Attrs {
			if a.T != nil {
				sum += storageBytes(a.T.DType, a.T.Len())
			}
		}
		for _, sub := range g.Node(id).Subgraphs() {
			sum += constantBytes(sub)
		}
	}
	return sum
}

// handedBytes is what tensors that were handed in take.
func handedBytes(list []*tensor.Tensor) int64 {
	var sum int64
	for _, t := range list {
		if t != nil {
			sum += storageBytes(t.DType, t.Len())
		}
	}
	return sum
}

// startMemory prepares the memory of a run: with a plan, from a pool, or traced.
func (r *runnerState) startMemory(p *plan, from *pool) {
	if r.ends == nil {
		r.ends = make([]int64, len(r.s.steps)+1)
	}
	clear(r.ends)
	r.mem = memory{plan: p, pool: from, poison: r.s.poison, budget: budget{limit: r.limit, single: r.s.single(r.handed), ends: r.ends}}
	if p != nil {
		r.mem.held = p.bytes
	}
}

// charge counts memory of a type that the step in progress takes for itself, until it is over.
func (c *call) charge(d tensor.DType, shape []int) error {
	n, err := checkedLen(shape)
	if err != nil {
		return err
	}
	m := &c.run.mem
	if err := m.check(d, shape, n); err != nil {
		return err
	}
	if m.pool == nil {
		m.take(storageBytes(d, n), m.step)
	}
	return nil
}

// own makes output i a tensor that was made outside of the run's memory.
func (c *call) own(i int, t *tensor.Tensor) {
	c.setOut(i, handle{t: t, buf: noBuf})
	if i < len(c.node.Outputs) && c.node.Outputs[i] >= 0 && c.run.mem.pool == nil {
		c.run.mem.take(storageBytes(t.DType, t.Len()), max(c.run.s.lastUse[c.node.Outputs[i]], c.run.mem.step))
	}
}
