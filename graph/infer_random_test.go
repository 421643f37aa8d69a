package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"qwb/graph/tensor"
	"qwb/internal/longtest"
)

// attributes of operators, by kind, that inference reads.
var (
	intAttrs = []string{"axis", "keepdims", "ceil_mode", "group", "to", "blocksize", "allowzero", "start", "end", "batch_dims",
		"hidden_size", "layout", "num_outputs", "noop_with_empty_axes", "output_height", "output_width", "dtype", "block_size",
		"q_num_heads", "kv_num_heads", "transA", "transB", "onesided", "inverse", "broadcast", "channels_last", "k", "select_last_index",
		"output_dtype", "stash_type", "exclude_outside", "num_scan_inputs"}
	intsAttrs = []string{"axes", "kernel_shape", "strides", "pads", "dilations", "output_shape", "output_padding", "perm", "shape",
		"split", "starts", "ends", "pooled_shape", "paddings", "qkv_hidden_sizes"}
	strAttrs = map[string][]string{"auto_pad": {"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "x"}, "mode": {"linear", "nearest", "reflect"},
		"direction": {"bidirectional", "reverse"}, "keep_aspect_ratio_policy": {"stretch", "not_larger", "not_smaller", "x"},
		"coordinate_transformation_mode": {"tf_crop_and_resize", "asymmetric"},
		"equation":                       {"ij,jk->ik", "...i->...", "ii", "", "->", "a...b,...->ba", "i,i", "i..j"}}
	extremes = []int64{0, 1, 1, 2, 2, 3, 4, 6, -1, -1, -2, 7, 1 << 31, 1 << 40, math.MaxInt64, math.MinInt64, math.MaxInt32,
		-1 << 31, 1<<62 + 1}
)

// TestInferNeverPanics runs every operator on random inputs and attributes, most of them nonsense. What is accepted must be
// a type that can exist.
func TestInferNeverPanics(t *testing.T) {
	rounds := 600
	if !longtest.Wanted(t) {
		rounds = 100
	}
	for _, s := range Ops() {
		accepted := 0
		for seed := range rounds {
			r := rand.New(rand.NewPCG(uint64(seed), 0))
			n, opset, in := randomCall(r, s)
			out, err := inferGuarded(t, s, n, opset, in)
			if err != nil {
				continue
			}
			accepted++
			for _, o := range out {
				if _, err := o.Shape.Elements(); err != nil {
					t.Fatalf("%s: %v", s.Name, err)
				}
				for _, d := range o.Shape {
					if d.N < -1 {
						t.Fatalf("%s: dimension %d", s.Name, d.N)
					}
				}
			}
		}
		if accepted == 0 && longtest.Wanted(t) { // rare calls take more rounds
			t.Errorf("%s accepts nothing: the test does not reach it", s.Name)
		}
	}
}

func inferGuarded(t *testing.T, s *OpSpec, n *Node, opset int64, in []InferInput) (out []InferOutput, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%s %v panics: %v\nattributes %v\ninputs %v\n%s", s.Name, opset, p, n.Attrs, in, debug.Stack())
		}
	}()
	if _, _, err := s.CountMACs(n, opset, in); err != nil {
		return nil, err
	}
	return s.InferNode(n, opset, in)
}

// neededAttrs are attributes without a default that few operators have.
var neededAttrs = map[string][]string{"MatMulNBits": {"N", "K"}, "GroupQueryAttention": {"num_heads", "kv_num_heads"},
	"DynamicQuantizeLSTM": {"hidden_size"}, "HybridLSTM": {"hidden_size"}}

// neededInputs are inputs that have to be there behind some that may be absent: from, to.
var neededInputs = map[string][2]int{"DynamicQuantizeLSTM": {8, 12}, "HybridLSTM": {8, 12}}

func randomCall(r *rand.Rand, s *OpSpec) (*Node, int64, []InferInput) {
	n := &Node{Op: s.Name, Domain: s.Domain, Outputs: make([]ValueID, 1+r.IntN(3))}
	calm := r.IntN(2) == 0 // small and plausible
	num := func() int64 {
		if calm {
			return int64(1 + r.IntN(3))
		}
		return extremes[r.IntN(len(extremes))]
	}
	rank := r.IntN(6)
	for _, name := range intAttrs {
		if r.IntN(6) == 0 {
			n.Attrs = append(n.Attrs, Int(name, num()))
		}
	}
	for _, name := range neededAttrs[s.Name] {
		if r.IntN(8) > 0 {
			n.Attrs = append(n.Attrs, Int(name, num()))
		}
	}
	for _, name := range intsAttrs {
		if r.IntN(4) == 0 {
			list := make([]int64, []int{rank, rank, 2 * rank, max(0, rank-2), 2 * max(0, rank-2), r.IntN(5)}[r.IntN(6)])
			for i := range list {
				list[i] = num()
			}
			n.Attrs = append(n.Attrs, Ints(name, list...))
		}
	}
	for _, name := range []string{"auto_pad", "mode", "direction", "keep_aspect_ratio_policy", "coordinate_transformation_mode", "equation"} {
		if r.IntN(5) == 0 || name == "equation" {
			n.Attrs = append(n.Attrs, Str(name, strAttrs[name][r.IntN(len(strAttrs[name]))]))
		}
	}
	if s.Name == "Constant" || r.IntN(8) == 0 {
		n.Attrs = append(n.Attrs, TensorAttr("value", tensor.FromI64([]int64{num()}, 1)))
	}
	inputs := r.IntN(3) + max(s.MinIn, min(len(s.In), 3))
	if r.IntN(4) == 0 { // of operators with many inputs, some that may be absent do not go without each other
		inputs = max(inputs, len(s.In)+1)
	}
	needed := neededInputs[s.Name]
	in := make([]InferInput, max(inputs, needed[1]))
	for i := range in {
		if i < s.MinIn || i >= needed[0] && i < needed[1] || r.IntN(4) > 0 {
			in[i] = randomInput(r, s.InSocket(i), rank, num)
		}
	}
	return n, int64(1 + r.IntN(28)), in
}

func randomInput(r *rand.Rand, socket Socket, rank int, num func() int64) InferInput {
	in := InferInput{Present: true, DType: []tensor.DType{tensor.Float32, tensor.Float32, tensor.Uint8, tensor.Int64}[r.IntN(4)]}
	if socket == SocketIndex {
		in.DType = []tensor.DType{tensor.Int64, tensor.Int32}[r.IntN(2)]
		list := make([]int64, []int{rank, 1, r.IntN(9)}[r.IntN(3)])
		for i := range list {
			list[i] = num()
		}
		switch r.IntN(4) {
		case 0:
			in.DType, in.Tensor, in.Shape = tensor.Int64, tensor.FromI64(list, len(list)), Static(len(list))
			return in
		case 1:
			in.DType, in.Shape = tensor.Int64, Static(len(list))
			for i, v := range list {
				in.ints = append(in.ints, []Elem{{}, known(v), {Symbol: fmt.Sprintf("S%d", i)}, {Symbol: "2*N"}}[r.IntN(4)])
			}
			return in
		case 2:
			in.DType, in.Tensor, in.Shape = tensor.Float32, tensor.FromF32(make([]float32, len(list)), len(list)), Static(len(list))
			for i, v := range list {
				in.Tensor.F32()[i] = float32(v) * []float32{1, 0.5, float32(math.NaN()), float32(math.Inf(1))}[r.IntN(4)]
			}
			return in
		}
	}
	if r.IntN(12) == 0 {
		return in // unknown rank
	}
	if r.IntN(5) == 0 {
		rank = r.IntN(6)
	}
	in.Shape = make(Shape, rank)
	for i := range in.Shape {
		in.Shape[i] = Dim{N: max(num(), 0)}
		switch r.IntN(8) {
		case 0:
			in.Shape[i] = unknownDim
		case 1:
			in.Shape[i] = Dim{N: -1, Symbol: []string{"N", "2*N", "((N+1)/2)", "", "("}[r.IntN(5)]}
		}
	}
	return in
}
