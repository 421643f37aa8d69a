package cprogram

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// narrow and wide are the types of accumulators, as pieces have them.
const narrow, wide = "", "wide_"

// accumulator is that of a step, and its unsigned type.
func accumulator(op *lower.Linear) (string, tensor.DType) {
	if op.Wide {
		return wide, tensor.Uint64
	}
	return narrow, tensor.Uint32
}

// linear writes a sum of products: the outputs' descriptions, then the call that accumulates and fills them.
func (w *writer) linear(s *lower.Step, op *lower.Linear) error {
	sum, _ := accumulator(op)
	if err := w.kernels.need("write_all", sum); err != nil {
		return err
	}
	var sinks []string
	add := func(sink string, err error) error {
		sinks = append(sinks, sink)
		return err
	}
	var real *value
	if op.Func != nil {
		real = w.scratch(tensor.Float32, "in front of its function", w.shape(s.Outputs[0])...)
		if err := add(w.reals(s, op, real)); err != nil {
			return err
		}
	}
	for k, id := range s.Outputs {
		switch quantized := w.p.Tensors[id].Quantized(); {
		case op.Func != nil:
		case quantized:
			if err := add(w.codes(s, op, &op.Scales[k], id)); err != nil {
				return err
			}
		default:
			if err := add(w.reals(s, op, w.write(id))); err != nil {
				return err
			}
		}
	}
	w.line("const struct %soutput made[] = {%s};", sum, strings.Join(sinks, ", "))
	if err := w.accumulate(s, op, len(sinks)); err != nil {
		return err
	}
	if op.Func == nil {
		return nil
	}
	return w.function(s, op, real)
}

// function computes Func of the real numbers, and the outputs of what it gives.
func (w *writer) function(s *lower.Step, op *lower.Linear, real *value) error {
	results, err := w.graph(op.Func, []*value{real})
	if err != nil {
		return err
	}
	for _, id := range s.Outputs {
		t := &w.p.Tensors[id]
		if !t.Quantized() {
			w.values[id] = results[0]
			continue
		}
		if err := w.quantizeAll(w.p.Profile.Quantizer(t.Encoding.Grid()), results[0], id); err != nil {
			return err
		}
	}
	return nil
}

// skip is the residual of a step: its array, type and encoding.
func (w *writer) skip(s *lower.Step) (name, typ string, e *lower.Encoding) {
	id := s.Inputs[len(s.Inputs)-1]
	return w.use(w.read(id)), w.typ(id), w.p.Tensors[id].Encoding
}

// codes writes the description of an output of integers and returns its entry in the list of outputs.
func (w *writer) codes(s *lower.Step, op *lower.Linear, r *lower.Requantization, id lower.TensorID) (string, error) {
	scaling := w.p.Profile.Scaling
	sum, _ := accumulator(op)
	form, err := w.form(scaling, sum)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(r.Multipliers, func(m qmath.Multiplier) bool { return m.Double != 0 }) {
		return "", fmt.Errorf("factors of float64, which profile %s has here, have no form in C", w.p.Profile.Name)
	}
	m, count := w.multipliers(scaling, r.Multipliers)
	name := fmt.Sprintf("to%d", id)
	to := fmt.Sprintf("{%s, %s, %d, %d, %d, %d}", w.use(w.write(id)), m, count, r.ZeroPoint, r.Lo, r.Hi)
	y := w.typ(id)
	switch {
	case op.Residual:
		codes, typ, _ := w.skip(s)
		rounding := roundingName(scaling.Rounding)
		add := strings.ReplaceAll(scaling.Form.String(), " ", "_")
		if err := w.kernels.need("add_"+add, sum, rounding); err != nil {
			return "", err
		}
		form = "add_" + sum + add + "_" + rounding
		err = w.kernels.need("write_sum_codes", sum, form, typ, y)
		w.line("const struct sum_codes %s = {%s, %s, {%s, %d}};", name, to, codes, w.real(r.Skip.Scale), r.Skip.ZeroPoint)
		return fmt.Sprintf("{write_%s_%s_%s, &%s}", form, typ, y, name), err
	case scaling.Float():
		err = w.kernels.need("write_float_codes", sum, form, y)
		form = sum + form
		w.line("const struct float_codes %s = %s;", name, to)
	default:
		err = w.kernels.need("write_codes", sum, form, y)
		form = sum + form
		w.line("const struct codes %s = %s;", name, to)
	}
	return fmt.Sprintf("{write_%s_%s, &%s}", form, y, name), err
}

// reals writes the description of real numbers of the accumulators.
func (w *writer) reals(s *lower.Step, op *lower.Linear, v *value) (string, error) {
	sum, _ := accumulator(op)
	scale, bias := make([]float32, len(op.Real)), make([]float32, len(op.Real))
	for c, channel := range op.Real {
		scale[c], bias[c] = factorOf(channel), channel.Bias
	}
	to := fmt.Sprintf("{%s, %s, %s, %d, %s, %s}", w.use(v), w.floats("scales by channel", scale), w.floats("biases by channel", bias),
		len(op.Real), w.real(op.Lo), w.real(op.Hi))
	if !op.Residual {
		w.line("const struct reals real = %s;", to)
		return fmt.Sprintf("{write_%sreals, &real}", sum), w.kernels.need("write_reals", sum)
	}
	codes, typ, e := w.skip(s)
	w.line("const struct sum_reals real = {%s, %s, %s};", to, codes, w.grid(e.Grid()))
	return fmt.Sprintf("{write_%ssum_reals_%s, &real}", sum, typ), w.kernels.need("write_sum_reals", sum, typ)
}

// factors are the right factor of a step and what belongs to the sums: its array, type, zero points and biases.
type factors struct {
	name, typ, zeros, bias string
	zeroCount              int
	shape                  []int
}

func (w *writer) factors(s *lower.Step, op *lower.Linear, channels int) factors {
	f := factors{zeros: "NULL", bias: "NULL"}
	if o := op.Weights; o != nil {
		if f.shape = o.Codes.Shape; o.Bits <= 4 && !(w.p.Profile.Saturates && w.pairs(s, op)) {
			f.name, f.typ = w.packed(o)
		} else {
			f.name, f.typ = w.constant(o.Codes, "weights"), o.Codes.DType.String()
		}
		for _, z := range o.ZeroPoint {
			if z != 0 {
				f.zeros, f.zeroCount = integers(w, "int32_t", "zero points of the weights", 4, o.ZeroPoint), len(o.ZeroPoint)
				break
			}
		}
	} else {
		id := s.Inputs[1]
		f.name, f.typ, f.shape = w.use(w.read(id)), w.typ(id), w.shape(id)
		if z := w.p.Tensors[id].Encoding.ZeroPoint; z != 0 {
			f.zeros, f.zeroCount = integers(w, "int32_t", "zero point of the right factor", 4, []int32{z}), 1
		}
	}
	if op.Bias != nil {
		bias := make([]int64, channels)
		for c := range bias {
			bias[c] = op.Bias[c%len(op.Bias)]
		}
		sum, unsigned := accumulator(op)
		f.bias = integers(w, cTypes[sum], "biases", unsigned.Bits()/8, bias)
	}
	return f
}

// packed writes weights of at most 4 bits, two in a byte, and returns their type.
func (w *writer) packed(o *lower.Weights) (name, typ string) {
	list := make([]uint8, (o.Codes.Len()+1)/2)
	for i, q := range o.Codes.ToRowMajor().Integers() {
		list[i/2] |= uint8(q&15) << (i % 2 * 4)
	}
	if typ = "u4"; o.Codes.DType == tensor.Int8 {
		typ = "i4"
	}
	return integers(w, "uint8_t", "weights "+o.Codes.Type()+", two in a byte", 1, list), typ
}

// accumulate writes the call that sums.
func (w *writer) accumulate(s *lower.Step, op *lower.Linear, outs int) error {
	if graph.Slides(op.Kind) {
		return w.convolution(s, op, outs)
	}
	return w.matrices(s, op, outs)
}

func (w *writer) convolution(s *lower.Step, op *lower.Linear, outs int) error {
	node, x := w.p.Graph.Node(s.Node), s.Inputs[0]
	kernel := convKernel(node)
	in := w.shape(x)
	geo, err := graph.WindowGeometry(node, graph.Static(in...), graph.Static(op.Weights.Codes.Shape...))
	if err != nil {
		return err
	}
	window, err := windowText(geo)
	if err != nil {
		return err
	}
	f := w.factors(s, op, op.Weights.Channels)
	w.line("static const struct convolution shape = {%s, %d, %d, %d, %d};", window, in[0], geo.Group, in[1]/geo.Group, op.Weights.Channels)
	sum, unsigned := accumulator(op)
	zx, outside := w.p.Tensors[x].Encoding.ZeroPoint, tensor.Count(geo.Out)
	if kernel == "conv_transpose" {
		acc := w.scratch(unsigned, "accumulators", outside)
		w.call("%s_%s%s_%s(&shape, %s, %d, %s, %s, %s, %s, made, %d)", kernel, sum, w.typ(x), f.typ, w.use(w.read(x)), zx, f.name, f.zeros,
			f.bias, acc.name, outs)
		return w.kernels.need(kernel, sum, w.typ(x), f.typ)
	}
	if w.p.Profile.Saturates && w.pairs(s, op) {
		acc := w.scratch(unsigned, "accumulators", outside)
		w.call("conv_saturating_%s(&shape, %s, %d, %d, %s, %s, %s, made, %d)", w.typ(x), w.use(w.read(x)), zx, raised(&w.p.Tensors[x]), f.name,
			f.bias, acc.name, outs)
		return w.kernels.need("conv_saturating", w.typ(x))
	}
	length := op.Weights.Terms
	element, products := sums(op, w.p.Tensors[x].DType, length)
	if channels := op.Weights.Channels / geo.Group; in[1] == geo.Group && channels < 4 {
		column := w.scratch(element, "a kernel", length)
		acc := w.scratch(unsigned, "accumulators", geo.Out[len(geo.Out)-1])
		w.call("conv_planes_%s%s_%s_%s(&shape, %s, %d, %s, %s, %s, %s, %s, made, %d)", sum, w.typ(x), f.typ, products, w.use(w.read(x)), zx,
			f.name, f.zeros, f.bias, column.name, acc.name, outs)
		return w.kernels.need("conv_planes", sum, w.typ(x), element.String(), f.typ, products.String())
	}
	most := columns(outside, length*element.Bits()/8)
	column := w.scratch(element, "inputs of outputs, a column for each", most, length)
	acc := w.scratch(unsigned, "accumulators", most)
	w.call("conv_%s%s_%s_%s(&shape, %s, %d, %s, %s, %s, %d, %s, %s, made, %d)", sum, w.typ(x), f.typ, products, w.use(w.read(x)), zx, f.name,
		f.zeros, f.bias, most, column.name, acc.name, outs)
	return w.kernels.need("conv", sum, w.typ(x), element.String(), f.typ, products.String())
}

// columnBytes is how much memory a convolution takes for the columns of several outputs, unless four need more.
const columnBytes = 1024

// columns is for how many of n outputs at a time a convolution lays out their inputs: by fours, for a weight is read once for four.
func columns(n, bytes int) int {
	return min(n, max(columnBytes/max(bytes, 1)/4, 1)*4)
}

// sums are the types of an input without its zero point and of a sum of terms products. Sums of products of 8 bits that cannot leave 32
// bits are signed, which compilers have instructions for; others wrap.
func sums(op *lower.Linear, x tensor.DType, terms int) (element, products tensor.DType) {
	element, products = tensor.Int16, tensor.Int32
	if x.Bits() > 8 {
		element = tensor.Int32
	}
	switch {
	case op.Wide:
		products = tensor.Uint64
	case terms > math.MaxInt32/(255*255):
		products = tensor.Uint32
	}
	return element, products
}

// convKernel is the family of a convolution's kernels.
func convKernel(n *graph.Node) string {
	if n.Conv().Transposed {
		return "conv_transpose"
	}
	return "conv"
}

// pairs reports whether products are added in pairs of int16 under a saturating profile: those of 8-bit codes with constant int8
// weights without zero point, but for depthwise convolutions, whose neighbours belong to different channels.
func (w *writer) pairs(s *lower.Step, op *lower.Linear) bool {
	o := op.Weights
	if o == nil || o.Codes.DType != tensor.Int8 || w.p.Tensors[s.Inputs[0]].DType.Bits() != 8 {
		return false
	}
	for _, z := range o.ZeroPoint {
		if z != 0 {
			return false
		}
	}
	return !(op.Kind == "Conv" && op.Depthwise(w.p.Graph.Node(s.Node)))
}

// raised is what makes codes unsigned.
func raised(t *lower.Tensor) int {
	if t.DType == tensor.Int8 {
		return 128
	}
	return 0
}

// side is one factor of a product of matrices.
type side struct {
	stack                    []int
	rows, cols, byRow, byCol int
}

// sideOf reads a shape as a stack of matrices; a vector is a row on the left and a column on the right.
func sideOf(shape []int, transposed, right bool) side {
	var f side
	switch r := len(shape); {
	case r == 1 && right:
		f = side{rows: shape[0], cols: 1, byRow: 1}
	case r == 1:
		f = side{rows: 1, cols: shape[0], byCol: 1}
	default:
		f = side{stack: shape[:r-2], rows: shape[r-2], cols: shape[r-1], byRow: shape[r-1], byCol: 1}
	}
	if transposed {
		f.rows, f.cols, f.byRow, f.byCol = f.cols, f.rows, f.byCol, f.byRow
	}
	return f
}

// product is what struct product has, but for the zero points: lefts and rights say where the matrices of each product begin, nil where
// there is one product.
type product struct {
	stack         int
	x, y          side
	lefts, rights []int
}

// productOf describes the product of two stacks of matrices.
func productOf(a, b []int, transA, transB bool) (*product, error) {
	if len(a) == 0 || len(b) == 0 {
		return nil, fmt.Errorf("a product with a scalar")
	}
	x, y := sideOf(a, transA, false), sideOf(b, transB, true)
	stack, err := tensor.Broadcast(x.stack, y.stack)
	if err != nil || x.cols != y.rows {
		return nil, fmt.Errorf("shapes %v and %v cannot be multiplied", a, b)
	}
	p := &product{stack: tensor.Count(stack), x: x, y: y}
	if p.stack != 1 {
		each(stack, steps(stack, x.stack), func(at int) { p.lefts = append(p.lefts, at*x.rows*x.cols) })
		each(stack, steps(stack, y.stack), func(at int) { p.rights = append(p.rights, at*y.rows*y.cols) })
	}
	return p, nil
}

// productText is the initializer of struct product.
func (w *writer) productText(p *product, zeros int) string {
	at := func(places []int, what string) string {
		if p.stack == 1 {
			return "NULL"
		}
		return integers(w, "int32_t", what, 4, places)
	}
	return fmt.Sprintf("{%d, %d, %d, %d, %d, %d, %d, %d, %s, %s, %d}", p.stack, p.x.rows, p.x.cols, p.y.cols, p.x.byRow, p.x.byCol,
		p.y.byRow, p.y.byCol, at(p.lefts, string(leftsBegin)), at(p.rights, string(rightsBegin)), zeros)
}

func (w *writer) matrices(s *lower.Step, op *lower.Linear, outs int) error {
	node, x := w.p.Graph.Node(s.Node), s.Inputs[0]
	gemm := node.Gemm()
	columns := w.shape(s.Outputs[0])
	f := w.factors(s, op, columns[len(columns)-1])
	shape, err := productOf(w.shape(x), f.shape, gemm.TransA, gemm.TransB)
	if err != nil {
		return err
	}
	w.line("static const struct product shape = %s;", w.productText(shape, f.zeroCount))
	sum, unsigned := accumulator(op)
	zx := w.p.Tensors[x].Encoding.ZeroPoint
	if w.p.Profile.Saturates && w.pairs(s, op) {
		acc := w.scratch(unsigned, "accumulators", shape.y.cols)
		w.call("matmul_saturating_%s(&shape, %s, %d, %d, %s, %s, %s, made, %d)", w.typ(x), w.use(w.read(x)), zx, raised(&w.p.Tensors[x]), f.name,
			f.bias, acc.name, outs)
		return w.kernels.need("matmul_saturating", w.typ(x))
	}
	right := shape.y
	if right.byRow != 1 {
		acc := w.scratch(unsigned, "accumulators", shape.y.cols)
		w.call("matmul_%s%s_%s(&shape, %s, %d, %s, %s, %s, %s, made, %d)", sum, w.typ(x), f.typ, w.use(w.read(x)), zx, f.name, f.zeros, f.bias,
			acc.name, outs)
		return w.kernels.need("matmul", sum, w.typ(x), f.typ)
	}
	element, products := sums(op, w.p.Tensors[x].DType, right.rows)
	column := w.scratch(element, "a row of the left factor", right.rows)
	acc := w.scratch(unsigned, "accumulators", shape.y.cols)
	w.call("matmul_rows_%s%s_%s_%s(&shape, %s, %d, %s, %s, %s, %s, %s, made, %d)", sum, w.typ(x), f.typ, products, w.use(w.read(x)), zx,
		f.name, f.zeros, f.bias, column.name, acc.name, outs)
	return w.kernels.need("matmul_rows", sum, w.typ(x), element.String(), f.typ, products.String())
}

// windowText is the initializer of struct window.
func windowText(geo *graph.Geometry) (string, error) {
	rank := len(geo.In)
	if rank > 3 {
		return "", fmt.Errorf("%d spatial axes; at most 3 are supported", rank)
	}
	three := func(list []int, missing int) string {
		out := []int{missing, missing, missing}
		copy(out[3-rank:], list)
		return fmt.Sprintf("{%d, %d, %d}", out[0], out[1], out[2])
	}
	for _, n := range append(append([]int(nil), geo.In...), geo.Out...) {
		if n > math.MaxInt32 {
			return "", fmt.Errorf("a spatial axis of %d", n)
		}
	}
	return fmt.Sprintf("{%s, %s, %s, %s, %s, %s, %s}", three(geo.In, 1), three(geo.Out, 1), three(geo.Kernel, 1), three(geo.Stride, 1),
		three(geo.Dilation, 1), three(geo.PadBegin, 0), three(geo.PadEnd, 0)), nil
}

// factorOf is the float32 factor of an accumulator, as qmath.Channel.Accumulated has it.
func factorOf(c qmath.Channel) float32 { return c.X * c.W }
