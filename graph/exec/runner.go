package exec

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// maxPlans is how many sets of input shapes a runner keeps plans for.
const maxPlans = 4

// runnerState is the memory of one runner.
type runnerState struct {
	s    *Session
	mem  memory
	pool pool     // memory of resumptions
	vals []handle // by value: as computed
	alt  []handle // by value: the same elements in the other layout
	// watched marks, by value, what somebody looks at: it has to exist. It decides, with the shapes, which plan fits.
	watched []bool
	// looks marks what is looked at and may be overwritten then, looked what has been shown in the run in progress.
	looks, looked []bool
	stages        []stage // of the step in progress
	hooks         *Hooks  // of the run in progress
	plans         []*plan
	parts         parts
	// samples and part are those of the last run and of its last part, 1 for a batch that was run as a whole.
	samples, part int
	shapes        [][]int // of the inputs of the run in progress
	runs          int64
	scratch       []float32 // padded inputs of convolutions; grown as needed
	codes         codeMemory
	call          call
	types         []typeCache // by step
	turn          turn        // the change of layout in progress
	turnPiece     func(i int)
	windows       []windowCache // by step
	// absorbed is, by step, the value that holds the step's result already, since an earlier one computed that too.
	absorbed []graph.ValueID
	apart    bool          // the step in progress computes in other element types than its followers
	batch    kernels.Batch // products that wait for others of the same input
	result   graph.ValueID // which the step in progress computes: its output, or that of the last step it absorbs
	joints   []joint       // by step
	whole    []int         // a shape in progress
	fused    []*graph.Node // for the hook of steps
	// products holds, by step, right-hand sides that are packed anew in every run.
	products []kernels.GemmF32
	packed   sync.Pool                // of *kernels.GemmF32: right-hand sides that live for one product
	chain    []link                   // what the step in progress computes of its followers' work
	ctx      context.Context          // of the run in progress
	outer    func(name string) handle // values of the enclosing graphs, in a subgraph
	chosen   func(n *graph.Node, way int)
	inners   map[*Session]*Runner
	views    []*tensor.Tensor
	nview    int
	limit    int64   // bytes that a run may take
	handed   int64   // bytes of the inputs, of the outermost graph
	ends     []int64 // for the budget, by step
}

func newRunner(s *Session) *Runner {
	values, steps := s.g.NumValues(), len(s.steps)
	r := &Runner{runnerState{s: s, limit: s.limit() - s.foldedBytes, samples: 1, part: 1, vals: make([]handle, values),
		alt: make([]handle, values), watched: make([]bool, values), looks: make([]bool, values), looked: make([]bool, values),
		absorbed: make([]graph.ValueID, steps), joints: make([]joint, steps), types: make([]typeCache, steps),
		windows: make([]windowCache, steps), products: make([]kernels.GemmF32, steps)}}
	fill(r.absorbed, graph.NoValue)
	return r
}

// run is Runner.Run.
func (r *runnerState) run(ctx context.Context, feeds map[string]*tensor.Tensor, hooks *Hooks) ([]*tensor.Tensor, error) {
	outs := make([]*tensor.Tensor, len(r.s.g.Outputs))
	if err := r.runInto(ctx, feeds, hooks, outs); err != nil {
		return nil, err
	}
	return outs, nil
}

// runInto is Runner.RunInto.
func (r *runnerState) runInto(ctx context.Context, feeds map[string]*tensor.Tensor, hooks *Hooks, outs []*tensor.Tensor) error {
	if len(outs) != len(r.s.g.Outputs) {
		return fmt.Errorf("%d tensors for %d outputs", len(outs), len(r.s.g.Outputs))
	}
	r.samples, r.part = 1, 1
	if samples, part := r.divide(feeds, hooks); part < samples {
		return r.runParts(ctx, feeds, outs, samples, part)
	}
	_, err := r.forward(ctx, feeds, hooks, nil, outs)
	return err
}

// runAll is Runner.RunAll.
func (r *runnerState) runAll(ctx context.Context, feeds map[string]*tensor.Tensor, hooks *Hooks,
	keep func(graph.ValueID) bool) ([]*tensor.Tensor, error) {
	if keep == nil {
		keep = func(graph.ValueID) bool { return true }
	}
	r.samples, r.part = 1, 1
	return r.forward(ctx, feeds, hooks, keep, nil)
}

// forward executes every step. keep, if not nil, says which values to clone for the caller. outs, if not nil, take the outputs.
func (r *runnerState) forward(ctx context.Context, feeds map[string]*tensor.Tensor, hooks *Hooks, keep func(graph.ValueID) bool,
	outs []*tensor.Tensor) (kept []*tensor.Tensor, err error) {
	if keep != nil { // asked once: what is kept has to be watched
		list := make([]bool, r.s.g.NumValues())
		for v := range list {
			list[v] = keep(graph.ValueID(v))
		}
		keep = func(v graph.ValueID) bool { return list[v] }
	}
	if r.reset(hooks, keep); r.outer == nil {
		r.chosen = nil
		if hooks != nil {
			r.chosen = hooks.Chose
		}
	}
	defer r.release()
	shapes, err := r.feed(feeds)
	if err != nil {
		return nil, err
	}
	captured, err := r.capture()
	if err != nil {
		return nil, err
	}
	shapes = append(shapes, captured...)
	r.runs++
	r.startMemory(r.findPlan(shapes), nil)
	if keep != nil {
		kept = make([]*tensor.Tensor, r.s.g.NumValues())
		for _, v := range r.s.g.Inputs {
			if t := r.vals[v].t; t != nil && !r.vals[v].fixed && keep(v) {
				kept[v] = t.Clone()
			}
		}
	}
	for i := range r.s.steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		st := &r.s.steps[i]
		folded := st.isConst && !r.hooked(st)
		if folded {
			r.useFolded(st)
		} else {
			r.mem.begin(i)
			if err := r.step(ctx, i, hooks); err != nil {
				return nil, err
			}
			r.s.forget(st)
		}
		if keep != nil {
			for _, v := range st.node.Outputs {
				if v != graph.NoValue && keep(v) && !folded {
					kept[v] = r.vals[v].t.Clone()
				}
			}
		}
		r.drop(st)
	}
	for i := range outs {
		outs[i] = copyOut(outs[i], r.vals[r.s.g.Outputs[i]].t)
	}
	r.learn(shapes)
	return kept, nil
}

// copyOut returns the elements of t row-major: in dst if that has its type and shape, else in a new tensor.
func copyOut(dst, t *tensor.Tensor) *tensor.Tensor {
	if dst == nil || t == nil || dst.Layout != tensor.RowMajor || dst.DType != t.DType || !slices.Equal(dst.Shape, t.Shape) ||
		t.Layout != tensor.RowMajor && !sameOrder(t.Shape) || !fits(dst, dst.Len()) {
		return detach(t)
	}
	if to, ok := dst.Data.([]float32); ok {
		copy(to, t.F32())
		return dst
	}
	copyElements(dst.Data, 0, t.Data, 0, storageLen(t))
	return dst
}

// detach returns a row-major copy that shares nothing with t.
func detach(t *tensor.Tensor) *tensor.Tensor {
	if t == nil {
		return nil
	}
	if c := t.ToRowMajor(); c != t {
		return c
	}
	return t.Clone()
}

// step runs node i: hooks, evaluator, hooks. Its inputs are in vals.
func (r *runnerState) step(ctx context.Context, i int, hooks *Hooks) error {
	if hooks == nil || hooks.Step == nil || r.absorbed[i] != graph.NoValue {
		return r.execute(ctx, i, hooks)
	}
	n := r.s.steps[i].node
	hooks.Step(n, nil, false)
	r.fused = r.fused[:0]
	if err := r.execute(ctx, i, hooks); err != nil {
		return err
	}
	hooks.Step(n, r.fused, true)
	return nil
}

// absorb says that the step in progress computes the result of step i too and leaves it in the value from.
func (r *runnerState) absorb(i int32, from graph.ValueID) {
	r.absorbed[i] = from
	r.result = r.s.steps[i].node.Outputs[0]
	r.fused = append(r.fused, r.s.steps[i].node)
}

// execute is step without the hook of steps. What an evaluator or a hook panics with is an error of the node.
func (r *runnerState) execute(ctx context.Context, i int, hooks *Hooks) (err error) {
	r.ctx = ctx
	st := &r.s.steps[i]
	defer func() {
		if bug := graph.Recovered(recover()); bug != nil {
			err = r.fail(st, bug)
		}
	}()
	c := &r.call
	c.run, c.step, c.index, c.node = r, st, i, st.node
	c.ins = resize(c.ins, len(st.node.Inputs))
	c.outs = resize(c.outs, len(st.node.Outputs))
	c.swapped = resize(c.swapped, len(st.node.Inputs))
	for k, v := range st.node.Inputs {
		c.ins[k], c.swapped[k] = handle{}, false
		if v == graph.NoValue {
			continue
		}
		if c.ins[k] = r.vals[v]; c.ins[k].t == nil {
			return r.fail(st, fmt.Errorf("input %q has no value", r.s.g.Value(v).Name))
		}
		if hooks.wants(v) && hooks.Input != nil {
			if err := r.hookInput(hooks, c, k); err != nil {
				return r.fail(st, err)
			}
		}
	}
	clear(c.outs)
	if err := r.evaluate(i, c); err != nil {
		return r.fail(st, err)
	}
	for k, v := range st.node.Outputs {
		if v == graph.NoValue {
			continue
		}
		out := c.outs[k]
		if out.t == nil {
			return r.fail(st, fmt.Errorf("output %d was not computed", k))
		}
		if !r.mem.extend(out.buf, r.s.lastUse[v]) {
			out, r.mem.stale = handle{t: out.t.Clone(), buf: noBuf}, true
		}
		r.vals[v], r.alt[v] = out, handle{}
		if hooks.wants(v) && hooks.Output != nil {
			if out.fixed { // hooks may write
				r.vals[v] = handle{t: out.t.Clone(), buf: noBuf}
			}
			if err := hooks.Output(st.node, k, r.vals[v].t); err != nil {
				return r.fail(st, err)
			}
		}
		if err := r.showWhole(st.node, k, r.vals[v].t); err != nil {
			return r.fail(st, err)
		}
	}
	return nil
}

// evaluate computes the outputs of a call, and with them the results of what it absorbs.
func (r *runnerState) evaluate(i int, c *call) error {
	if v := r.absorbed[i]; v != graph.NoValue {
		c.setOut(0, r.vals[v])
		return nil
	}
	if r.result = graph.NoValue; len(c.node.Outputs) > 0 {
		r.result = c.node.Outputs[0]
	}
	r.stages = r.stages[:0]
	if err := r.inferTypes(i, c); err != nil {
		return err
	}
	if r.follow(i); len(r.chain) > 0 {
		return r.runChain(c)
	}
	k, err := c.class()
	if err != nil {
		return err
	}
	defer c.flush()
	if k != usual {
		return r.evaluateAs(k, i, c)
	}
	return c.step.eval(c)
}

// hookInput lets the hook see input k and takes what it returns.
func (r *runnerState) hookInput(hooks *Hooks, c *call, k int) error {
	old := c.ins[k].t
	t, err := hooks.Input(c.node, k, old)
	if err != nil {
		return err
	}
	if t == old {
		return nil
	}
	if t == nil || t.DType != old.DType || t.Layout != old.Layout || !slices.Equal(t.Shape, old.Shape) {
		return fmt.Errorf("hook replaced input %d, %s, by a tensor of another type or layout", k, old.Type())
	}
	c.ins[k].t, c.ins[k].buf, c.swapped[k] = t, noBuf, true
	return nil
}

// fail wraps err with the node and the types of its inputs in this run.
func (r *runnerState) fail(st *step, err error) error {
	e := &graph.NodeError{Stage: "execute", Node: st.node.Name, Op: st.node.Op, Err: err}
	for _, v := range st.node.Inputs {
		if v == graph.NoValue || r.vals[v].t == nil {
			e.Types = append(e.Types, "absent")
			continue
		}
		e.Types = append(e.Types, r.vals[v].t.Type())
	}
	return e
}

// reset forgets the values of the run before and puts the constants in place. keep is that of watch.
func (r *runnerState) reset(hooks *Hooks, keep func(graph.ValueID) bool) {
	clear(r.vals)
	clear(r.alt)
	clear(r.looked)
	fill(r.absorbed, graph.NoValue)
	for i := range r.joints {
		r.joints[i].out = handle{}
	}
	r.nview = 0
	r.batch.Clear()
	r.hooks = hooks
	r.watch(keep)
	for v := range r.vals {
		if t := r.s.g.Const(graph.ValueID(v)); t != nil {
			r.vals[v] = handle{t: t, buf: noBuf, fixed: true}
		}
	}
}

// watch marks what the hooks look at, and what keep adds to that unless it is nil.
func (r *runnerState) watch(keep func(graph.ValueID) bool) {
	for v := range r.watched {
		id := graph.ValueID(v)
		r.watched[v] = r.hooks.wants(id) || keep != nil && keep(id)
		r.looks[v] = r.hooks.sees(id)
	}
}

// hooked reports whether a hook looks at what a step reads or computes.
func (r *runnerState) hooked(st *step) bool {
	if r.hooks == nil {
		return false
	}
	watched := func(v graph.ValueID) bool { return v != graph.NoValue && r.hooks.wants(v) }
	seen := func(v graph.ValueID) bool { return v != graph.NoValue && (r.hooks.wants(v) || r.hooks.sees(v)) }
	return slices.ContainsFunc(st.node.Inputs, watched) || slices.ContainsFunc(st.node.Outputs, seen)
}

// release drops references to the caller's tensors.
func (r *runnerState) release() {
	r.hooks = nil
	clear(r.vals)
	clear(r.alt)
	r.call.ins = clearAll(r.call.ins)
	r.call.outs = clearAll(r.call.outs)
}

func (r *runnerState) useFolded(st *step) {
	for _, v := range st.node.Outputs {
		if v != graph.NoValue {
			r.vals[v] = handle{t: r.s.folded[v], buf: noBuf, fixed: true}
		}
	}
}

// drop forgets values that no later step reads, so that memory outside the plan can be collected.
func (r *runnerState) drop(st *step) {
	for _, v := range st.dies {
		r.vals[v], r.alt[v] = handle{}, handle{}
	}
}

// findPlan returns the plan for these input shapes, nil if this run has to make one.
func (r *runnerState) findPlan(shapes [][]int) *plan {
	for _, p := range r.plans {
		if slices.Equal(p.watched, r.watched) && slices.Equal(p.looks, r.looks) && slices.EqualFunc(p.shapes, shapes, slices.Equal[[]int]) {
			p.used = r.runs
			return p
		}
	}
	return nil
}

// learn turns the record of a traced run into a plan, and drops a plan that did not fit.
func (r *runnerState) learn(shapes [][]int) {
	if p := r.mem.plan; p != nil {
		if r.mem.stale {
			r.plans = slices.DeleteFunc(r.plans, func(q *plan) bool { return q == p })
		}
		return
	}
	p := newPlan(r.mem.bufs, len(r.s.steps))
	if p.bytes > r.limit { // values that never meet, but lie in one arena
		return
	}
	p.place()
	for _, s := range shapes {
		p.shapes = append(p.shapes, slices.Clone(s))
	}
	p.watched, p.looks, p.used = slices.Clone(r.watched), slices.Clone(r.looks), r.runs
	for len(r.plans) == maxPlans || len(r.plans) > 0 && r.planned() > r.limit-p.bytes {
		oldest := 0
		for i := range r.plans {
			if r.plans[i].used < r.plans[oldest].used {
				oldest = i
			}
		}
		r.plans = slices.Delete(r.plans, oldest, oldest+1)
	}
	r.plans = append(r.plans, p)
}

// planned is the memory of the plans that are kept.
func (r *runnerState) planned() (bytes int64) {
	for _, p := range r.plans {
		bytes += p.bytes
	}
	return bytes
}

// header returns a tensor header that lives until the end of the run.
func (r *runnerState) header() *tensor.Tensor {
	if r.nview == len(r.views) {
		r.views = append(r.views, new(tensor.Tensor))
	}
	r.nview++
	return r.views[r.nview-1]
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

func clearAll[T any](s []T) []T {
	clear(s[:cap(s)])
	return s
}
