package calib

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/qmath"
	"qwb/observers"
)

// GramOp is one operator and the moments of what it reads in float.
type GramOp struct {
	Node string
	ID   graph.NodeID
	Gram *observers.Gram

	groups, k int
	fixed     qmath.Fixed
}

// Fits reports whether moments are of the operator, in its fixed point.
func (o *GramOp) Fits(g *observers.Gram) bool {
	return g.Groups == o.groups && g.K == o.k && g.X == o.fixed && g.F == (qmath.Fixed{})
}

// GramPasses lists the operators of g whose inputs have moments (see Unfold), but for those to be passed over, in graph order, cut into
// passes over the data so that the moments of one pass, and the activations of workers runs of the graph, take at most memory bytes. The
// fixed points follow from the largest magnitudes in stats. left names the operators that do not fit into memory by themselves; those whose
// input was not observed are in neither.
func GramPasses(g *graph.Graph, stats *Stats, memory int64, workers int, over func(node string) bool) (passes [][]*GramOp,
	left []string, err error) {
	order, err := g.Order()
	if err != nil {
		return nil, nil, err
	}
	live, _ := exec.Footprint(g, nil)
	room := memory - live*int64(max(workers, 1))
	var used int64
	for _, id := range order {
		n := g.Node(id)
		u, err := NewUnfold(g, id)
		if err != nil || g.Const(n.Inputs[0]) != nil || over(n.Name) {
			continue
		}
		t := stats.Tensor(g.Value(n.Inputs[0]).Name)
		if t == nil {
			continue
		}
		x := t.State.Extent()
		largest := float32(0)
		if !x.Empty() {
			largest = max(x.Max, -x.Min)
		}
		size := observers.GramBytes(u.Groups, u.K, false)
		if size > room {
			left = append(left, n.Name)
			continue
		}
		if used += size; len(passes) == 0 || used > room {
			passes, used = append(passes, nil), size
		}
		op := &GramOp{Node: n.Name, ID: id, groups: u.Groups, k: u.K, fixed: qmath.FixedFor(largest, observers.GramWithin, observers.GramLimit)}
		passes[len(passes)-1] = append(passes[len(passes)-1], op)
	}
	return passes, left, nil
}

// GramSamples are the samples of a pass: the hashes of those that are in the sums, sorted, and how many were seen in all. About half of
// them are held out (see exec.HeldOut) and in no sum.
type GramSamples struct {
	Summed []Hash
	Seen   int
}

// RunGrams makes one pass over samples and fills in the moments of all operators, or adds to those that they have: of the samples done,
// which are passed over. A device, if not nil, runs the graph and sums in place of the processor. When ctx is cancelled it returns what was
// done so far, which can be gone on from, and ctx's error. Moments depend neither on threads nor on the order of the samples, and on a
// device only where it computes other floats.
func RunGrams(ctx context.Context, g *graph.Graph, ops []*GramOp, samples exec.Iterator, done GramSamples, dev Device, threads int,
	progress func(done int)) (GramSamples, error) {
	r := &gramRun{g: g, ops: map[graph.NodeID]*gramAdder{}, reads: map[graph.ValueID]bool{}}
	for _, op := range ops {
		if op.Gram == nil {
			var err error
			if op.Gram, err = observers.NewGram(op.groups, op.k, op.fixed, qmath.Fixed{}); err != nil {
				return done, g.ErrorAt("gram", op.ID, err)
			}
		}
		if dev != nil {
			continue
		}
		a := &gramAdder{op: op, add: op.Gram.Add(kernels.Select(cpu.Detect()), nil)}
		r.ops[op.ID], r.reads[g.Node(op.ID).Inputs[0]] = a, true
	}
	skip := map[Hash]int{}
	for _, h := range done.Summed {
		skip[h]++
	}
	r.done = GramSamples{Summed: slices.Clone(done.Summed)}
	jobs := make(chan *exec.Sample)
	var workers sync.WaitGroup
	finish := func() error { return nil }
	if dev != nil {
		on, err := dev.OpenGraph(g, max(threads, 1))
		if err != nil {
			return done, fmt.Errorf("gram: %w", err)
		}
		defer func() { _ = on.Close() }() // what the device failed with, it failed with before
		sums := on.Sum(ops)
		defer sums.Close()
		finish = sums.Finish
		workers.Go(func() {
			r.work(ctx, jobs, func(ctx context.Context, s *exec.Sample) error { return sums.Run(ctx, s.Feeds) })
		})
	} else {
		session, err := exec.New(g, exec.Options{Context: ctx})
		if err != nil {
			return done, fmt.Errorf("gram: %w", err)
		}
		for range max(threads, 1) {
			workers.Go(func() { r.work(ctx, jobs, r.onHost(session)) })
		}
	}
	r.feed(ctx, samples, skip, jobs, progress)
	close(jobs)
	workers.Wait()
	for _, a := range r.ops {
		a.add.Close()
	}
	sortHashes(r.done.Summed)
	if err := r.error(); err != nil {
		return done, err
	}
	if err := finish(); err != nil {
		return done, fmt.Errorf("gram: %w", err)
	}
	if ctx.Err() != nil {
		return r.done, context.Cause(ctx)
	}
	return r.done, nil
}

// feed hands out the samples that are to be summed and were not yet; skip is how often each was.
func (r *gramRun) feed(ctx context.Context, samples exec.Iterator, skip map[Hash]int, jobs chan<- *exec.Sample, progress func(done int)) {
	for ctx.Err() == nil && r.error() == nil {
		s, err := samples.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if ctx.Err() == nil {
				r.fail(fmt.Errorf("gram: sample %d: %w", r.done.Seen, err))
			}
			break
		}
		r.done.Seen++
		switch h := Hash(s.Hash); {
		case exec.HeldOut(h):
		case skip[h] > 0:
			skip[h]--
		default:
			jobs <- s
		}
		if progress != nil {
			progress(r.done.Seen)
		}
	}
}

// ErrGramRows is the error of moments of too many rows.
var ErrGramRows = fmt.Errorf("more than %d rows", uint64(observers.MaxGramRows))

// gramRun is one pass.
type gramRun struct {
	g     *graph.Graph
	ops   map[graph.NodeID]*gramAdder
	reads map[graph.ValueID]bool

	mu      sync.Mutex
	done    GramSamples
	failed  error
	padding *graph.Padding // nil until a sample has a mask
}

// gramAdder adds to the moments of one operator, for one goroutine at a time.
type gramAdder struct {
	op  *GramOp
	mu  sync.Mutex
	add *observers.GramAdder
}

func (r *gramRun) error() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *gramRun) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
}

// work runs samples to their end, whatever becomes of ctx: half a sample must not be in the sums.
func (r *gramRun) work(ctx context.Context, jobs <-chan *exec.Sample,
	sum func(ctx context.Context, s *exec.Sample) error) {
	for s := range jobs {
		if err := sum(context.WithoutCancel(ctx), s); err != nil {
			r.fail(fmt.Errorf("gram: sample %s: %w", s.Name, unstaged(err)))
			continue
		}
		r.mu.Lock()
		r.done.Summed = append(r.done.Summed, Hash(s.Hash))
		r.mu.Unlock()
	}
}

// onHost returns what runs a sample on the processor and adds its rows.
func (r *gramRun) onHost(session *exec.Session) func(ctx context.Context, s *exec.Sample) error {
	runner, unfold := session.NewRunner(), map[graph.NodeID]*Unfold{}
	var padded *graph.Padded
	hooks := &exec.Hooks{
		Wants: func(v graph.ValueID) bool { return r.reads[v] },
		Input: func(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
			if i != 0 || int(n.ID) >= r.g.NumNodes() || r.g.Node(n.ID).Name != n.Name || r.ops[n.ID] == nil {
				return t, nil
			}
			if unfold[n.ID] == nil {
				var err error
				if unfold[n.ID], err = NewUnfold(r.g, n.ID); err != nil {
					return nil, err
				}
			}
			return t, r.ops[n.ID].rows(unfold[n.ID], t, padded, n.Outputs[0])
		}}
	return func(ctx context.Context, s *exec.Sample) error {
		padded = r.paddingOf(s)
		_, err := runner.Run(ctx, s.Feeds, hooks)
		return err
	}
}

// paddingOf is the padding of a sample.
func (r *gramRun) paddingOf(s *exec.Sample) *graph.Padded {
	if s.Mask == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.padding == nil {
		r.padding, _ = graph.FindPadding(r.g, s.Mask) // a mask that this graph does not have any more hides nothing
	}
	return r.padding.Of(r.g, s.Feeds)
}

// rows adds the rows of one input.
func (a *gramAdder) rows(u *Unfold, t *tensor.Tensor, padded *graph.Padded, output graph.ValueID) error {
	rows, err := u.Rows(t, a.op.Gram.X, nil)
	if err != nil {
		return err
	}
	u.Real(rows, padded, output)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.add.Rows(rows, nil) {
		return ErrGramRows
	}
	return nil
}
