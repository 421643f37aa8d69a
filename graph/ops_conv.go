package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

var convOps = []OpSpec{
	{Name: "Conv", Doc: "convolution of x with w per group, plus bias", Since: 1, Kind: KindComputing, MinIn: 2,
		Infer: inferConv, MACs: convMACs, OutAxis: convOut, InAxis: convIn, Sums: convSums},
	{Name: "ConvTranspose", Doc: "transposed convolution", Since: 1, Kind: KindComputing, MinIn: 2,
		Infer: inferConvTranspose, MACs: convTransposeMACs, OutAxis: convTransposeOut, InAxis: convIn, Sums: convTransposeSums},
}

func inferConv(c *InferCtx) error { return conv(c, 0, 1, 2, c.DType(0)) }

// conv infers a convolution whose input, weight and bias are inputs x, w and b (b < 0: none) with output type d.
func conv(c *InferCtx, x, w, b int, d tensor.DType) error {
	xs, ws := c.Shape(x), c.Shape(w)
	if xs == nil || ws == nil {
		c.SetOut(0, d, nil)
		return nil
	}
	geo, err := ConvGeometry(c.Node, xs, ws)
	if err != nil {
		return err
	}
	if err := checkBias(c, b, ws[0], 1); err != nil {
		return err
	}
	out := Shape{xs[0], ws[0]}
	for i := range geo.Out {
		out = append(out, geo.dim(i, xs[2+i]))
	}
	c.SetOut(0, d, out)
	return nil
}

// checkBias demands that input b, if present with known shape, is a vector of m*group elements.
func checkBias(c *InferCtx, b int, m Dim, group int) error {
	if b < 0 || !c.Has(b) || c.Shape(b) == nil {
		return nil
	}
	s := c.Shape(b)
	if len(s) != 1 || s[0].Known() && m.Known() && s[0].N != m.N*int64(group) {
		return fmt.Errorf("bias %s for %d output channels", s, m.N*int64(group))
	}
	return nil
}

func inferConvTranspose(c *InferCtx) error {
	xs, ws := c.Shape(0), c.Shape(1)
	if xs == nil || ws == nil {
		c.SetOut(0, c.DType(0), nil)
		return nil
	}
	geo, err := ConvTransposeGeometry(c.Node, xs, ws)
	if err != nil {
		return err
	}
	if ws[1].N > MaxElements {
		return fmt.Errorf("weight %s is too large", ws)
	}
	if err := checkBias(c, 2, ws[1], geo.Group); err != nil {
		return err
	}
	m := unknownDim
	if ws[1].Known() {
		m = Dim{N: ws[1].N * int64(geo.Group)}
	}
	out := Shape{xs[0], m}
	for i := range geo.Out {
		out = append(out, geo.dim(i, xs[2+i]))
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

func convMACs(c *InferCtx) Shape { return convMACsOf(c, 1) }

// convMACsOf counts one MAC per output element and weight of its filter; the weight is input w.
func convMACsOf(c *InferCtx, w int) Shape {
	ws := c.Shape(w)
	if len(ws) < 3 {
		return nil
	}
	return factors(c.Out(0), ws[1:]...)
}

// convTransposeMACs counts one MAC per input element and weight it meets.
func convTransposeMACs(c *InferCtx) Shape {
	ws := c.Shape(1)
	if len(ws) < 3 {
		return nil
	}
	return factors(c.Shape(0), ws[1:]...)
}
