package lowertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/passes"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Random returns a network made by chance: windows in one to three dimensions, sums, products, joins, activations, moves and
// matrices, in shapes that are multiples of nothing, with constants of very different size and values far from zero. The same
// seed gives the same network; samples is the size of the first axis of its input, 0 for 1 or 2.
func Random(seed uint64, samples int) string {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 77))}
	axes := 1 + r.IntN(3)
	shape := []int{1 + r.IntN(2), 1 + r.IntN(9)}
	if samples > 0 {
		shape[0] = samples
	}
	for range axes {
		shape = append(shape, 1+r.IntN([]int{40, 11, 6}[axes-1]))
	}
	r.live = []tensorOf{{"x", shape}}
	fmt.Fprintf(&r.text, "input x: %s\n", typeOf(shape))
	if r.IntN(2) == 0 { // codes of 0 far from the middle
		r.shift(r.live[0])
	}
	for n := 2 + r.IntN(7); r.nodes < n; {
		r.step()
	}
	for range 1 + r.IntN(2) {
		r.matrices(r.pick())
	}
	for i := range r.live {
		if t := r.live[i]; !r.read[t.name] && t.name != "x" {
			fmt.Fprintf(&r.text, "output %s\n", t.name)
		}
	}
	return r.text.String()
}

// RandomTarget returns a variation of a target: other widths of weights and activations, weights with zero points or one scale for
// all, tables for chains of functions.
func RandomTarget(seed uint64) target.Target {
	r := rand.New(rand.NewPCG(seed, 78))
	tg := []target.Target{target.ONNXRuntime, target.TRTInt8}[r.IntN(2)]
	switch r.IntN(10) {
	case 0:
		tg.Weight.Policy = tqc.Symmetric | tqc.PerTensor | tqc.Linear
	case 1:
		tg.Weight.Policy, tg.Weight.QMin, tg.Weight.QMax = tqc.Asymmetric|tqc.PerChannel|tqc.Linear, 0, 255
	case 2:
		tg.Weight.Policy, tg.Weight.QMin, tg.Weight.QMax = tqc.Asymmetric|tqc.PerTensor|tqc.Linear, -128, 127
	case 3:
		tg.Weight.Bits, tg.Weight.QMin, tg.Weight.QMax = 4, -8, 7
	case 4:
		tg.Activation.Policy |= tqc.PowerOf2
		tg.Weight.Policy |= tqc.PowerOf2
	case 5:
		tg.Weight.Policy, tg.Weight.QMin, tg.Weight.QMax = tqc.Asymmetric|tqc.PerTensor|tqc.Linear, 0, 255
	case 6:
		tg = Int16(tg)
	case 7:
		tg.Activation = tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 16, QMax: 1<<16 - 1},
			Observer: tqc.ObserverMinMax}
	}
	if tg.Placement.Outputs() && r.IntN(2) == 0 {
		tg.Tables = 16
	}
	return tg
}

// Int16 is a target with activations of signed 16 bits without zero point.
func Int16(tg target.Target) target.Target {
	tg.Activation = tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear,
		Format: qmath.Format{Bits: 16, QMin: -1 << 15, QMax: 1<<15 - 1}, Observer: tqc.ObserverMinMax}
	tg.Ops = slices.Clone(tg.Ops)
	for i := range tg.Ops {
		tg.Ops[i].FixedScale, tg.Ops[i].Finer = 0, 0 // it comes with a zero point
	}
	return tg
}

// Disturb moves scales of activations, and zero points to anything from one end of the integers to the other, and solves the
// biases again.
func Disturb(t testing.TB, seed uint64, g *graph.Graph, set *tqc.Set) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 79))
	saved := make([]tqc.Saved, set.NumSlots())
	for i := range saved {
		saved[i] = set.Save(tqc.SlotID(i))
		s := set.Slot(tqc.SlotID(i))
		if s.State() != tqc.Activated || s.Weight || s.Config.Observer == tqc.ObserverFixed || s.Config.Policy.Has(tqc.PerChannel) {
			continue
		}
		p := saved[i].Params
		p.Scale, p.ZeroPoint = slices.Clone(p.Scale), slices.Clone(p.ZeroPoint)
		if p.Scale[0] *= float32(0.2 + 2*r.Float64()); s.Config.Policy.Has(tqc.PowerOf2) {
			p.Scale[0] = saved[i].Params.Scale[0] * []float32{0.5, 1, 2}[r.IntN(3)]
		}
		if s.Config.Policy.Has(tqc.Asymmetric) {
			switch r.IntN(4) {
			case 0:
				p.ZeroPoint[0] = s.Config.QMin
			case 1:
				p.ZeroPoint[0] = s.Config.QMax
			case 2:
				p.ZeroPoint[0] = s.Config.QMin + int32(r.IntN(int(s.Config.QMax-s.Config.QMin+1)))
			}
		}
		saved[i].Params = p
	}
	require.NoError(t, set.Restore(saved))
	_, err := passes.SolveBias(g, set)
	require.NoError(t, err)
}

type tensorOf struct {
	name  string
	shape []int
}

// random is a network in the making.
type random struct {
	*rand.Rand
	text  strings.Builder
	live  []tensorOf
	read  map[string]bool
	nodes int
}

func typeOf(shape []int) string {
	s := fmt.Sprint(shape)
	return "f32" + strings.ReplaceAll(s, " ", ",")
}

// pick returns a tensor, most often one of the last.
func (r *random) pick() tensorOf {
	n := len(r.live)
	t := r.live[max(0, n-1-r.IntN(3)*r.IntN(2))]
	return t
}

// node adds a node; the first operand counts as read.
func (r *random) node(shape []int, op, attrs string, in ...string) {
	if r.read == nil {
		r.read = map[string]bool{}
	}
	for _, name := range in {
		r.read[name] = true
	}
	r.nodes++
	name := fmt.Sprintf("t%d", r.nodes)
	if attrs != "" {
		attrs = " {" + attrs + "}"
	}
	fmt.Fprintf(&r.text, "%s: %s = %s(%s)%s \"n%d\"\n", name, typeOf(shape), op, strings.Join(in, ", "), attrs, r.nodes)
	r.live = append(r.live, tensorOf{name, slices.Clone(shape)})
}

// constant adds a constant, of numbers around mean.
func (r *random) constant(shape []int, std, mean float64) string {
	name := fmt.Sprintf("c%d", r.Uint32())
	fmt.Fprintf(&r.text, "const %s: %s = normal(seed=%d, std=%.4f, mean=%.4f)\n", name, typeOf(shape), r.IntN(1000), std, mean)
	return name
}

func (r *random) shift(x tensorOf) {
	shape := []int{1, x.shape[1]}
	for range x.shape[2:] {
		shape = append(shape, 1)
	}
	r.node(x.shape, "Add", "", x.name, r.constant(shape, 1, float64(r.IntN(3)-1)*8))
}

func (r *random) step() {
	x := r.pick()
	if len(x.shape) < 3 {
		r.matrices(x)
		return
	}
	switch r.IntN(18) {
	case 0, 1, 2, 3:
		r.conv(x)
	case 4:
		r.pool(x)
	case 5, 6:
		r.pair(x)
	case 7:
		op := []string{"Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Tanh"}[r.IntN(5)]
		r.node(x.shape, op, "", x.name)
	case 8:
		r.join(x)
	case 9:
		r.shift(x)
	case 10:
		r.transpose(x)
	case 11:
		shape := []int{x.shape[0], x.shape[1]}
		for range x.shape[2:] {
			shape = append(shape, 1)
		}
		r.node(shape, []string{"GlobalAveragePool", "GlobalMaxPool"}[r.IntN(2)], "", x.name)
	case 12:
		r.slice(x)
	case 13:
		r.node(x.shape, "Softmax", fmt.Sprintf("axis=%d", len(x.shape)-1), x.name)
	case 14:
		r.pad(x)
	case 15:
		r.resize(x)
	case 16:
		r.gather(x)
	case 17:
		lo, hi := r.scalar(-r.Float64()), r.scalar(0.5+2*r.Float64())
		r.node(x.shape, "Clip", "", x.name, lo, hi)
	}
}

// scalar adds a constant of one number.
func (r *random) scalar(x float64) string {
	name := fmt.Sprintf("c%d", r.Uint32())
	fmt.Fprintf(&r.text, "const %s: f32[] = %.4f\n", name, x)
	return name
}

// numbers adds a constant of a list of numbers.
func (r *random) numbers(dtype string, x []int) string {
	name := fmt.Sprintf("c%d", r.Uint32())
	fmt.Fprintf(&r.text, "const %s: %s[%d] = %s\n", name, dtype, len(x), list(x))
	return name
}

func (r *random) pad(x tensorOf) {
	pads, shape := make([]int, 2*len(x.shape)), slices.Clone(x.shape)
	for a := 1; a < len(shape); a++ {
		pads[a], pads[len(shape)+a] = r.IntN(3), r.IntN(2)
		shape[a] += pads[a] + pads[len(shape)+a]
	}
	r.node(shape, "Pad", "", x.name, r.numbers("i64", pads))
}

// resize repeats elements along the last axis and the one before it.
func (r *random) resize(x tensorOf) {
	scales, shape := slices.Repeat([]int{1}, len(x.shape)), slices.Clone(x.shape)
	for a := max(2, len(shape)-2); a < len(shape); a++ {
		if shape[a] < 40 {
			scales[a] = 1 + r.IntN(2)
			shape[a] *= scales[a]
		}
	}
	r.node(shape, "Resize", `mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"`, x.name, "_",
		r.numbers("f32", scales))
}

// gather picks some places of an axis, in any order.
func (r *random) gather(x tensorOf) {
	axis := 1 + r.IntN(len(x.shape)-1)
	places := make([]int, 1+r.IntN(x.shape[axis]+2))
	for i := range places {
		places[i] = r.IntN(x.shape[axis])
	}
	shape := slices.Clone(x.shape)
	shape[axis] = len(places)
	r.node(shape, "Gather", fmt.Sprintf("axis=%d", axis), x.name, r.numbers("i64", places))
}

// window draws kernel, stride, dilation and padding of an axis of size n and returns the size of the output.
func (r *random) window(n int) (k, s, d, begin, end, out int) {
	for {
		k, s, d = 1+r.IntN(4), 1+r.IntN(2), 1+r.IntN(2)*r.IntN(2)
		begin, end = r.IntN(k), r.IntN(k)
		if span := n + begin + end - (k-1)*d - 1; span >= 0 {
			return k, s, d, begin, end, span/s + 1
		}
	}
}

type windows struct {
	kernel, stride, dilation, begin, end, out []int
}

func (r *random) windows(shape []int) (w windows) {
	for _, n := range shape {
		k, s, d, b, e, o := r.window(n)
		w.kernel, w.stride, w.dilation = append(w.kernel, k), append(w.stride, s), append(w.dilation, d)
		w.begin, w.end, w.out = append(w.begin, b), append(w.end, e), append(w.out, o)
	}
	return w
}

func list(x []int) string { return strings.ReplaceAll(fmt.Sprint(x), " ", ", ") }

func (r *random) conv(x tensorOf) {
	c, group := x.shape[1], 1
	m := 1 + r.IntN(40)
	switch r.IntN(4) {
	case 0: // depthwise
		group, m = c, c*(1+r.IntN(2))
	case 1:
		if c%2 == 0 {
			group, m = 2, 2*(1+r.IntN(9))
		}
	}
	w := r.windows(x.shape[2:])
	std := []float64{0.02, 0.3, 3}[r.IntN(3)]
	in := []string{x.name, r.constant(append([]int{m, c / group}, w.kernel...), std, std*float64(r.IntN(3)-1))}
	if r.IntN(2) == 0 {
		in = append(in, r.constant([]int{m}, std, 0))
	}
	r.node(append([]int{x.shape[0], m}, w.out...), "Conv", fmt.Sprintf("group=%d, strides=%s, dilations=%s, pads=%s", group, list(w.stride),
		list(w.dilation), list(append(w.begin, w.end...))), in...)
	y := r.live[len(r.live)-1]
	switch r.IntN(4) {
	case 0:
		r.node(y.shape, "Relu", "", y.name)
	case 1:
		r.node(y.shape, "HardSwish", "", y.name)
	}
}

func (r *random) pool(x tensorOf) {
	w := r.windows(x.shape[2:])
	attrs := fmt.Sprintf("kernel_shape=%s, strides=%s, pads=%s", list(w.kernel), list(w.stride), list(append(w.begin, w.end...)))
	for i, d := range w.dilation {
		if d != 1 { // average pools have no dilation here
			w.out[i] = (x.shape[2+i]+w.begin[i]+w.end[i]-w.kernel[i])/w.stride[i] + 1
		}
	}
	shape := append(slices.Clone(x.shape[:2]), w.out...)
	if r.IntN(2) == 0 {
		r.node(shape, "MaxPool", attrs, x.name)
	} else {
		r.node(shape, "AveragePool", fmt.Sprintf("%s, count_include_pad=%d", attrs, r.IntN(2)), x.name)
	}
}

// pair adds or multiplies x and another tensor of its shape, one number per channel, or itself.
func (r *random) pair(x tensorOf) {
	op := []string{"Add", "Sub", "Mul"}[r.IntN(3)]
	for _, y := range r.live {
		if y.name != x.name && slices.Equal(y.shape, x.shape) && r.IntN(4) != 0 {
			r.node(x.shape, op, "", x.name, y.name)
			return
		}
	}
	pooled := []int{x.shape[0], x.shape[1]}
	for range x.shape[2:] {
		pooled = append(pooled, 1)
	}
	if r.IntN(2) == 0 {
		r.node(pooled, "GlobalAveragePool", "", x.name)
		r.node(x.shape, op, "", r.live[len(r.live)-1].name, x.name)
		return
	}
	r.node(x.shape, "Sigmoid", "", x.name)
	r.node(x.shape, op, "", x.name, r.live[len(r.live)-1].name)
}

func (r *random) join(x tensorOf) {
	r.node(x.shape, []string{"Relu", "Sigmoid"}[r.IntN(2)], "", x.name)
	y := r.live[len(r.live)-1]
	axis := r.IntN(len(x.shape)-1) + 1
	shape := slices.Clone(x.shape)
	shape[axis] *= 2
	r.node(shape, "Concat", fmt.Sprintf("axis=%d", axis), x.name, y.name)
}

func (r *random) transpose(x tensorOf) {
	perm := r.Perm(len(x.shape))
	shape := make([]int, len(perm))
	for i, a := range perm {
		shape[i] = x.shape[a]
	}
	r.node(shape, "Transpose", "perm="+list(perm), x.name)
}

func (r *random) slice(x tensorOf) {
	axis := 1 + r.IntN(len(x.shape)-1)
	if x.shape[axis] < 2 {
		return
	}
	n := len(r.live) + r.IntN(1<<20)
	fmt.Fprintf(&r.text, "const s%d: i64[1] = [%d]\nconst e%d: i64[1] = [%d]\nconst a%d: i64[1] = [%d]\n", n, 1, n, x.shape[axis], n, axis)
	shape := slices.Clone(x.shape)
	shape[axis]--
	r.node(shape, "Slice", "", x.name, fmt.Sprintf("s%d", n), fmt.Sprintf("e%d", n), fmt.Sprintf("a%d", n))
}

// matrices flattens x and multiplies it by a constant, or multiplies it by itself, transposed.
func (r *random) matrices(x tensorOf) {
	k := 1
	for _, n := range x.shape[1:] {
		k *= n
	}
	if len(x.shape) == 3 && r.IntN(2) == 0 {
		r.node([]int{x.shape[0], x.shape[2], x.shape[1]}, "Transpose", "perm=[0, 2, 1]", x.name)
		r.node([]int{x.shape[0], x.shape[1], x.shape[1]}, "MatMul", "", x.name, r.live[len(r.live)-1].name)
		return
	}
	if len(x.shape) != 2 {
		r.node([]int{x.shape[0], k}, "Flatten", "", x.name)
		x = r.live[len(r.live)-1]
	}
	n := 1 + r.IntN(70)
	std := []float64{0.02, 0.3, 3}[r.IntN(3)]
	if r.IntN(2) == 0 {
		r.node([]int{x.shape[0], n}, "MatMul", "", x.name, r.constant([]int{k, n}, std, std))
		return
	}
	r.node([]int{x.shape[0], n}, "Gemm", "transB=1", x.name, r.constant([]int{n, k}, std, 0), r.constant([]int{n}, std, 0))
}
