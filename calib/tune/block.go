package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/quantizer/passes"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Block learns the rounding of the weights of a block together, by gradients of the block's error (AdaRound, Nagel et al. 2020, "Up or
// Down? Adaptive Rounding for Post-Training Quantization"; blocks as BRECQ, Li et al. 2021; dropped quantization as QDrop, Wei et al.
// 2022).
var Block = Method{Name: "block",
	Doc:     "learns weight rounding block by block, by gradients (AdaRound, BRECQ, QDrop); takes long, in auto where the error stays large",
	Changes: []string{"weights", "biases", "scales"}, Needs: []string{"data", "gradients"}, OnlyNamed: true, Run: blockwise,
	Cost: costOfBlocks,
	Learns: func(b *Bench) (most int64, err error) {
		list, err := b.blocks()
		for _, k := range list {
			if len(k.layers) <= maxBlock {
				most = max(most, b.learningBytes(k))
			}
		}
		return most, err
	}}

// maxBlock is how many operators a block may have. Beyond it there is no one tensor for a long way, and what is learnt together is too much
// for the samples that there are.
const maxBlock = 16

// copies is how many times the bytes of a weight learning takes: where it lies between steps, its moments, gradients, what it is rounded
// to, and the same as products read it.
const copies = 16

// learningBytes is about what the weights of a block take while they are learnt.
func (b *Bench) learningBytes(k *block) (bytes int64) {
	for _, l := range k.layers {
		if t := b.Reference.Const(b.Reference.Node(l.node).Input(graph.WeightInput)); t != nil {
			bytes += copies * int64(t.DType.Bytes(t.Len()))
		}
	}
	return bytes
}

// block is a part of a graph that one tensor enters, or all inputs do, and one leaves; or the whole network, see Distill.
type block struct {
	inputs []graph.ValueID // what it reads of the graph's inputs and of the block in front
	exits  []graph.ValueID
	scores []*graph.Node // by exit: what makes probabilities of it; only where the loss is theirs
	layers []layer
	all    bool // it is the whole network
}

// exit is where the place of a block's exit is asked for.
func (k *block) exit() graph.ValueID { return k.exits[0] }

// name is that of its first operator with weights, and how many follow.
func (k *block) name(g *graph.Graph) string {
	name := g.Node(k.layers[0].node).Name
	if n := len(k.layers); n > 1 {
		name += fmt.Sprintf(" and %d more", n-1)
	}
	return name
}

// blocks cuts a graph into blocks, in order: where all that is read further on, beside the graph's inputs, is one tensor. A block ends in
// front of the next operator with weights, so that it has its activation, and two blocks of one operator each are one.
func (b *Bench) blocks() ([]*block, error) {
	all, err := layers(b.Graph, b.Set)
	if err != nil {
		return nil, err
	}
	order, err := b.Graph.Order()
	if err != nil {
		return nil, err
	}
	at := map[graph.NodeID]int{}
	for i, id := range order {
		at[id] = i
	}
	all = slices.DeleteFunc(all, func(l layer) bool { return l.weight == tqc.NoSlot })
	cuts := b.cuts(order)
	var list []*block
	for from := 0; from < len(all); {
		to, exit := from, graph.NoValue
		for ; to < len(all) && exit == graph.NoValue; to++ {
			end := len(order)
			if to+1 < len(all) {
				end = at[all[to+1].node]
			}
			for i := at[all[to].node]; i < end; i++ {
				if cuts[i] != graph.NoValue {
					exit = cuts[i]
				}
			}
		}
		if exit == graph.NoValue {
			break // several outputs, or none that is float: nothing to judge by
		}
		last := len(list) - 1
		if to-from == 1 && last >= 0 && len(list[last].layers) == 1 {
			list[last].layers, list[last].exits = append(list[last].layers, all[from]), []graph.ValueID{exit}
		} else {
			list = append(list, &block{layers: slices.Clone(all[from:to]), exits: []graph.ValueID{exit}})
		}
		from = to
	}
	entry := graph.NoValue
	for _, k := range list {
		k.inputs = b.entries(entry, k.exits)
		entry = k.exit()
	}
	return list, nil
}

// cuts has, by place in the order, the one float tensor that is read further on once the node there has run; else NoValue. The last one may
// be the output.
func (b *Bench) cuts(order []graph.NodeID) []graph.ValueID {
	left := map[graph.ValueID]int{} // readers that have not run
	live := map[graph.ValueID]bool{}
	cuts := make([]graph.ValueID, len(order))
	for i, id := range order {
		n := b.Graph.Node(id)
		for _, v := range n.Inputs {
			if live[v] {
				if left[v]--; left[v] == 0 {
					delete(live, v)
				}
			}
		}
		for _, v := range n.Outputs {
			if v == graph.NoValue {
				continue
			}
			left[v] = len(b.Graph.Uses(v))
			if b.Graph.Captured(v) {
				left[v]++ // for good
			}
			if left[v] > 0 {
				live[v] = true
			}
		}
		cuts[i] = graph.NoValue
		if len(live) == 1 {
			for v := range live {
				if b.Graph.Value(v).DType == tensor.Float32 {
					cuts[i] = v
				}
			}
		}
	}
	if out := b.Graph.Outputs; len(out) == 1 && len(order) > 0 && len(live) == 0 {
		last := len(order) - 1
		if last == 0 || cuts[last-1] == graph.NoValue {
			cuts[last] = out[0]
		}
	}
	return cuts
}

// entries are what a block reads: entry, and the inputs of the graph that it needs.
func (b *Bench) entries(entry graph.ValueID, exits []graph.ValueID) []graph.ValueID {
	var list []graph.ValueID
	seen := map[graph.ValueID]bool{}
	todo := slices.Clone(exits)
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if v == graph.NoValue || seen[v] || b.Graph.Const(v) != nil {
			continue
		}
		seen[v] = true
		if p := b.Graph.Producer(v); v != entry && p != graph.NoNode {
			todo = append(todo, b.Graph.Node(p).Inputs...)
			continue
		}
		list = append(list, v)
	}
	slices.Sort(list)
	return list
}

// blockwise goes through the blocks in order, everything in front of each quantized and tuned already, and keeps what lowers the error at
// its exit on the held-out samples by more than the error bar of all trials together.
func blockwise(ctx context.Context, b *Bench) (*Report, error) {
	report := &Report{Layers: []Layer{}}
	list, err := b.blocks()
	if err != nil || len(list) == 0 {
		return report, err
	}
	b.ready()
	p, err := b.passage(list)
	if err != nil {
		return nil, err
	}
	done := b.done
	b.done = nil
	worst, err := p.worst(ctx, list, len(done) == 0)
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		if worst[k] {
			p.ahead += b.lessonWork(k, p.fitting)
		}
	}
	bar := analysis.Trials(len(worst))
	for i, k := range list {
		l := &Layer{Node: k.name(b.Graph), Tried: []Step{}}
		if i < len(done) { // by an earlier run, which has counted the work
			l = &done[i]
			spent := b.Work.Spent
			err = p.run(ctx, k, p.list, true)
			b.Work.Spent = spent
		} else {
			err = p.pass(ctx, k, l, bar, worst[k])
		}
		if err != nil {
			return nil, fmt.Errorf("the block of %s: %w", l.Node, err)
		}
		p.leave(k)
		if worst[k] {
			p.ahead -= b.lessonWork(k, p.fitting)
		}
		if report.Layers = append(report.Layers, *l); i < len(done) {
			continue
		}
		if err := b.pass(report.Layers, false); err != nil {
			return nil, err
		}
		b.tell(i+1, len(list), report.kept())
	}
	return report, nil
}

// costOfBlocks is that of the blocks with the most work, where some are learnt: which is not known before.
func costOfBlocks(b *Bench) (float64, error) {
	list, err := b.blocks()
	if err != nil {
		return 0, err
	}
	var works []float64
	for _, k := range list {
		if len(k.layers) <= maxBlock {
			works = append(works, b.lessonWork(k, len(b.Fit)))
		}
	}
	slices.SortFunc(works, func(a, b float64) int { return cmp.Compare(b, a) })
	if b.Blocks > 0 {
		works = works[:min(b.Blocks, len(works))]
	}
	sum := 0.0
	for _, w := range works {
		sum += w
	}
	return sum, nil
}

// passage takes all samples from block to block, in a float lane and in a quantized one.
type passage struct {
	*Bench
	session *exec.Session
	list    []*traveller
	fitting int     // the first so many fit, the others are held out
	ahead   float64 // the work of learning what is not learnt yet, with all steps; see Bench.lessonWork
}

// traveller is a sample on its way; its lanes keep what it has at the places where blocks meet, not quantized: the next block's scale
// decides how it reads them.
type traveller struct {
	state
	yf, yq []*tensor.Tensor // the exits of the block under way, in both lanes, before they are quantized
}

// passage begins at the inputs. Where the samples would take more than the memory at the places where blocks meet, fewer fit; it is an
// error where not even minFit do.
func (b *Bench) passage(list []*block) (*passage, error) {
	session, err := exec.New(b.Reference, exec.Options{})
	if err != nil {
		return nil, err
	}
	fit, err := b.fitting(list)
	if err != nil {
		return nil, err
	}
	p := &passage{Bench: b, session: session}
	for _, samples := range [][]*exec.Sample{fit, b.Held} {
		p.fitting = len(p.list)
		for _, s := range samples {
			t := &traveller{state: state{sample: s, padded: b.padding(s.Mask).Of(b.Reference, s.Feeds)}}
			t.float.kept = make([]*tensor.Tensor, b.Reference.NumValues())
			for _, v := range b.Reference.Inputs {
				t.float.kept[v] = s.Feeds[b.Reference.Value(v).Name]
			}
			t.quantized.kept = slices.Clone(t.float.kept)
			p.list = append(p.list, t)
		}
	}
	return p, nil
}

// minFit is how many samples a block is learnt on at least, where memory bounds them.
const minFit = 16

// fitting are the samples to fit on for which there is memory: each has what enters a block and what leaves it, in both lanes and before it
// is quantized.
func (b *Bench) fitting(list []*block) ([]*exec.Sample, error) {
	var most int64 = 1
	for _, k := range list {
		most = max(most, 3*bytesOf(b.Reference, slices.Concat(k.inputs, k.exits)))
	}
	room := int(b.memory()/most) - len(b.Held)
	switch {
	case room >= len(b.Fit):
		return b.Fit, nil
	case room < min(minFit, len(b.Fit)):
		return nil, fmt.Errorf("%d samples to fit on and %d held out take %d MB where blocks meet: more than --mem allows", minFit, len(b.Held),
			most*int64(minFit+len(b.Held))>>20)
	}
	b.say("block: fitted on %d of %d samples, for which there is memory", room, len(b.Fit))
	return b.Fit[:room], nil
}

// worst are the blocks to be learnt: all, or so many behind which, on the samples that fit, the error has grown most. It is that of the
// network when the method began, so that a run that goes on finds the same; counts says that the work is counted.
func (p *passage) worst(ctx context.Context, list []*block, counts bool) (map[*block]bool, error) {
	worst := map[*block]bool{}
	if p.Blocks == 0 || p.Blocks >= len(list) {
		for _, k := range list {
			worst[k] = true
		}
		return worst, nil
	}
	begin, err := p.Bench.passage(list)
	if err != nil {
		return nil, err
	}
	now, spent := *p.Bench, p.Work.Spent
	if p.point != nil {
		p.Graph, p.Set = p.point.begin.graph, p.point.begin.set
	}
	growth, last := map[*block]float64{}, 0.0
	for _, k := range list {
		if err := begin.run(ctx, k, begin.list[:begin.fitting], true); err != nil {
			return nil, err
		}
		sum := 0.0
		for _, e := range begin.errors(k, begin.list[:begin.fitting]) {
			sum += e
		}
		growth[k], last = sum-last, sum
		begin.leave(k)
	}
	if p.Graph, p.Set = now.Graph, now.Set; !counts {
		p.Work.Spent = spent
	}
	order := slices.Clone(list)
	arrange.Stable(order, func(a, b *block) int { return cmp.Compare(growth[b], growth[a]) })
	for _, k := range order[:p.Blocks] {
		worst[k] = true
	}
	return worst, nil
}

// pass tunes one block, if it can, and takes the samples to its exit.
func (p *passage) pass(ctx context.Context, k *block, l *Layer, bar float64, worst bool) error {
	if err := p.run(ctx, k, p.list, true); err != nil {
		return err
	}
	if l.Why = p.refuses(k); l.Why == "" && !worst {
		l.Why = fmt.Sprintf("not tried: the error grows more at %d others", p.Blocks)
	}
	if l.Why != "" {
		return nil
	}
	lesson, err := p.lesson(k)
	if err != nil {
		l.Why = "not tried: " + err.Error()
		return nil
	}
	return p.judge(ctx, lesson, l, bar)
}

// leave has the samples go on behind a block.
func (p *passage) leave(k *block) {
	for _, t := range p.list {
		for _, v := range k.inputs {
			if p.Graph.Producer(v) != graph.NoNode {
				t.float.kept[v], t.quantized.kept[v] = nil, nil
			}
		}
		for i, y := range t.yf { // none where it was not run
			t.float.kept[k.exits[i]], t.quantized.kept[k.exits[i]] = y, t.yq[i]
		}
	}
}

// judge learns a block and keeps it where that helps.
func (p *passage) judge(ctx context.Context, lesson *lesson, l *Layer, bar float64) error {
	k := lesson.k
	first := p.held(k)
	found, err := lesson.learn(ctx)
	if err != nil {
		return err
	}
	g, set, chosen := p.Graph, p.Set, p.Chosen
	if err := p.take(lesson, found); err != nil {
		return err
	}
	if err := p.run(ctx, k, p.list[p.fitting:], false); err != nil {
		return err
	}
	e := analysis.Paired(first, p.held(k))
	step := Step{By: p.stage.Method, Trials: 1}
	step.measured(e)
	again := p.list[p.fitting:] // who has to go through the block as it is now
	if step.Kept = p.keeps(e, bar); step.Kept {
		again = p.list[:p.fitting]
		for _, one := range k.layers {
			p.Frozen[one.node] = true
		}
	} else {
		p.Graph, p.Set, p.Chosen = g, set, chosen
		step.Why = "the error at the end of the block does not fall by more than its error bar"
	}
	l.Tried = append(l.Tried, step)
	l.conclude(e)
	return p.run(ctx, k, again, false)
}

// refuses says why a block is not tuned.
func (p *passage) refuses(k *block) string {
	switch {
	case p.Work.over():
		return "not tried: the budget is spent"
	case len(k.layers) > maxBlock && !k.all:
		return fmt.Sprintf("not tried: %d operators with weights, at most %d are tuned together", len(k.layers), maxBlock)
	case p.fitting == 0:
		return "not tried: no samples to fit on"
	}
	return ""
}

// held are the errors at the exit of a block on the held-out samples.
func (p *passage) held(k *block) []float64 { return p.errors(k, p.list[p.fitting:]) }

// errors are by sample the NSR at the exit of a block, of several their sum.
func (p *passage) errors(k *block, samples []*traveller) []float64 {
	list := make([]float64, len(samples))
	for n, t := range samples {
		for i, v := range k.exits {
			if m, err := t.moment(v, t.yq[i], t.yf[i], 0); err == nil {
				list[n] += m.nsr()
			}
		}
	}
	return list
}

// run takes samples through a block in the quantized lane, and in the float lane too where float says so.
func (p *passage) run(ctx context.Context, k *block, list []*traveller, float bool) error {
	q, err := p.Simulate(p.Graph, p.Set, p.shared)
	if err != nil {
		return err
	}
	lanes := 1.0
	if float {
		lanes = 2
	}
	p.forwards(lanes * float64(len(list)) * p.shareOf(k))
	return each(ctx, p.session, p.Threads, len(list), func(r *exec.Runner, i int) (err error) {
		t := list[i]
		if float {
			if t.yf, err = p.through(ctx, r, k, t.float.kept, &exec.Hooks{}); err != nil {
				return err
			}
		}
		h := *q.NewHooks(sim.View{Islands: true})
		kept := slices.Clone(t.quantized.kept)
		for _, v := range k.inputs {
			if id := p.Reference.Producer(v); id != graph.NoNode && h.Wants(v) {
				n := p.Reference.Node(id)
				kept[v] = kept[v].Clone()
				if err := h.Output(n, slices.Index(n.Outputs, v), kept[v]); err != nil {
					return err
				}
			}
		}
		t.yq, err = p.through(ctx, r, k, kept, &h)
		return err
	})
}

// through is what leaves a block, before it is quantized, given what enters it.
func (p *passage) through(ctx context.Context, r *exec.Runner, k *block, kept []*tensor.Tensor, hooks *exec.Hooks) (out []*tensor.Tensor,
	err error) {
	out = make([]*tensor.Tensor, len(k.exits))
	h := *hooks
	wants := func(v graph.ValueID) bool { return hooks.Wants != nil && hooks.Wants(v) }
	h.Wants = func(v graph.ValueID) bool { return wants(v) || slices.Contains(k.exits, v) }
	h.Output = func(n *graph.Node, i int, y *tensor.Tensor) error {
		if at := slices.Index(k.exits, n.Outputs[i]); at >= 0 && p.own(n) {
			if out[at] = y.ToRowMajor(); out[at] == y {
				out[at] = y.Clone()
			}
		}
		if wants(n.Outputs[i]) {
			return hooks.Output(n, i, y)
		}
		return nil
	}
	h.Input = func(n *graph.Node, i int, x *tensor.Tensor) (*tensor.Tensor, error) {
		if wants(n.Inputs[i]) {
			return hooks.Input(n, i, x)
		}
		return x, nil
	}
	if k.all {
		feeds := map[string]*tensor.Tensor{}
		for _, v := range p.Reference.Inputs {
			feeds[p.Reference.Value(v).Name] = kept[v]
		}
		_, err = r.RunAll(ctx, feeds, &h, nothing)
	} else {
		exit := p.Reference.Producer(k.exit())
		_, _, err = r.Resume(ctx, kept, exit, &h, func(id graph.NodeID) bool { return id == exit })
	}
	if err == nil && slices.Contains(out, nil) {
		err = errors.New("its end was not computed")
	}
	return out, err
}

// take puts what was learnt of a block into the bench.
func (p *passage) take(lesson *lesson, f *learnt) error {
	k := lesson.k
	g, set, chosen := p.Graph.Clone(), p.Set.Clone(), slices.Clone(p.Chosen)
	for _, w := range f.weights {
		n := g.Node(k.layers[w.layer].node)
		g.SetConst(n.Inputs[graph.WeightInput], w.weight)
	}
	for _, c := range f.scales {
		if err := set.Render(c.Slot, c.Params); err != nil {
			return err
		}
		chosen = append(slices.DeleteFunc(chosen, func(o Chosen) bool { return o.Slot == c.Slot }), c)
	}
	for i, t := range f.norms {
		g.SetConst(g.Node(lesson.norms[i].node).Inputs[lesson.norms[i].input], t)
	}
	if len(f.scales) > 0 {
		if _, err := passes.SolveBias(g, set); err != nil {
			return err
		}
	}
	for _, w := range f.weights {
		if w.bias == nil {
			continue
		}
		at := k.layers[w.layer]
		was := g.Const(g.Node(at.node).Inputs[graph.BiasInput]).F32()
		delta := make([]float64, len(was))
		for c, x := range w.bias.F32() {
			delta[c] = float64(x) - float64(was[c])
		}
		limit(g, set, at, delta)
		addToBias(g, at.node, delta)
	}
	p.Graph, p.Set, p.Chosen = g, set, chosen
	return nil
}
