package onnxqdq

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/qdq"
	"qwb/quantizer/tqc"
)

// wants is all of a set, and what operators are that the file has too.
func (r *recoverer) wants(in *export.Input, yield func(*export.Item) error) error {
	if err := export.OfSet(in, yield); err != nil {
		return err
	}
	if p := in.Pixels; p != nil && !arePixels(r.plan, r.set, p) {
		if err := yield(pixelItem(p.Input, p.Table())); err != nil {
			return err
		}
	}
	for _, id := range r.plan.Nodes() {
		of := r.plan.Node(id)
		it := export.AttributesOf(of)
		if at, ok := r.g.LookupNode(of.Name); ok {
			if plan, _ := r.attributes(of, r.g.Node(at)); plan != nil {
				it = plan
			}
		}
		if err := yield(it); err != nil {
			return err
		}
	}
	return nil
}

// gemmDefaults are attributes that say nothing: of a Gemm that was written as a product of integers they are not in the file.
var gemmDefaults = []string{"alpha=1", "beta=1", "transA=0", "transB=0"}

// attributes are those of an operator of the plan and of the file that are the same operator, or that on integers which stands for it: nil
// where they are not. Where the file is of another version of ONNX, it may have more of them.
func (r *recoverer) attributes(of, n *graph.Node) (plan, file *export.Item) {
	form, whole := qdq.QOperators[n.Op]
	if whole && form.Op != of.Op || !whole && (n.Op != of.Op || n.Domain != of.Domain) || r.precision(of.Name) != qmath.FP32 {
		return nil, nil // of 16-bit floats, types are attributes
	}
	plan, file = export.AttributesOf(of), export.AttributesOf(n)
	file.At, file.Texts[0] = plan.At, plan.Texts[0]
	if len(of.Inputs) > 0 && of.Inputs[0] != graph.NoValue { // an axis has two names
		rank := len(r.plan.Value(of.Inputs[0]).Shape)
		for _, it := range []*export.Item{plan, file} {
			for i, s := range it.Texts {
				var axis int
				if k, err := fmt.Sscanf(s, "axis=%d", &axis); k == 1 && err == nil && axis < 0 && rank > 0 {
					it.Texts[i] = fmt.Sprintf("axis=%d", axis+rank)
				}
			}
		}
	}
	other := r.g.Opset(of.Domain) != r.plan.Opset(of.Domain)
	skips := is(of, "Conv") && r.skips(n.Input(0))
	older := other && is(of, "Softmax", "LogSoftmax", "Hardmax") // which took all axes from one on, and are written in other ways
	drop := func(it *export.Item, twin *graph.Node, added bool) {
		it.Texts = slices.DeleteFunc(it.Texts, func(s string) bool {
			name, value, attribute := strings.Cut(s, "=")
			return attribute && (is(of, "Gemm") && slices.Contains(gemmDefaults, s) || other && strings.HasPrefix(value, export.GraphOf) ||
				added && other && twin.Attr(name) == nil || whole && !slices.Contains(form.Attrs, name) || skips && name == "strides" ||
				older && name == "axis")
		})
	}
	drop(plan, n, len(n.Inputs) > len(of.Inputs)) // a later version may have an input in the place of an attribute
	drop(file, of, true)
	return plan, file
}

// skips reports whether the file has a pool before a reader that takes out what the plan's strides skip, see subsample.
func (r *recoverer) skips(v graph.ValueID) bool {
	for range r.g.Nodes() {
		p := r.g.Producer(v)
		if p == graph.NoNode || r.ours(r.g.Node(p)) {
			return false
		}
		if is(r.g.Node(p), "MaxPool") {
			return true
		}
		if v = r.g.Node(p).Input(0); v == graph.NoValue {
			return false
		}
	}
	return false
}

// lacks: an activation that operators on integers take in has no numbers of its own.
// What it leaves of the codes is compared with their grid.
func (r *recoverer) lacks(it *export.Item) string {
	if it.Kind == export.Attributes {
		return "operators that have another form in the file"
	}
	if it.Kind != export.Numbers {
		return ""
	}
	for _, id := range r.plan.Nodes() {
		n := r.plan.Node(id)
		if is(n, "Clip") && (it.At == export.SlotName(n.Name, 1, 0) || it.At == export.SlotName(n.Name, 2, 0)) {
			if _, float := r.g.LookupNode(n.Name); !float {
				return "limits of activations, but for the codes that they leave"
			}
		}
	}
	return ""
}

// operator adds what an operator on integers says of the inputs of the float operator that it stands for.
func (r *recoverer) operator(of, n *graph.Node, form *qdq.QOperator) error {
	for i := range form.Plain {
		c, err := r.either(n.Input(i))
		if err != nil {
			return err
		}
		if err := r.input(of.Name, i, c); err != nil {
			return err
		}
	}
	var scales [][]float32
	for k, o := range form.Operands(len(n.Inputs)) {
		v := n.Input(o.X)
		c, err := r.codes(v)
		if err != nil {
			return fmt.Errorf("input %d: %w", o.X, err)
		}
		q, err := r.gridOf(n, n.Input(o.Scale), n.Input(o.Zero), r.g.Value(v).DType)
		if err != nil {
			return fmt.Errorf("input %d: %w", o.X, err)
		}
		if q.axis = -1; len(r.g.Const(n.Input(o.Scale)).Shape) > 0 {
			q.axis, _ = graph.OutAxis(of, len(r.g.Value(v).Shape))
		}
		scales = append(scales, q.scale)
		if slot := r.set.Input(of.ID, form.Plain+k); slot != tqc.NoSlot && r.set.Slot(slot).Config.Signed() {
			c, q = asInt8(c, q)
		}
		if err := r.input(of.Name, form.Plain+k, c.with(q, true)); err != nil {
			return err
		}
	}
	b := r.g.Const(n.Input(form.Bias))
	if form.Bias == 0 || b == nil {
		return nil
	}
	q := &heldGrid{dtype: b.DType, axis: -1, low: -1 << 31, high: 1<<31 - 1, runTime: graph.NoValue} // of the sum that it is added to
	for _, w := range scales[1] {
		q.scale, q.zero = append(q.scale, qmath.BiasScale(scales[0][0], float32(w*alphaOf(of)))), append(q.zero, 0)
	}
	if len(r.g.Const(n.Input(form.In[1].Scale)).Shape) > 0 {
		q.axis = len(b.Shape) - 1
	}
	return r.input(of.Name, graph.BiasInput, (&chain{constant: b, integers: true}).with(q, true))
}

// asInt8 is a constant of uint8 as the plan has it, where operators on integers want the type of their result (package qoperator).
func asInt8(c *chain, q *heldGrid) (*chain, *heldGrid) {
	if c.constant == nil || q.dtype != tensor.Uint8 || len(c.grids) > 0 {
		return c, q
	}
	lower := func(list []int32) []int32 {
		list = slices.Clone(list)
		for i := range list {
			list[i] -= 128
		}
		return list
	}
	t, s := c.constant.ToRowMajor(), storageOf(tensor.Int8)
	held := *q
	held.dtype, held.low, held.high, held.zero = tensor.Int8, s.low, s.high, lower(q.zero)
	return &chain{constant: tensor.New(tensor.Int8, t.Shape...).WithIntegers(lower(t.Integers())), integers: true}, &held
}

func alphaOf(n *graph.Node) float32 {
	if n.Op == "Gemm" {
		return n.Alpha()
	}
	return 1
}

// blocks adds what a MatMulNBits says of the product of floats with quantized weights that it stands for.
func (r *recoverer) blocks(of, n *graph.Node) error {
	for i, k := range map[int]int{graph.DataInput: 0, graph.BiasInput: 5} {
		if n.Input(k) == graph.NoValue {
			continue
		}
		c, err := r.float(n.Input(k))
		if err != nil {
			return err
		}
		if err := r.input(of.Name, i, c); err != nil {
			return err
		}
	}
	b := &blockReader{k: int(n.AttrInt("K", 0)), n: int(n.AttrInt("N", 0)), width: int(n.AttrInt("bits", 4)),
		block: int(n.AttrInt("block_size", 0))}
	packed, scales, zeros := r.g.Const(n.Input(1)), r.g.Const(n.Input(2)), r.g.Const(n.Input(3))
	if packed == nil || scales == nil || packed.DType != tensor.Uint8 || scales.DType != tensor.Float32 || b.k < 1 || b.n < 1 || b.block < 1 ||
		b.width != 4 && b.width != 8 {
		return errors.New("its weights are not constants of 4 or 8 bits")
	}
	b.codes, b.scales, b.blocks = tensor.Of[uint8](packed), scales.F32(), (b.k+b.block-1)/b.block
	if zeros != nil {
		b.zeros = tensor.Of[uint8](zeros)
	}
	if len(b.codes) != b.n*b.blocks*(b.block*b.width/8) || len(b.scales) != b.n*b.blocks || zeros != nil &&
		len(b.zeros) != b.n*((b.blocks*b.width+7)/8) {
		return fmt.Errorf("weights %s and scales %s for %d rows of %d", packed.Type(), scales.Type(), b.n, b.k)
	}
	slot := r.set.Input(of.ID, graph.WeightInput)
	c, err := b.read(&r.set.Slot(slot).Config, of.Op == "Gemm" && of.Gemm().TransB)
	if err != nil {
		return err
	}
	return r.input(of.Name, graph.WeightInput, c)
}

// blockReader reads packed weights: a row of blocks for each output.
type blockReader struct {
	k, n, width, block, blocks int
	codes, zeros               []uint8 // no zeros: the middle of the range
	scales                     []float32
}

func (b *blockReader) field(data []uint8, i int) int32 {
	return int32(data[i*b.width/8]) >> (i * b.width % 8) & (1<<b.width - 1)
}

// read unpacks the weights into the layout of the plan's, where rows says that its first axis is that of the outputs. Scales that repeat
// one of a channel or tensor have to be the same.
func (b *blockReader) read(c *tqc.Config, rows bool) (*chain, error) {
	q := &heldGrid{dtype: tensor.Int8, axis: -1, runTime: graph.NoValue}
	group, channel := c.Policy.Has(tqc.PerGroup), c.Policy.Has(tqc.PerChannel)
	shape, count := []int{b.k, b.n}, 1
	if rows {
		shape = []int{b.n, b.k}
	}
	switch {
	case group:
		q.axis, q.block, count = truth(rows), b.block, b.n*b.blocks
	case channel:
		q.axis, count = 1-truth(rows), b.n
	}
	middle := int32(0)
	if c.Signed() {
		middle = 1 << (b.width - 1)
	}
	q.scale, q.zero = make([]float32, count), make([]int32, count)
	out := tensor.New(tensor.Int32, shape...)
	codes := out.Data.([]int32)
	for row := range b.n {
		for i := range b.blocks {
			at, zero := 0, int32(1)<<(b.width-1)
			if b.zeros != nil {
				zero = b.field(b.zeros[row*((b.blocks*b.width+7)/8):], i)
			}
			switch {
			case group && rows:
				at = row*b.blocks + i
			case group:
				at = i*b.n + row
			case channel:
				at = row
			}
			s := b.scales[row*b.blocks+i]
			if first := !group && i == 0 && (channel || row == 0); !group && !first && (q.scale[at] != s || q.zero[at] != zero-middle) {
				return nil, fmt.Errorf("block %d of row %d has another scale or zero point than the others", i, row)
			}
			q.scale[at], q.zero[at] = s, zero-middle
			for k := i * b.block; k < min((i+1)*b.block, b.k); k++ {
				code := b.field(b.codes[(row*b.blocks+i)*(b.block*b.width/8):], k-i*b.block) - middle
				if rows {
					codes[row*b.k+k] = code
				} else {
					codes[k*b.n+row] = code
				}
			}
		}
	}
	return &chain{[]*heldGrid{q}, out, true}, nil
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
