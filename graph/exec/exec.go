package exec

import (
	"context"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// Options say how a graph is executed. The zero value is usable.
type Options struct {
	// Context, if not nil, ends what New computes once for all runs. A run has its own.
	Context context.Context
	// Threads is how many goroutines share the work inside one operator, 0 for one. Results do not depend on it.
	Threads int
	// Parallel, if not nil, shares the work instead of goroutines of the session's own: that of a Parallel call, so that several
	// sessions, and what runs between them, have the same helpers.
	Parallel kernels.Parallel
	// Float64 accumulates sums (Conv, Gemm, MatMul, pools, reductions, normalizations) in float64 and rounds once per output
	// element. It is slow and serves comparisons in which the executor's own error must be negligible.
	Float64 bool
	// Memory is how many bytes the values of one run may take at a time, beside inputs and constants; what a session computes
	// once for all runs counts too. 0 is half of the machine's memory, and one value may take then 4 GiB, or 64 times what the
	// constants and inputs of the model take if that is more. Beyond it a run ends with a *MemoryError.
	Memory int64

	constants int64 // bytes of all constants of the outermost graph and one more; 0 if Memory was given
}

// Hooks see, and may replace, the tensors that nodes read and write. Observers and the simulator are hooks. A hook, but for Look,
// is called on the goroutine that runs the graph, in order of execution. Tensors passed in may have layout ChannelsLast and are valid
// only during the call (their memory is reused); constants are passed too. Node pointers belong to the executor's graph.
type Hooks struct {
	// Input is called before a node runs, once for each present input. It returns the tensor that the node reads instead:
	// t itself, or another of the same type and shape in the same layout, which must stay valid until the node has run. For a
	// constant, return the same *Tensor every time: what is derived from it (packed weights) is cached by pointer.
	Input func(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error)
	// Output is called after a node has run, once for each present output. It may change t's elements in place.
	Output func(n *graph.Node, i int, t *tensor.Tensor) error
	// State is called with what LSTM, GRU and RNN multiply of the state of a step, float32 [batch, units], before they do. It may change the
	// elements in place: it is a copy.
	State func(n *graph.Node, h []float32) error
	// Cell is called with the state of the cells of an LSTM behind each step, float32 [batch, units], before its result is computed of them.
	// It may change the elements in place.
	Cell func(n *graph.Node, c []float32)
	// Wants, if not nil, says which values, constants among them, Input and Output look at: they are called for no others. What
	// nobody looks at need not exist: an operator may compute its reader's result at once, and share memory. The answers must
	// not change during a run.
	Wants func(v graph.ValueID) bool
	// Look is called with pieces of the outputs that Looks says, of those that are float32: with each element once, in any order,
	// on any of the goroutines that compute, on several at a time. It changes nothing. A value that is only looked at need not
	// exist as a whole: operators go on computing their readers' results at once. What Output changes is looked at afterwards.
	Look func(n *graph.Node, i int, p Piece)
	// Looks says which values Look is called for, nil for none. The answers must not change during a run.
	Looks func(v graph.ValueID) bool
	// Looked, if not nil, is called when Look has seen all of an output, on the goroutine that runs the graph, in order of execution.
	Looked func(n *graph.Node, i int) error
	// Kept, if not nil, is called by Resume for a kept value that a step is about to read, and returns what is read in its place. It may be
	// called more than once for a value; what it returns must stay valid until Resume ends.
	Kept func(v graph.ValueID, t *tensor.Tensor) *tensor.Tensor
	// Chose is called when an If, Loop or Scan of the graph, or of a graph inside, has run: way is 0 or 1 of an If whose condition was
	// false or true, else how many iterations there were. n may belong to a graph inside. Hooks with Chose alone see no values.
	Chose func(n *graph.Node, way int)
	// Step is called before a step runs (done false) and after it has (done true): to measure. n is the node that computes;
	// fused, known when it has, are the nodes whose results it computed as well, in their order, which have no steps of their
	// own. The slice is valid during the call. Hooks with Step alone see no values and change nothing about how a run is
	// executed, but that a batch is not run in parts; nodes that were computed once for all runs have no step in them. In a
	// step that fails done never comes.
	Step func(n *graph.Node, fused []*graph.Node, done bool)
}

// sees reports whether a hook looks at v without changing it: h may be nil.
func (h *Hooks) sees(v graph.ValueID) bool {
	return h != nil && h.Look != nil && h.Looks != nil && h.Looks(v)
}

// wants reports whether a hook looks at v: h may be nil.
func (h *Hooks) wants(v graph.ValueID) bool {
	return h != nil && (h.Input != nil || h.Output != nil) && (h.Wants == nil || h.Wants(v))
}

// Session is a graph made ready for execution: order, evaluators, packed constants. It is immutable and may be shared by
// goroutines; each of them uses its own Runner.
type Session struct {
	sessionState
}

// New prepares g. It refuses a graph with operators (or operator versions, attributes, types) that cannot be executed,
// naming all of them at once as an *UnsupportedError. The graph must not be changed while the session is in use.
func New(g *graph.Graph, o Options) (*Session, error) { return newSession(g, o) }

// Graph returns the graph given to New.
func (s *Session) Graph() *graph.Graph { return s.g }

// NewRunner returns a runner with memory of its own.
func (s *Session) NewRunner() *Runner { return newRunner(s) }

// Runner executes a session's graph, one run at a time. It plans (shapes, lifetimes, arena) once per set of input shapes.
type Runner struct {
	runnerState
}

// Run executes the whole graph. feeds are the graph inputs by name; inputs that are constants as well may be left out. The
// outputs are row-major, belong to the caller, and are in the order of g.Outputs. Errors are *graph.NodeError where a
// node failed; a cancelled ctx stops between nodes. hooks may be nil.
func (r *Runner) Run(ctx context.Context, feeds map[string]*tensor.Tensor, hooks *Hooks) ([]*tensor.Tensor, error) {
	return r.run(ctx, feeds, hooks)
}

// RunInto is Run into tensors of the caller, one for each graph output: a row-major tensor of the output's type and shape is
// overwritten, any other, nil to begin with, is replaced by a new one. After an error the tensors may hold anything. Repeated
// with inputs of the same shapes, without hooks, it allocates nothing in networks of convolutions, products, pools, additions
// and bounds.
func (r *Runner) RunInto(ctx context.Context, feeds map[string]*tensor.Tensor, hooks *Hooks, outs []*tensor.Tensor) error {
	return r.runInto(ctx, feeds, hooks, outs)
}

// RunAll is Run, and also returns every activation (row-major or channels-last, as computed, owned by the caller) by
// ValueID; constants and values nobody computed are nil. keep, if not nil, says which values to return.
func (r *Runner) RunAll(ctx context.Context, feeds map[string]*tensor.Tensor, hooks *Hooks,
	keep func(graph.ValueID) bool) ([]*tensor.Tensor, error) {
	return r.runAll(ctx, feeds, hooks, keep)
}

// Resume recomputes what depends on a change. kept holds values of an earlier run by ValueID (as RunAll returns them; nil
// ones are recomputed from others as needed). start is the node whose execution changes: it is run with hooks, and so are all
// nodes downstream whose inputs changed. A node whose outputs come out bit for bit equal to the kept ones stops the
// propagation there. until, if not nil, limits the work to nodes for which it returns true: the others count as unchanged.
// The graph outputs are returned as by Run (unchanged ones are the kept tensors, nil ones with until stay nil), together
// with the nodes that ran.
//
// Hooks are called for the nodes that run only, also for those that are recomputed because a value was not kept. The results
// are those of a full run with the same hooks, provided that kept holds what they give upstream of start.
func (r *Runner) Resume(ctx context.Context, kept []*tensor.Tensor, start graph.NodeID, hooks *Hooks,
	until func(graph.NodeID) bool) (outputs []*tensor.Tensor, ran []graph.NodeID, err error) {
	return r.resume(ctx, kept, start, hooks, until)
}

// Iterator is a data set as the executor consumes it. Next returns io.EOF at the end; feeds belong to the caller.
type Iterator interface {
	Next(ctx context.Context) (*Sample, error)
	// Len is the number of samples, -1 if unknown.
	Len() int
}

// Sample is one input of the graph.
type Sample struct {
	Name  string   // where it comes from: file name, index in a file; for messages and reports
	Hash  [32]byte // SHA-256 of the preprocessed feeds in canonical form
	Label int      // class, -1 if unknown
	Feeds map[string]*tensor.Tensor
	// Sequence is what the sample is a step of, from 0: its feeds have the states that the float network left; see Rolling. nil: none.
	Sequence *Sequence
	Step     int
	// Mask is the input that says which positions of the sample are real, see graph.Padding; empty: all of them.
	Mask string
}
