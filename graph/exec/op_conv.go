package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// convEvals are the convolutions. They compute channels-last in one to three spatial dimensions.
var convEvals = []evaluator{
	{"Conv", simple(evalConv)},
	{"ConvTranspose", simple(evalConvTranspose)},
}

// Window turns the geometry of a node into the kernels' shape of a convolution from c to m channels.
func Window(geo *graph.Geometry, n, c, m int) (kernels.ConvShape, error) {
	s := kernels.ConvShape{N: n, C: c, M: m, Group: geo.Group,
		H: 1, KH: 1, StrideH: 1, DilH: 1, OutH: 1, D: 1, KD: 1, StrideD: 1, DilD: 1, OutD: 1}
	r := len(geo.In)
	if r > 3 {
		return s, fmt.Errorf("%d spatial dimensions are not supported, 3 are the most", r)
	}
	w := r - 1
	s.W, s.KW, s.StrideW, s.DilW, s.OutW = geo.In[w], geo.Kernel[w], geo.Stride[w], geo.Dilation[w], geo.Out[w]
	s.PadLeft, s.PadRight = geo.PadBegin[w], geo.PadEnd[w]
	if h := r - 2; h >= 0 {
		s.H, s.KH, s.StrideH, s.DilH, s.OutH = geo.In[h], geo.Kernel[h], geo.Stride[h], geo.Dilation[h], geo.Out[h]
		s.PadTop, s.PadBottom = geo.PadBegin[h], geo.PadEnd[h]
	}
	if r == 3 {
		if geo.In[0] == 0 || geo.Out[0] == 0 { // the kernels read a depth of 0 as two dimensions
			return s, fmt.Errorf("an empty spatial axis 0: input %d, output %d", geo.In[0], geo.Out[0])
		}
		s.D, s.KD, s.StrideD, s.DilD, s.OutD = geo.In[0], geo.Kernel[0], geo.Stride[0], geo.Dilation[0], geo.Out[0]
		s.PadFront, s.PadBack = geo.PadBegin[0], geo.PadEnd[0]
	}
	return s, nil
}

// maxPhases bounds the strides of a transposed convolution, whose weights are packed by output position modulo stride.
const maxPhases = 1 << 16

// checkPadded bounds the copy of x with its padding, which attributes can make larger than input and output together.
func checkPadded(geo *graph.Geometry, x *tensor.Tensor, repeat int) error {
	shape := []int{x.Shape[0], x.Shape[1], repeat}
	for i, in := range geo.In {
		size := geo.PadBegin[i] + in + geo.PadEnd[i]
		if geo.OutputPadding != nil { // transposed
			size = in + 2*((geo.Kernel[i]-1)*geo.Dilation[i]/geo.Stride[i])
		}
		shape = append(shape, size)
	}
	if _, err := checkedLen(shape); err != nil {
		return fmt.Errorf("with its padding: %w", err)
	}
	return nil
}

// windowCache is the window of a step and the types it was computed from.
type windowCache struct {
	typ *outType
	s   kernels.ConvShape
}

// cachedWindow returns the window that the step had when types were inferred last.
func (c *call) cachedWindow() (kernels.ConvShape, bool) {
	w := &c.run.windows[c.index]
	return w.s, len(c.typ) > 0 && w.typ == &c.typ[0]
}

// keepWindow is the window of this step until types are inferred anew.
func (c *call) keepWindow(s kernels.ConvShape) {
	if len(c.typ) > 0 {
		c.run.windows[c.index] = windowCache{&c.typ[0], s}
	}
}

func evalConv(c *call) error {
	x, w := c.last(0), c.in(1)
	if err := c.floats(); err != nil {
		return err
	}
	s, ok := c.cachedWindow()
	if !ok {
		var err error
		if s, err = convWindow(c.node, x, w); err != nil {
			return err
		}
		c.keepWindow(s)
	}
	packed, ok := derived[*kernels.ConvF32](c, 1)
	if !ok {
		packed = derive(c, 1, c.run.s.table.PackConvF32(w.F32(), s))
	}
	ep := c.epilogue(tensor.ChannelsLast, packed.Adds())
	dst, apart, err := c.placed(c.outShape(0))
	if err != nil {
		return err
	}
	if dst == nil {
		out, err := c.outIn(0, tensor.ChannelsLast)
		if err != nil {
			return err
		}
		dst, apart = out.F32(), s.M
		ep.Done = c.shown(out, s.M)
	}
	if c.waits(ep) && packed.Batches(s) {
		packed.AddTo(&c.run.batch, dst, apart, x.F32(), s, ep)
		return nil
	}
	packed.RunInto(c.run.s.par, dst, apart, x.F32(), s, &c.run.scratch, ep)
	return nil
}

// convWindow returns the window of a convolution of x by w.
func convWindow(n *graph.Node, x, w *tensor.Tensor) (s kernels.ConvShape, err error) {
	geo, err := graph.ConvGeometry(n, graph.Static(x.Shape...), graph.Static(w.Shape...))
	if err != nil {
		return s, err
	}
	if s, err = Window(geo, x.Shape[0], x.Shape[1], w.Shape[0]); err != nil {
		return s, err
	}
	if err := s.Check(); err != nil {
		return s, err
	}
	repeat := 1
	if w.Shape[1] == 1 && geo.Group > 1 { // depthwise: every channel is repeated
		repeat = w.Shape[0] / geo.Group
	}
	return s, checkPadded(geo, x, repeat)
}

func evalConvTranspose(c *call) error {
	x, w := c.last(0), c.in(1)
	if err := c.floats(); err != nil {
		return err
	}
	geo, err := graph.ConvTransposeGeometry(c.node, graph.Static(x.Shape...), graph.Static(w.Shape...))
	if err != nil {
		return err
	}
	s, err := Window(geo, x.Shape[0], x.Shape[1], w.Shape[1]*geo.Group)
	if err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return err
	}
	if n, err := checkedLen(geo.Stride); err != nil || n > maxPhases {
		return fmt.Errorf("strides %v are too large", geo.Stride)
	}
	if err := checkPadded(geo, x, 1); err != nil {
		return err
	}
	out, err := c.outIn(0, tensor.ChannelsLast)
	if err != nil {
		return err
	}
	packed, ok := derived[*kernels.ConvTransposeF32](c, 1)
	if !ok {
		packed = derive(c, 1, c.run.s.table.PackConvTransposeF32(w.F32(), s))
	}
	ep := c.epilogue(out.Layout, false)
	ep.Done = c.shown(out, s.M)
	packed.Run(c.run.s.par, out.F32(), x.F32(), s, &c.run.scratch, ep)
	return nil
}

// derived returns what derive has kept for constant input i.
func derived[T any](c *call, i int) (v T, ok bool) {
	if !c.fixed(i) {
		return v, false
	}
	kept, ok := c.step.packs.find(c.raw(i))
	if !ok {
		return v, false
	}
	v, ok = kept.(T)
	return v, ok
}

// derive keeps what was computed from input i for the next runs if that is a constant of a graph that keeps such things, and returns it.
func derive[T any](c *call, i int, v T) T {
	if c.fixed(i) && c.run.s.g.Keeps(c.raw(i)) {
		return c.step.packs.keep(c.raw(i), v, func(v any) bool { _, ok := v.(T); return ok }).(T)
	}
	return v
}

// floats demands that every present input is float32.
func (c *call) floats() error {
	for i := range c.ins {
		if t := c.raw(i); t != nil && t.DType != tensor.Float32 {
			return badType(i, t.DType)
		}
	}
	return nil
}
