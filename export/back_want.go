package export

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/tqc"
)

// SlotName names input i of a node, OutputName an output of the graph, TensorName a tensor of a program, and StepName a step, as items
// do. A slot where a tensor is brought to one grid after another has a name for each of them: nth counts from 0.
func SlotName(node string, i, nth int) string {
	return strconv.Quote(node) + " input " + strconv.Itoa(i) + again(nth)
}

// OutputName is SlotName for an output of the graph.
func OutputName(name string, nth int) string { return "output " + strconv.Quote(name) + again(nth) }

// TensorName is the name of a tensor of a program among items.
func TensorName(name string) string { return "tensor " + strconv.Quote(name) }

// StepName is the name of a step of a program among items: that of the first tensor that it computes, which no other step does.
func StepName(p *lower.Program, s *lower.Step) string {
	for _, t := range s.Outputs {
		if t != lower.NoTensor {
			return "step of " + strconv.Quote(p.Tensors[t].Name)
		}
	}
	return fmt.Sprintf("step %d", s.ID)
}

func again(nth int) string {
	if nth == 0 {
		return ""
	}
	return fmt.Sprintf(" grid %d", nth+1)
}

// GridOf is what an item of kind Grid holds of a slot: the type of its numbers, the axis along which scales vary, counted from the front
// (-1: there is one; of scales of tokens the last), how many elements along it share one (0: one), and, of a tensor that is computed, 1
// where scales are found at run time, else 0 with the lowest and the highest code, see Limited.
func GridOf(c *tqc.Config, rank int, constant bool) []int32 {
	axis, block := -1, 0
	switch {
	case c.Policy.Has(tqc.PerToken):
		axis = rank - 1
	case !c.Policy.Has(tqc.PerTensor):
		axis, _ = graph.Axis(c.Axis, rank)
	}
	if c.Policy.Has(tqc.PerGroup) {
		block = c.GroupSize
	}
	list := []int32{int32(c.Type), int32(axis), int32(block)}
	switch {
	case constant:
		return list
	case c.RunTime():
		return append(list, 1)
	}
	return append(list, 0, c.QMin, c.QMax)
}

// Limited returns the ends of the codes that a tensor is quantized to: those of the codec, within what the Relu or Clip that computes it,
// or several, leave of them.
func Limited(g *graph.Graph, v graph.ValueID, codec qmath.Codec) (low, high int32) {
	low, high = codec.QMin, codec.QMax
	if !codec.Integer() {
		return low, high
	}
	p := g.Producer(v)
	if p == graph.NoNode {
		return low, high
	}
	n := g.Node(p)
	if n.Op == "Cast" && n.Domain == "" { // to a float of 16 bits or from it
		return Limited(g, n.Inputs[0], codec)
	}
	lo, hi, ok := graph.LimitsOf(n, g.Opset(""), g.Const)
	if !ok {
		return low, high
	}
	low, high = Limited(g, paired(g, n.Inputs[0]), codec)
	for _, x := range []struct {
		bound float32
		set   bool
		to    func(a, b int32) int32
	}{{lo, lo >= -math.MaxFloat32, maxOf}, {hi, hi <= math.MaxFloat32, minOf}} {
		if x.set { // rounding never turns an order around: the code of a limited number is the limited code
			at := codec.Quantize(x.bound)
			low, high = x.to(low, at), x.to(high, at)
		}
	}
	return low, high
}

// paired is the tensor that a pair of Q and DQ rounds to v, or v.
func paired(g *graph.Graph, v graph.ValueID) graph.ValueID {
	for _, op := range []string{"DequantizeLinear", "QuantizeLinear"} {
		p := g.Producer(v)
		if p == graph.NoNode || g.Node(p).Op != op {
			break
		}
		v = g.Node(p).Inputs[0]
	}
	return v
}

func maxOf(a, b int32) int32 { return max(a, b) }
func minOf(a, b int32) int32 { return min(a, b) }

// OfSet yields what a file holds that has the operators of a plan with quantized tensors between them, as Q/DQ has: for every input of
// every node, and every output of the graph, the grids that it is brought to in turn; codes of constants there, and the numbers of float32
// constants that are not quantized.
func OfSet(in *Input, yield func(*Item) error) error {
	w := &wanted{g: in.Model.Graph, set: in.Set, yield: yield, codes: verified(in)}
	for _, id := range w.g.Nodes() {
		n := w.g.Node(id)
		for i, v := range n.Inputs {
			if v == graph.NoValue {
				continue
			}
			if err := w.input(n, i, v); err != nil {
				return w.g.ErrorAt("export", id, fmt.Errorf("input %d: %w", i, err))
			}
		}
	}
	for _, v := range w.g.Outputs {
		for k, s := range w.chain(v, tqc.NoSlot) {
			if err := w.grid(OutputName(w.g.Value(v).Name, k), s, false); err != nil {
				return err
			}
		}
	}
	return nil
}

type wanted struct {
	g     *graph.Graph
	set   *tqc.Set
	yield func(*Item) error
	codes map[graph.NodeID]*tensor.Tensor // of the weights of a node
}

// verified are the weights of the program that was verified.
func verified(in *Input) map[graph.NodeID]*tensor.Tensor {
	list := map[graph.NodeID]*tensor.Tensor{}
	if in.Verified == nil || in.Verified.Graph != in.Model.Graph {
		return list
	}
	for i := range in.Verified.Steps {
		s := &in.Verified.Steps[i]
		if l, ok := s.Op.(*lower.Linear); ok && l.Weights != nil {
			list[s.Node] = l.Weights.Codes
		}
	}
	return list
}

func (w *wanted) quantizes(s tqc.SlotID) bool {
	return s != tqc.NoSlot && w.set.Slot(s).State().Quantizes()
}

// chain lists the slots that bring v to grids for a reader whose slot is own: the one that computes it, and its own. A slot with the scale
// of the one before changes nothing.
func (w *wanted) chain(v graph.ValueID, own tqc.SlotID) []tqc.SlotID {
	var list []tqc.SlotID
	if p := w.g.Producer(v); p != graph.NoNode {
		for i, o := range w.g.Node(p).Outputs {
			if s := w.set.Output(p, i); o == v && w.quantizes(s) {
				list = append(list, s)
			}
		}
	}
	if w.quantizes(own) && (len(list) == 0 || !w.same(list[0], own)) {
		list = append(list, own)
	}
	return list
}

func (w *wanted) same(a, b tqc.SlotID) bool {
	x, y := w.set.Params(a), w.set.Params(b)
	c, d := &w.set.Slot(a).Config, &w.set.Slot(b).Config
	return c.SameScheme(*d) && !c.RunTime() && c.Policy.Has(tqc.PerTensor) && len(x.Scale) == 1 && len(y.Scale) == 1 &&
		x.Scale[0] == y.Scale[0] && x.ZeroPoint[0] == y.ZeroPoint[0]
}

func (w *wanted) input(n *graph.Node, i int, v graph.ValueID) error {
	own, t := w.set.Input(n.ID, i), w.g.Const(v)
	if t == nil {
		for k, s := range w.chain(v, own) {
			if err := w.grid(SlotName(n.Name, i, k), s, false); err != nil {
				return err
			}
		}
		return nil
	}
	at := SlotName(n.Name, i, 0)
	if !w.quantizes(own) {
		if t.DType != tensor.Float32 {
			return nil
		}
		return w.yield(&Item{At: at, Kind: Numbers, Floats: t.ToRowMajor().F32()})
	}
	if err := w.grid(at, own, true); err != nil {
		return err
	}
	c, d := &w.set.Slot(own).Config, tensor.Int32
	if c.Integer() {
		d = lower.Encoding{QMin: c.QMin, QMax: c.QMax}.DType()
	}
	codes := w.codes[n.ID]
	if codes == nil || i != graph.WeightInput || codes.DType != d {
		var err error
		if codes, err = tqc.QuantizeTo(d, t, c, w.set.Params(own)); err != nil {
			return err
		}
	}
	defer w.g.Forget(t)
	defer w.g.Forget(codes)
	return w.yield(&Item{At: at, Kind: CodesOf(c), Narrow: codes})
}

// CodesOf is the kind of the codes of a constant: Bias for integers of more bits than weights have, else Codes.
func CodesOf(c *tqc.Config) ItemKind {
	if c.Integer() && c.Bits > 16 {
		return Bias
	}
	return Codes
}

// grid yields grid, scales and zero points of a slot.
func (w *wanted) grid(at string, s tqc.SlotID, constant bool) error {
	sl, p := w.set.Slot(s), w.set.Params(s)
	c := &sl.Config
	list := GridOf(c, len(w.g.Value(sl.Value).Shape), constant)
	if len(list) == 6 && len(p.Scale) == 1 {
		list[4], list[5] = Limited(w.g, sl.Value, p.Codec(c, 0))
	}
	if err := w.yield(&Item{At: at, Kind: Grid, Ints: list}); err != nil || c.RunTime() {
		return err
	}
	if err := w.yield(&Item{At: at, Kind: Scales, Floats: p.Scale}); err != nil || !c.Integer() {
		return err
	}
	return w.yield(&Item{At: at, Kind: ZeroPoints, Ints: p.ZeroPoint})
}

// OfProgram yields what a file holds that has the steps of an integer program: scale, zero point and limits of every tensor of integers,
// codes of those that are constant, and of every step weights with their scales and zero points, bias, multipliers, clamp and table: of
// several outputs one after the other.
func OfProgram(in *Input, yield func(*Item) error) error {
	p := in.Program
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Encoding == nil {
			continue
		}
		at, e := TensorName(t.Name), t.Encoding
		list := []*Item{{At: at, Kind: Scales, Floats: []float32{e.Scale}}, {At: at, Kind: ZeroPoints, Ints: []int32{e.ZeroPoint}},
			{At: at, Kind: Grid, Ints: []int32{e.QMin, e.QMax}}}
		if t.Const != nil {
			list = append(list, &Item{At: at, Kind: Codes, Narrow: t.Const.ToRowMajor()})
		}
		if err := each(list, yield); err != nil {
			return err
		}
	}
	for i := range p.Steps {
		if err := each(ofStep(StepName(p, &p.Steps[i]), p.Steps[i].Op), yield); err != nil {
			return err
		}
	}
	return nil
}

func each(list []*Item, yield func(*Item) error) error {
	for _, it := range list {
		if err := yield(it); err != nil {
			return err
		}
	}
	return nil
}

// ofStep is what a step holds.
func ofStep(at string, op lower.Op) (list []*Item) {
	add := func(k ItemKind, ints ...int32) { list = append(list, &Item{At: at, Kind: k, Ints: ints}) }
	switch o := op.(type) {
	case *lower.Linear:
		if w := o.Weights; w != nil {
			list = append(list, &Item{At: at, Kind: Codes, Narrow: w.Codes.ToRowMajor()})
			list = append(list, &Item{At: at, Kind: Scales, Floats: w.Scale})
			add(ZeroPoints, w.ZeroPoint...)
		}
		if o.Bias != nil {
			list = append(list, &Item{At: at, Kind: Bias, Wide: o.Bias})
		}
		var clamp []int32
		var m []qmath.Multiplier
		for _, s := range o.Scales {
			if s.Multipliers != nil {
				clamp, m = append(clamp, s.Lo, s.Hi), append(m, s.Multipliers...)
			}
		}
		if clamp != nil {
			add(Clamp, clamp...)
			list = append(list, MultipliersOf(at, m)...)
		}
	case *lower.Clamp:
		add(Clamp, o.Lo, o.Hi)
	case *lower.Concat:
		add(Clamp, o.Lo, o.Hi)
	case *lower.Select:
		add(Clamp, o.Lo, o.Hi)
	case *lower.Table:
		add(Table, o.Codes.ToRowMajor().Integers()...)
	case *lower.PRelu:
		add(Table, o.Above.ToRowMajor().Integers()...)
	case *lower.MaxPool:
		add(Clamp, o.Lowest)
	}
	return list
}

// MultipliersOf are the items of the multipliers of a step: of kind Multipliers a mantissa and a shift each, of kind Factors Scale, Bias
// and Out, of kind Doubles the bits of Double; those that no multiplier uses are left out.
func MultipliersOf(at string, list []qmath.Multiplier) []*Item {
	whole, factors, doubles := &Item{At: at, Kind: Multipliers}, &Item{At: at, Kind: Factors}, &Item{At: at, Kind: Doubles}
	for _, m := range list {
		whole.Ints = append(whole.Ints, m.M, m.Shift)
		factors.Floats = append(factors.Floats, m.Scale, m.Bias, m.Out)
		doubles.Wide = append(doubles.Wide, int64(math.Float64bits(m.Double)))
	}
	var used []*Item
	if slices.ContainsFunc(whole.Ints, func(x int32) bool { return x != 0 }) {
		used = append(used, whole)
	}
	if slices.ContainsFunc(factors.Floats, func(x float32) bool { return x != 0 }) {
		used = append(used, factors)
	}
	if slices.ContainsFunc(doubles.Wide, func(x int64) bool { return x != 0 }) {
		used = append(used, doubles)
	}
	return used
}
