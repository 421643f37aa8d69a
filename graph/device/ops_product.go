package device

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/kernels/ref"
)

var productEmitters = map[string]emitter{
	"Conv": emitConv, "ConvTranspose": emitConv, "MatMul": emitMatMul, "Gemm": emitGemm,
}

// window is exec.Window of spatial axes that are not empty.
func window(geo *graph.Geometry, n, c, m int) (ref.ConvShape, error) {
	if slices.Contains(geo.In, 0) || slices.Contains(geo.Out, 0) {
		return ref.ConvShape{}, onHost("empty spatial axes")
	}
	s, err := exec.Window(geo, n, c, m)
	if err != nil {
		return s, onHost(err.Error())
	}
	return s, nil
}

func emitConv(e *emission) error {
	if err := e.floats(); err != nil {
		return err
	}
	transposed := e.n.Conv().Transposed
	x, w := e.shape(0), e.shape(1)
	geo, err := graph.WindowGeometry(e.n, graph.Static(x...), graph.Static(w...))
	if err != nil {
		return err
	}
	shape, err := window(geo, x[0], x[1], e.out[0].shape[1])
	if err != nil {
		return err
	}
	conv, err := cuda.NewFloatConv(shape, transposed)
	if err != nil {
		return onHost(err.Error())
	}
	src := e.in(0, tensor.ChannelsLast)
	weights := e.weights(conv, transposed, geo.Group)
	table := e.p.table(asBytes(conv.Table()))
	ep := e.epilogue(2, tensor.ChannelsLast)
	dst := e.makeAs(ep.result, tensor.Float32, e.out[0].shape, tensor.ChannelsLast)
	e.launch(func(s *cuda.Stream, m *ports) error {
		return conv.Launch(s, m.ptr(dst), m.ptr(src), m.ptr(weights), m.ptr(table), ep.at(m))
	}, dst, src, weights, table, ep.bias, ep.add)
	return nil
}

// weights returns input 1 as the kernel reads it: a constant is put in order once, others are in every run.
func (e *emission) weights(conv *cuda.FloatConv, transposed bool, group int) *loc {
	if t := e.known(1); t != nil {
		return e.p.constant(t, form{fmt.Sprintf("conv %v group %d", transposed, group), func(t *tensor.Tensor) []byte {
			return asBytes(conv.Pack(t.F32()))
		}})
	}
	src := e.in(1, tensor.RowMajor)
	dst := e.p.temp(src.bytes)
	sizes, from, to := conv.Order()
	e.move(dst, src, 4, sizes, to, from, 0, 0)
	return dst
}

// epilogue is what a product does with its sums.
type epilogue struct {
	bias, add *loc
	limited   bool
	limit     limit
	result    valueID // the value that comes out: the node's, or that of the last node computed with it
}

func (ep *epilogue) at(m *ports) cuda.FloatEpilogue {
	return cuda.FloatEpilogue{Bias: m.ptr(ep.bias), Add: m.ptr(ep.add), Limited: ep.limited, Lo: ep.limit.lo, Hi: ep.limit.hi}
}

// epilogue takes the bias, input i if it is present, and the Add, Relu and Clip nodes that follow and alone read what is between them.
// The last axis of the result, or the channels of a channels-last one, are the columns. The arithmetic is that of single steps.
func (e *emission) epilogue(i int, layout tensor.Layout) epilogue {
	p, g, shape := e.p, e.p.s.g, e.out[0].shape
	ep := epilogue{result: e.n.Outputs[0]}
	if e.has(i) {
		ep.bias = e.in(i, tensor.RowMajor)
	}
	for {
		if l, n, ok := e.limited(ep.result); ok {
			ep.limited, ep.limit, ep.result = true, l, n.Outputs[0]
			return ep
		}
		if p.s.opt.Unfused || p.watched[ep.result] || g.Opset("") < 7 {
			return ep
		}
		use, sole := g.SoleUse(ep.result)
		if !sole {
			return ep
		}
		n := g.Node(use.Node)
		if n.Op != "Add" || !n.IsONNX() || len(n.Inputs) != 2 {
			return ep
		}
		v := n.Inputs[1-use.Index]
		h := &p.vals[v]
		switch {
		case !h.ready || h.dtype != tensor.Float32 || ep.add != nil:
			return ep
		case slices.Equal(h.shape, shape):
			ep.add = e.laidOut(v, layout)
		case ep.bias == nil && h.known != nil && exec.IsColumn(h.shape, shape, layout):
			ep.bias = p.onDevice(v)
		default:
			return ep
		}
		p.absorbed[use.Node] = true
		ep.result = n.Outputs[0]
	}
}

// transposed is a matrix with rows and columns exchanged.
var transposed = form{"transposed", func(t *tensor.Tensor) []byte {
	rows, cols := t.Shape[0], t.Shape[1]
	out := make([]float32, rows*cols)
	for i, v := range t.F32() {
		out[i%cols*rows+i/cols] = v
	}
	return asBytes(out)
}}

// emitGemm is alpha * A' * B' + beta * C, the operations one after the other unless they are those of an epilogue.
func emitGemm(e *emission) error {
	if err := e.floats(); err != nil {
		return err
	}
	gemm := e.n.Gemm()
	alpha, beta := gemm.Alpha, gemm.Beta
	shape := e.out[0].shape
	a := e.in(0, tensor.RowMajor)
	last := len(shape) - 1
	k, cols := e.shape(0)[last], shape[last]
	f := cuda.FloatProduct{M: tensor.Count(shape[:last]), N: cols, K: k, ARow: k, ACol: 1, BRow: cols, BCol: 1, CRow: cols}
	if gemm.TransA {
		f.K, f.ARow, f.ACol = e.shape(0)[0], 1, shape[0]
	}
	b := e.raw(1)
	if gemm.TransB {
		if t := e.known(1); t != nil {
			b = e.p.constant(t, transposed)
		} else {
			f.BRow, f.BCol = 1, f.K
		}
	}
	if alpha == 1 && (!e.has(2) || beta == 1 && exec.IsColumn(e.shape(2), shape, tensor.RowMajor)) {
		ep := e.epilogue(2, tensor.RowMajor)
		e.product(f, e.makeAs(ep.result, tensor.Float32, shape, tensor.RowMajor), a, b, ep)
		return nil
	}
	dst := e.make(0, tensor.RowMajor)
	e.product(f, dst, a, b, epilogue{})
	own := operand{dst, shape, tensor.RowMajor}
	if alpha != 1 {
		by := operand{e.p.table(asBytes([]float32{alpha})), []int{}, tensor.RowMajor}
		e.binary(cuda.FloatBinary{Op: cuda.FloatMul}, dst, shape, tensor.RowMajor, own, by, -1)
	}
	if e.has(2) {
		e.binary(cuda.FloatBinary{Op: cuda.FloatScaledAdd, Scale: beta}, dst, shape, tensor.RowMajor, own,
			operand{e.in(2, tensor.RowMajor), e.shape(2), tensor.RowMajor}, -1)
	}
	return nil
}

func (e *emission) product(f cuda.FloatProduct, dst, a, b *loc, ep epilogue) {
	e.launch(func(s *cuda.Stream, m *ports) error {
		f := f
		f.A, f.B, f.C, f.FloatEpilogue = m.ptr(a), m.ptr(b), m.ptr(dst), ep.at(m)
		return f.Launch(s)
	}, dst, a, b, ep.bias, ep.add)
}

// emitMatMul multiplies the last two axes; the axes before them are broadcast. A vector on the left is a row, on the right a column.
func emitMatMul(e *emission) error {
	if err := e.floats(); err != nil {
		return err
	}
	as, bs := e.shape(0), e.shape(1)
	if len(as) == 1 {
		as = []int{1, as[0]}
	}
	if len(bs) == 1 {
		bs = []int{bs[0], 1}
	}
	ra, rb := len(as)-2, len(bs)-2
	f := cuda.FloatProduct{M: as[ra], N: bs[rb+1], K: as[ra+1], ARow: as[ra+1], ACol: 1, BRow: bs[rb+1], BCol: 1, CRow: bs[rb+1]}
	batch := slices.Clone(e.out[0].shape)
	if len(e.shape(0)) > 1 {
		batch = batch[:len(batch)-1]
	}
	if len(e.shape(1)) > 1 {
		batch = batch[:len(batch)-1]
	}
	if tensor.Count(bs[:rb]) == 1 { // one right-hand side: all rows at once
		f.M = tensor.Count(as[:ra+1])
	} else {
		f.CBatch = f.M * f.N
		f.Batch, f.ABatch, f.BBatch = batches(batch, as[:ra], bs[:rb], f.M*f.K, f.K*f.N)
		if len(f.Batch) > 4 {
			return onHost("more than 4 batch axes")
		}
	}
	a, b := e.in(0, tensor.RowMajor), e.in(1, tensor.RowMajor)
	ep := e.epilogue(2, tensor.RowMajor)
	e.product(f, e.makeAs(ep.result, tensor.Float32, e.out[0].shape, tensor.RowMajor), a, b, ep)
	return nil
}

// batches returns the axes over which matrices are multiplied, joined where both operands step through them alike, and the steps.
func batches(batch, as, bs []int, a, b int) (size, aStep, bStep []int) {
	sa, sb := aligned(as, tensor.RowMajor, len(batch), -1), aligned(bs, tensor.RowMajor, len(batch), -1)
	for i, n := range batch {
		if n == 1 {
			continue
		}
		if k := len(size) - 1; k >= 0 && aStep[k] == n*sa[i]*a && bStep[k] == n*sb[i]*b {
			size[k], aStep[k], bStep[k] = size[k]*n, sa[i]*a, sb[i]*b
			continue
		}
		size, aStep, bStep = append(size, n), append(aStep, sa[i]*a), append(bStep, sb[i]*b)
	}
	return size, aStep, bStep
}
