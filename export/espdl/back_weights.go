package espdl

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// integers are the elements of a constant, of a real one their bits.
func (t *Tensor) integers() ([]int64, error) {
	size, n := int64(elementSize[t.Type]), t.count()
	if size == 0 || n < 0 || int64(len(t.Raw)) < n*size {
		return nil, fmt.Errorf("%q has %d bytes of type %d for %v", t.Name, len(t.Raw), t.Type, t.Shape)
	}
	list := make([]int64, n)
	for i := range list {
		switch b := t.Raw[int64(i)*size:]; size {
		case 1:
			list[i] = int64(int8(b[0]))
		case 2:
			list[i] = int64(int16(binary.LittleEndian.Uint16(b)))
		case 4:
			list[i] = int64(int32(binary.LittleEndian.Uint32(b)))
		default:
			list[i] = int64(binary.LittleEndian.Uint64(b))
		}
	}
	return list, nil
}

func (t *Tensor) floats() ([]float32, error) {
	list, err := t.integers()
	return floatsOf(list), err
}

// floatsOf are the numbers that have such bits.
func floatsOf(bits []int64) []float32 {
	list := make([]float32, len(bits))
	for k, b := range bits {
		list[k] = math.Float32frombits(uint32(b))
	}
	return list
}

func narrow(list []int64) []int32 {
	out := make([]int32, len(list))
	for i, x := range list {
		out[i] = int32(x)
	}
	return out
}

// read adds what the node of a step reads, and what it says of axes.
func (r *recoverer) read(s *lower.Step, n *Node) error {
	r.lies(s, n)
	if err := r.moves(s, n); err != nil {
		return err
	}
	return r.operands(s, n)
}

// operands adds the constants of integers that a node reads, in the layout of the model.
func (r *recoverer) operands(s *lower.Step, n *Node) error {
	for i, id := range s.Inputs {
		if id == lower.NoTensor || r.p.Tensors[id].Const == nil || r.p.Tensors[id].Encoding == nil || i >= len(n.Inputs) {
			continue
		}
		name := n.Inputs[i]
		if p := r.producer[name]; p != nil && p.Op == "RequantizeLinear" && len(p.Inputs) > 0 {
			name = p.Inputs[0]
		}
		c := r.constants[name]
		if c == nil {
			continue // what is missing tells
		}
		list, err := c.integers()
		if err != nil {
			return err
		}
		r.grid(id, &Value{Type: c.Type, Exponents: c.Exponents})
		if out := r.at.perms[s.Outputs[0]]; len(out) == len(c.Shape) {
			list = restored(list, c.Shape, out)
		}
		r.held.Add(&export.Item{At: export.TensorName(r.p.Tensors[id].Name), Kind: export.Codes, Wide: list})
	}
	return nil
}

// restored returns the elements of a tensor, whose axis k is axis perm[k] of the model, in the order of the model.
func restored(list, shape []int64, perm []int) []int64 {
	if slices.IsSorted(perm) {
		return list
	}
	back, lies := make([]int, len(perm)), make([]int, len(perm))
	for k, axis := range perm {
		back[axis], lies[k] = k, int(shape[k])
	}
	return permuted(tensor.FromI64(list, lies...), back).I64()
}

// linear adds weights and bias.
func (r *recoverer) linear(at string, op *lower.Linear, n *Node, of *graph.Node) error {
	if len(n.Inputs) < 2 || r.constants[n.Inputs[1]] == nil {
		return nil // what is missing tells
	}
	w := r.constants[n.Inputs[1]]
	codes, err := unpack(w, n.Op, op.Weights, of.Conv().Group)
	if err != nil {
		return err
	}
	if blocks := strings.Contains(w.Doc, "(N/"); blocks == r.plain {
		return fmt.Errorf("weights lie as %q, which the kernels of the chip do not read", w.Doc)
	}
	r.held.Add(&export.Item{At: at, Kind: export.Codes, Wide: codes})
	scales := scalesOf(w.Exponents)
	if len(scales) == 1 { // one for all channels
		scales = slices.Repeat(scales, len(op.Weights.Scale))
	}
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: scales})
	r.held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: make([]int32, len(scales))})
	if len(n.Inputs) < 3 {
		return nil
	}
	b, x := r.constants[n.Inputs[2]], r.exponents(n.Inputs[0])
	if b == nil || len(x) != 1 || len(b.Exponents) != len(w.Exponents) {
		return fmt.Errorf("its bias is no constant with the exponents of the sums")
	}
	for c, e := range b.Exponents {
		if e != w.Exponents[c]+x[0] {
			return fmt.Errorf("exponent %d of its bias is %d, that of the sum is %d", c, e, w.Exponents[c]+x[0])
		}
	}
	list, err := b.integers()
	r.held.Add(&export.Item{At: at, Kind: export.Bias, Wide: list})
	return err
}

// unpack brings weights into the layout of the model; pack says how they lie.
func unpack(t *Tensor, op string, w *lower.Weights, group int) ([]int64, error) {
	list, err := t.integers()
	if err != nil {
		return nil, err
	}
	shape := w.Codes.Shape // of the model
	outs, ins, size := shape[0], 1, tensor.Count(shape)
	switch {
	case op == "Conv" && group > 1 && shape[1] > 1:
		ins, size = shape[1]*group, size*group
	case op == "Conv":
		ins = shape[1]
	default:
		outs, ins = shape[w.Axis], shape[1-w.Axis]
	}
	if len(list) != size || len(t.Shape) < 2 || outs < 1 || ins < 1 {
		return nil, fmt.Errorf("weights of shape %v for %v of the model", t.Shape, shape)
	}
	last := t.Shape[len(t.Shape)-2:]
	depthwise := op == "Conv" && last[0] == int64(outs) && last[1] == 1 && (ins == 1 && outs > 1)
	if !depthwise && !slices.Equal(last, []int64{int64(ins), int64(outs)}) {
		return nil, fmt.Errorf("weights of shape %v for %d outputs of %d inputs", t.Shape, outs, ins)
	}
	area, block := len(list)/(outs*ins), 0
	layout, _ := strings.CutPrefix(t.Doc, "layout ==> ")
	if _, err := fmt.Sscanf(layout, "(N/%d)", &block); err != nil && layout != "NHWC" && layout != "NWC" && layout != "HWCN" &&
		layout != "WCN" {
		return nil, fmt.Errorf("weights lie as %q", t.Doc)
	}
	whole := 0
	if block > 0 {
		whole = outs / block * block
	}
	lies := func(o, i, p int) int {
		switch {
		case o < whole:
			return ((o/block*area+p)*ins+i)*block + o%block
		case depthwise && (block > 0 || strings.HasSuffix(layout, "CN")):
			return whole*area + p*(outs-whole) + o - whole
		}
		return (o*area+p)*ins + i
	}
	out := make([]int64, len(list))
	for o := range outs {
		for i := range ins {
			for p := range area {
				k := (o*ins+i)*area + p
				if op != "Conv" && w.Axis == 1 {
					k = i*outs + o
				}
				out[k] = list[lies(o, i, p)]
			}
		}
	}
	if op == "Conv" {
		return ofGroups(out, shape, group)
	}
	return out, nil
}
