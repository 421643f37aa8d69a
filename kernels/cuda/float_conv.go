package cuda

import (
	"fmt"

	"qwb/kernels/cuda/driver"
	"qwb/kernels/ref"
)

// FloatConv is a convolution, or a transposed one, made ready: ref.Conv or ref.ConvTranspose with ref.FMA32. The device needs its table
// and the weights in its order.
type FloatConv struct {
	shape      ref.ConvShape
	transposed bool
	each       bool // one result per thread
}

// NewFloatConv prepares a convolution of the given geometry.
func NewFloatConv(s ref.ConvShape, transposed bool) (*FloatConv, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	s = s.Full()
	for _, n := range [][]int{{s.N, s.D, s.H, s.W, s.C}, {s.N, s.OutD, s.OutH, s.OutW, s.M}, {s.KD, s.KH, s.KW, s.C, s.M},
		{s.D + s.PadFront + s.KD*s.DilD}, {s.H + s.PadTop + s.KH*s.DilH}, {s.W + s.PadLeft + s.KW*s.DilW}} {
		if err := fits("a convolution", n...); err != nil {
			return nil, err
		}
	}
	c := &FloatConv{shape: s, transposed: transposed}
	// A tile of 64 columns is wasted on groups of few channels.
	c.each = transposed || s.Group > 1 && s.M/s.Group < 16
	return c, nil
}

// Table is what the kernel reads to find the taps: upload it and give its address to Launch.
func (c *FloatConv) Table() []int32 {
	s := c.shape
	cg := s.C / s.Group
	var t []int32
	for d := range s.KD {
		for h := range s.KH {
			for w := range s.KW {
				z, y, x := d*s.DilD, h*s.DilH, w*s.DilW
				if c.transposed {
					t = append(t, int32(z), int32(y), int32(x), 0)
					continue
				}
				for k := range cg {
					t = append(t, int32(z), int32(y), int32(x), int32(((z*s.H+y)*s.W+x)*s.C+k))
				}
			}
		}
	}
	return t
}

// Order says where the kernel wants the weights: the element at an index of sizes lies at the sum of its steps from in OIHW (transposed:
// IOHW) and goes to that of its steps to.
func (c *FloatConv) Order() (sizes, from, to []int) {
	s := c.shape
	g, cg, mg, taps := s.Group, s.C/s.Group, s.M/s.Group, s.KD*s.KH*s.KW
	sizes, from, to = []int{g, mg, cg, taps}, []int{mg * cg * taps, cg * taps, taps, 1}, []int{mg, 1, s.M, cg * s.M}
	if c.transposed {
		from = []int{cg * mg * taps, taps, mg * taps, 1}
	}
	if !c.each {
		to = []int{taps * cg * mg, 1, mg, cg * mg}
	}
	return sizes, from, to
}

// Pack returns weights in the order in which the kernel reads them.
func (c *FloatConv) Pack(w []float32) []float32 {
	sizes, from, to := c.Order()
	out := make([]float32, len(w))
	for i := range w {
		rest, src, dst := i, 0, 0
		for a := len(sizes) - 1; a >= 0; a-- {
			src, dst, rest = src+rest%sizes[a]*from[a], dst+rest%sizes[a]*to[a], rest/sizes[a]
		}
		out[dst] = w[src]
	}
	return out
}

// floatConv mirrors FloatConv of float_conv.cu.
type floatConv struct {
	right              right
	x, taps            driver.Ptr
	groups, cAll, mAll int32
	in, out            [3]int32
	stride, pad        [3]int32
	rows, columns      int32
	_                  uint32
}

// Launch computes y from x, both channels-last. w and table are where the results of Pack and Table lie.
func (c *FloatConv) Launch(stream *Stream, y, x, w, table driver.Ptr, ep FloatEpilogue) error {
	s := c.shape
	positions, taps, mg := s.N*s.OutD*s.OutH*s.OutW, s.KD*s.KH*s.KW, s.M/s.Group
	if positions == 0 {
		return nil
	}
	p := floatConv{x: x, taps: table, groups: int32(s.Group), cAll: int32(s.C), mAll: int32(s.M),
		in: [3]int32{int32(s.D), int32(s.H), int32(s.W)}, out: [3]int32{int32(s.OutD), int32(s.OutH), int32(s.OutW)},
		stride: [3]int32{int32(s.StrideD), int32(s.StrideH), int32(s.StrideW)},
		pad:    [3]int32{int32(s.PadFront), int32(s.PadTop), int32(s.PadLeft)}}
	p.right = right{b: w, c: y, bRow: int32(mg), bCol: 1, cRow: int32(s.M), m: int32(positions), n: int32(mg),
		k: int32(taps * (s.C / s.Group))}
	p.right.epilogue(ep)
	switch {
	case c.transposed:
		p.right.k = int32(taps)
		return overElements(stream, "float_conv", "conv_transpose_each", positions*s.M, 256, &p)
	case c.each && s.C == s.Group && s.M == s.C && s.C%4 == 0 && (x|y|w)%16 == 0:
		return overElements(stream, "float_conv", "conv_depthwise4", positions*s.M/4, 256, &p)
	case c.each:
		return overElements(stream, "float_conv", "conv_each", positions*s.M, 256, &p)
	}
	entry, rows, columns := floatTile(stream.Device, positions, mg, s.Group)
	p.rows, p.columns = int32(floatParts(positions, rows)), int32(floatParts(mg, columns))
	if fits("tiles", int(p.rows), int(p.columns), s.Group) != nil {
		return fmt.Errorf("cuda: a convolution of %d positions and %d channels", positions, s.M)
	}
	return overBlocks(stream, "float_conv", "conv"+entry, int(p.rows)*int(p.columns)*s.Group, floatThreads, &p)
}
