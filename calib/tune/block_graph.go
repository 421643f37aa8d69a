package tune

import (
	"cmp"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// The names of what a lesson's graph is fed beside the inputs of the block.
const (
	fedTarget = "block/target" // and the number of the exit: what it is in float
	fedFactor = "block/factor" // and the same: what its error is multiplied by in the gradient of the loss
	fedWeight = "block/weight" // and a number
	fedBias   = "block/bias"   // and the number of the weight
	fedScale  = "block/scale"  // and a number: of activations
	fedNorm   = "block/norm"   // and a number: of what a normalization has
	fedMask   = "block/mask"   // and a number: bool, where quantization is not dropped
)

// lesson is a block made ready to be learnt: a graph that computes the errors of a batch and the gradients of the loss.
type lesson struct {
	p       *passage
	k       *block
	session *exec.Session
	batch   int
	steps   int
	shapes  map[string][]int // of the inputs of the block and of the masks
	masks   []string
	weights []*soft
	biases  []*shift // by weight; nil where there is none
	norms   []*norm
	scales  []*lsq
	weigh   []float64 // by exit: what its error counts in the loss
	par     kernels.Parallel
	words   []uint64 // of chances
}

// lessonBatch is how many samples a step of learning takes, if there are so many and they can be put together.
const lessonBatch = 16

// lesson makes the graph. Inputs keep the shapes of the first sample; others of other shapes are left out.
func (p *passage) lesson(k *block) (*lesson, error) {
	g, err := graph.Extract(p.Graph, k.inputs, k.exits)
	if err != nil {
		return nil, err
	}
	first := p.list[0]
	for i, v := range g.Inputs {
		g.Value(v).Shape = graph.Static(first.float.kept[k.inputs[i]].Shape...)
	}
	l := &lesson{p: p, k: k, batch: 1, shapes: map[string][]int{}, par: exec.Parallel(p.Threads)}
	if n := min(lessonBatch, p.fitting, int(cmp.Or(p.StepMemory, p.memory())/runBytes(g))); n > 1 {
		if open, err := graph.OpenBatch(g); err == nil && open != g {
			g, l.batch = open, n
		}
	}
	for _, v := range g.Inputs {
		s := slices.Clone(g.Value(v).Shape)
		if l.batch > 1 {
			s[0] = graph.Static(l.batch)[0]
		}
		g.Value(v).Shape = s
		l.shapes[g.Value(v).Name], _ = s.Ints()
	}
	if errs := graph.InferShapes(g); len(errs) > 0 {
		return nil, errs[0]
	}
	q, err := p.Simulate(p.Graph, p.Set, p.shared)
	if err != nil {
		return nil, err
	}
	w := &lessonWriter{lesson: l, NodeWriter: graph.NodeWriter{G: g, Name: "block"}, known: map[tqc.SlotID]graph.ValueID{}, simulated: q.Set()}
	w.quantize()
	if k.all {
		w.normalizations()
	}
	w.loss()
	if w.Err != nil {
		return nil, w.Err
	}
	l.session, err = exec.New(g, exec.Options{Threads: p.Threads, Parallel: l.par})
	return l, err
}

// runBytes is about what a step takes for one sample: every tensor of g, quantized in four operators, with a mask, a gradient
// and what that is made of.
func runBytes(g *graph.Graph) int64 {
	const tensors = 10
	sum := bytesOf(g, g.Inputs)
	for _, id := range g.Nodes() {
		sum += bytesOf(g, g.Node(id).Outputs)
	}
	return max(tensors*sum, 1)
}

// bytesOf is the size of float tensors; dimensions that are not known count as 1.
func bytesOf(g *graph.Graph, list []graph.ValueID) (sum int64) {
	for _, v := range list {
		sum += 4 * g.Value(v).Shape.ElementsAtLeast()
	}
	return sum
}

// lessonWriter puts quantization and gradients into the graph of a block.
type lessonWriter struct {
	*lesson
	graph.NodeWriter
	asked []graph.ValueID              // of what gradients are wanted
	known map[tqc.SlotID]graph.ValueID // the scales of activations, by root
	moved []graph.ValueID              // those of them that are learnt
	rest  []graph.ValueID              // what normalizations have, of which gradients are wanted too

	simulated *tqc.Set // it says how activations are rounded
}

func (w *lessonWriter) fail(err error) {
	if w.Err == nil {
		w.Err = err
	}
}

// op adds an operator.
func (w *lessonWriter) op(op string, d tensor.DType, shape graph.Shape, in ...graph.ValueID) graph.ValueID {
	v := w.Value(op, d, shape)
	w.Add(op, in, v)
	return v
}

func (w *lessonWriter) scalar(x float32) graph.ValueID {
	return w.G.AddConst(w.G.FreshName("block/const"), tensor.FromF32([]float32{x}))
}

// fed adds an input.
func (w *lessonWriter) fed(name string, d tensor.DType, shape graph.Shape) graph.ValueID {
	v, err := w.G.AddValue(graph.Value{Name: name, DType: d, Shape: shape})
	if err != nil {
		w.fail(err)
	}
	w.G.Inputs = append(w.G.Inputs, v)
	return v
}

// quantize does in the graph what the simulation does to each operator's constants and activations; weights and biases that are learnt are
// fed.
func (w *lessonWriter) quantize() {
	b := w.p.Bench
	for _, id := range w.G.Nodes() {
		own, ok := b.Graph.LookupNode(w.G.Node(id).Name)
		if !ok {
			continue
		}
		for i, v := range slices.Clone(w.G.Node(id).Inputs) {
			s := b.Set.Input(own, i)
			if v == graph.NoValue || s == tqc.NoSlot || !b.Set.Slot(s).State().Quantizes() || w.G.Node(id).Inputs[i] != v {
				continue // or a bias that is learnt
			}
			if c := w.G.Const(v); c != nil {
				w.constant(id, own, i, s, c)
				continue
			}
			if w.made(v) != b.Set.Root(s) {
				w.G.SetInput(id, i, w.activation(v, s))
			}
		}
	}
	computed := slices.Clone(w.G.Inputs[:len(w.k.inputs)])
	for _, id := range w.G.Nodes() {
		computed = append(computed, w.G.Node(id).Outputs...)
	}
	for _, v := range computed { // behind, so that each is found as it was
		s := w.output(v)
		if s == tqc.NoSlot || len(w.G.Uses(v)) == 0 {
			continue
		}
		uses := slices.Clone(w.G.Uses(v))
		y := w.activation(v, s)
		for _, u := range uses {
			w.G.SetInput(u.Node, u.Index, y)
		}
	}
}

// output is the slot on which a value of the block, or one that enters it, is quantized where it is computed, NoSlot where it is not.
func (w *lessonWriter) output(v graph.ValueID) tqc.SlotID {
	if v == graph.NoValue {
		return tqc.NoSlot
	}
	g, set := w.p.Graph, w.p.Set
	own, ok := g.Lookup(w.G.Value(v).Name)
	if !ok || g.Producer(own) == graph.NoNode {
		return tqc.NoSlot
	}
	p := g.Producer(own)
	s := set.Output(p, slices.Index(g.Node(p).Outputs, own))
	if s == tqc.NoSlot || !set.Slot(s).State().Quantizes() {
		return tqc.NoSlot
	}
	return s
}

// made is the root of the scale on which a value is computed, NoSlot where it is not quantized there.
func (w *lessonWriter) made(v graph.ValueID) tqc.SlotID {
	if s := w.output(v); s != tqc.NoSlot {
		return w.p.Set.Root(s)
	}
	return tqc.NoSlot
}

// constant quantizes a constant, or makes a weight that is learnt an input.
func (w *lessonWriter) constant(id, own graph.NodeID, i int, s tqc.SlotID, c *tensor.Tensor) {
	for at, l := range w.k.layers {
		if l.node == own && i == graph.WeightInput {
			soft, err := newSoft(w.p.Reference.Const(w.p.Reference.Node(own).Inputs[i]), c, w.p.Set, s, w.p.Optimizer)
			if err != nil {
				w.fail(err)
				return
			}
			soft.layer = at
			w.learnt(id, i, fmt.Sprint(fedWeight, len(w.weights)))
			var bias *shift
			if l.channels > 0 {
				bias = w.bias(own, soft)
				w.learnt(id, graph.BiasInput, fmt.Sprint(fedBias, len(w.weights)))
			}
			w.weights, w.biases = append(w.weights, soft), append(w.biases, bias)
			return
		}
	}
	q, err := quantized(w.p.Set, s, c)
	if err != nil {
		w.fail(err)
		return
	}
	w.G.OwnConst(id, i, q)
}

// learnt feeds input i of a node.
func (w *lessonWriter) learnt(id graph.NodeID, i int, name string) {
	v := w.fed(name, tensor.Float32, graph.Static(w.G.Const(w.G.Node(id).Inputs[i]).Shape...))
	w.G.SetInput(id, i, v)
	w.asked = append(w.asked, v)
}

// activation quantizes a tensor where a mask says so.
func (w *lessonWriter) activation(v graph.ValueID, s tqc.SlotID) graph.ValueID {
	set := w.p.Set
	c := &set.Slot(s).Config
	if !c.Integer() || !c.Policy.Has(tqc.PerTensor) || !set.Params(s).Ready() {
		w.fail(fmt.Errorf("%s is quantized otherwise than by one scale that is known", w.G.Value(v).Name))
		return v
	}
	grid := set.Grid(s, 0)
	shape := w.G.Value(v).Shape
	of := func(op string, in ...graph.ValueID) graph.ValueID { return w.op(op, tensor.Float32, shape, in...) }
	scale := w.scale(set.Root(s), grid)
	low, high := w.scalar(float32(grid.QMin-grid.ZeroPoint)), w.scalar(float32(grid.QMax-grid.ZeroPoint))
	q := of("Div", v, scale)
	steps := of("Round", q)
	if w.simulated.Slot(s).Config.Rounding == qmath.Down { // rounding passes gradients on, Floor does not
		above := w.op("Greater", tensor.Bool, shape, steps, q)
		steps = of("Sub", steps, of("Where", above, w.scalar(1), w.scalar(0)))
	}
	q = of("Mul", of("Clip", steps, low, high), scale)
	name := fmt.Sprint(fedMask, len(w.masks))
	w.masks = append(w.masks, name)
	w.shapes[name], _ = shape.Ints()
	return of("Where", w.fed(name, tensor.Bool, shape), q, v)
}

// scale is the scale of an activation: a constant, or fed where it is learnt.
func (w *lessonWriter) scale(root tqc.SlotID, grid qmath.Grid) graph.ValueID {
	if v, ok := w.known[root]; ok {
		return v
	}
	if !w.free(root) {
		w.known[root] = w.scalar(grid.Scale)
		return w.known[root]
	}
	name := fmt.Sprint(fedScale, len(w.scales))
	w.known[root] = w.fed(name, tensor.Float32, graph.Static())
	w.scales = append(w.scales, &lsq{root: root, first: grid.Scale, zero: w.p.Set.Params(root).ZeroPoint,
		power: w.p.Set.Slot(root).Config.Policy.Has(tqc.PowerOf2), log: make([]float32, 1), mover: newMover(w.p.Optimizer, 1)})
	w.moved = append(w.moved, w.known[root])
	return w.known[root]
}

// free reports whether a scale may be learnt with the block: it has few bits or is a power of two, neither the target nor somebody
// prescribes it, and it is of nothing but what the block reads and computes in front of its exit.
func (w *lessonWriter) free(root tqc.SlotID) bool {
	b, set := w.p.Bench, w.p.Set
	if c := &set.Slot(root).Config; b.Ranges == nil || c.QMax-c.QMin >= 1<<fewBits && !c.Policy.Has(tqc.PowerOf2) {
		return false
	}
	for _, s := range set.Group(root) {
		sl := set.Slot(s)
		_, here := w.G.LookupNode(b.Graph.Node(sl.Node).Name)
		if sl.Kind == tqc.Output {
			here = here && !slices.Contains(w.k.exits, sl.Value) || slices.Contains(w.k.inputs, sl.Value)
		}
		if !here || b.Graph.Const(sl.Value) != nil {
			return false
		}
	}
	list, err := b.Ranges(b.Graph, set, root)
	return err == nil && len(list) > 0
}
