package tflite

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
	"qwb/quantizer/lower"
)

// weights adds codes, scales, zero points and bias of an operator that sums.
func (r *recoverer) weights(at string, s *lower.Step, op *lower.Linear, o *tf.Operator) error {
	if o == nil {
		return nil
	}
	row, ok := sums[o.Op]
	if !ok || len(o.Inputs) <= row.bias {
		return nil
	}
	x, b := &r.sub.Tensors[o.Inputs[row.x]], &r.sub.Tensors[o.Inputs[row.bias]]
	q, err := r.matrix(at, s, op.Weights, o, row)
	if err != nil {
		return err
	}
	return r.bias(at, op, x, q, b)
}

// hybrid adds what weights adds, of a product of float data, whose bias is float, and its activation.
func (r *recoverer) hybrid(at string, s *lower.Step, op *lower.RunTime, o *tf.Operator) error {
	if o == nil {
		return nil
	}
	row, ok := sums[o.Op]
	if !ok || o.Op == "TRANSPOSE_CONV" || len(o.Inputs) <= row.bias {
		return nil
	}
	if _, err := r.matrix(at, s, op.Weights, o, row); err != nil {
		return err
	}
	b := &r.sub.Tensors[o.Inputs[row.bias]]
	if b.Type != tf.Float32 || len(b.Data) != 4*op.Weights.Channels {
		return fmt.Errorf("its bias has %d bytes of %s for %d channels", len(b.Data), b.Type, op.Weights.Channels)
	}
	numbers, err := r.reals([]int{o.Inputs[row.bias]}, []int{0})
	if err != nil {
		return err
	}
	r.held.Add(&export.Item{At: at, Kind: export.Numbers, Floats: numbers})
	r.held.Add(&export.Item{At: at, Kind: export.Clamp, Ints: []int32{int32(o.Options.Int("fused_activation_function"))}})
	return nil
}

// wantsHybrid is what hybrid finds.
func wantsHybrid(p *lower.Program, s *lower.Step, op *lower.RunTime, yield func(*export.Item) error) error {
	at, n := export.StepName(p, s), p.Graph.Node(s.Node)
	if op.Weights == nil {
		return nil
	}
	for _, it := range []*export.Item{
		{At: at, Kind: export.Codes, Narrow: op.Weights.Codes.ToRowMajor()}, {At: at, Kind: export.Scales, Floats: op.Weights.Scale},
		{At: at, Kind: export.ZeroPoints, Ints: op.Weights.ZeroPoint},
		{At: at, Kind: export.Numbers, Floats: floatsOf(p.Graph.Const(n.Input(2)), op.Weights.Channels)},
		{At: at, Kind: export.Clamp, Ints: []int32{int32(hybridEnd(p, s))}},
	} {
		if err := yield(it); err != nil {
			return err
		}
	}
	return nil
}

// matrix adds codes, scales and zero points of the weights of an operator that sums, in the layout of the model, and returns how the file
// has them.
func (r *recoverer) matrix(at string, s *lower.Step, weights *lower.Weights, o *tf.Operator, row sumRow) (*tf.Quantization, error) {
	n, w := r.p.Graph.Node(s.Node), &r.sub.Tensors[o.Inputs[row.w]]
	codes, err := integersOf(w)
	if err != nil {
		return nil, err
	}
	shape := weights.Codes.Shape // of the model
	perm := last(len(shape))
	switch {
	case o.Op == "FULLY_CONNECTED":
		perm = []int{1, 0}
		if n.Gemm().TransB {
			perm = []int{0, 1}
		}
		codes = r.columns(s.Inputs[0], o.Inputs[row.x], codes, w.Shape)
	case o.Op == "DEPTHWISE_CONV_2D":
		perm = append(identity(len(shape))[1:], 0)
	case o.Op == "TRANSPOSE_CONV":
		perm = append(identity(len(shape))[1:], 0)
	}
	held, group, dilation := shape, 1, []int(nil)
	if o.Op == "TRANSPOSE_CONV" {
		if group, dilation = n.Conv().Group, dilationOf(n, len(shape)-2); group < 1 || shape[0]%group != 0 {
			return nil, fmt.Errorf("weights %v in %d groups", shape, group)
		}
		held = zeroedShape(shape, group, dilation)
	}
	if len(perm) != len(held) || len(codes) != tensor.Count(held) {
		return nil, fmt.Errorf("weights %v for %v of the model", w.Shape, held)
	}
	if codes = restored(codes, permuted(held, perm), perm); dilation != nil {
		if codes, err = unzeroed(codes, shape, group, dilation); err != nil {
			return nil, err
		}
	}
	r.held.Add(&export.Item{At: at, Kind: export.Codes, Ints: codes})
	scales, zeros, channels := []float32{}, []int32{}, weights.Channels
	q := w.Quantization
	if !q.Quantized() || len(q.Scale) != 1 && (len(q.Scale) != channels || q.Axis != row.axis) {
		return nil, fmt.Errorf("its weights have %d scales along axis %d for %d channels", len(q.Scale), q.Axis, channels)
	}
	for c := range channels {
		scales, zeros = append(scales, q.Scale[min(c, len(q.Scale)-1)]), append(zeros, int32(zero(q, c)))
	}
	alpha := float32(1)
	if n.Op == "Gemm" {
		alpha = n.Alpha()
	}
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: scales, Stored: func(s float32) float32 { return s * alpha }})
	r.held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: zeros})
	return q, nil
}

// dilationOf are the dilations of a convolution over so many axes.
func dilationOf(n *graph.Node, axes int) []int {
	list := slices.Repeat([]int{1}, axes)
	for i, d := range n.AttrInts("dilations") {
		if i < axes {
			list[i] = int(d)
		}
	}
	return list
}

// columns brings the columns of a matrix into the order of the model, where its input is a tensor of several axes that is read as it lies.
func (r *recoverer) columns(of lower.TensorID, x int, codes []int32, shape []int) []int32 {
	o := r.producer[x]
	if o == nil || o.Op != "RESHAPE" || !strings.HasSuffix(first(r.sub.Tensors[x].Name), "/stored") || len(shape) != 2 {
		return codes
	}
	from := o.Inputs[0]
	if i, ok := r.names[strings.TrimSuffix(r.sub.Tensors[from].Name, "/plane")]; ok { // the same elements, of one axis less
		from = i
	}
	held := r.sub.Tensors[from].Shape
	turns := r.turns(of, r.sub.Tensors[from].Name, len(held))
	perm := []int{}
	for _, axis := range r.perm(from)[1:] {
		perm = append(perm, slices.Index(turns, axis)-1)
	}
	if !valid(perm) || tensor.Count(held[1:]) != shape[1] {
		return codes
	}
	out := make([]int32, 0, len(codes))
	for row := range shape[0] {
		out = append(out, restored(codes[row*shape[1]:][:shape[1]], held[1:], perm)...)
	}
	return out
}

// turns says which axes of the file's tensor of a name are those of the tensor that is flattened into another one: Transposes between them
// stand in no file where the weights are reordered for them.
func (r *recoverer) turns(id lower.TensorID, name string, rank int) []int {
	axes, turned := identity(rank), false
	for r.p.Tensors[id].Name != name {
		at := slices.IndexFunc(r.p.Steps, func(s lower.Step) bool { return slices.Contains(s.Outputs, id) })
		if at < 0 {
			return identity(rank)
		}
		move, ok := r.p.Steps[at].Op.(*lower.Move)
		if !ok {
			return identity(rank)
		}
		switch n := move.Graph.Node(move.Graph.Nodes()[0]); {
		case n.Op == "Transpose":
			perm := n.AttrInts("perm")
			if perm != nil && len(perm) != rank {
				return identity(rank)
			}
			for i, axis := range axes {
				if axes[i] = rank - 1 - axis; perm != nil {
					axes[i] = int(perm[axis])
				}
			}
			turned = true
		case turned: // what is flattened is turned only
			return identity(rank)
		}
		id = r.p.Steps[at].Inputs[0]
	}
	return axes
}

// bias adds a bias, whose scales have to be those of the sum. A program without one has zeros in the file.
func (r *recoverer) bias(at string, op *lower.Linear, x *tf.Tensor, w *tf.Quantization, b *tf.Tensor) error {
	n, size := op.Weights.Channels, b.Type.Bits()/8
	if b.Type != tf.Int32 && b.Type != tf.Int64 || len(b.Data) != n*size {
		return fmt.Errorf("its bias has %d bytes of %s for %d channels", len(b.Data), b.Type, n)
	}
	list := make([]int64, n)
	for c := range list {
		if list[c] = int64(int32(binary.LittleEndian.Uint32(b.Data[c*size:]))); size == 8 {
			list[c] = int64(binary.LittleEndian.Uint64(b.Data[c*size:]))
		}
	}
	q := b.Quantization
	for c := range n {
		if !x.Quantization.Quantized() || !q.Quantized() || zero(q, c) != 0 ||
			q.Scale[min(c, len(q.Scale)-1)] != float32(x.Quantization.Scale[0]*w.Scale[min(c, len(w.Scale)-1)]) {
			return fmt.Errorf("channel %d of its bias has another scale than the sum, or a zero point", c)
		}
	}
	if op.Bias == nil && !slices.ContainsFunc(list, func(x int64) bool { return x != 0 }) {
		return nil
	}
	if k := len(op.Bias); k > 0 && k < n { // one for all channels, or for the channels of every group
		for c := range list {
			if list[c] != list[c%k] {
				return fmt.Errorf("channel %d of its bias is %d, and channel %d is %d", c, list[c], c%k, list[c%k])
			}
		}
		list = list[:k]
	}
	r.held.Add(&export.Item{At: at, Kind: export.Bias, Wide: list})
	return nil
}
