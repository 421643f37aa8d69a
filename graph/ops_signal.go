package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

var signalOps = []OpSpec{
	{Name: "DFT", Doc: "discrete Fourier transform", Since: 17, Kind: KindOther, MinIn: 1,
		In: []Socket{SocketData, SocketIndex}, Infer: inferDFT},
	{Name: "STFT", Doc: "Fourier transform of overlapping frames", Since: 17, Kind: KindOther, MinIn: 2,
		In: []Socket{SocketData, SocketIndex, SocketFloat, SocketIndex}, Infer: inferSTFT},
	window1D("HannWindow"), window1D("HammingWindow"), window1D("BlackmanWindow"),
	{Name: "MelWeightMatrix", Doc: "weights that sum a spectrum into mel bands", Since: 17, Kind: KindOther, MinIn: 5,
		In: []Socket{SocketIndex, SocketIndex, SocketIndex, SocketFloat}, Out: []Socket{SocketFloat}, Infer: inferMelWeights},
	{Name: "Det", Doc: "determinant of square matrices", Since: 11, Kind: KindOther, MinIn: 1, Infer: inferDet},
	{Name: "BitCast", Doc: "the same bits as another type of the same width", Since: 26, Kind: KindOther, MinIn: 1, Infer: inferBitCast},
	{Name: "AffineGrid", Doc: "sampling grid of affine maps", Since: 20, Kind: KindOther, MinIn: 2,
		In: []Socket{SocketFloat, SocketIndex}, Out: []Socket{SocketFloat}, Infer: inferAffineGrid},
	{Name: "Col2Im", Doc: "an image out of its columns of blocks, overlaps added", Since: 18, Kind: KindOther, MinIn: 3,
		In: []Socket{SocketData, SocketIndex}, Infer: inferCol2Im},
	{Name: "DeformConv", Doc: "Conv with sampling points moved by an offset", Since: 19, Kind: KindComputing, MinIn: 3,
		In: []Socket{SocketData, SocketData, SocketFloat, SocketData, SocketFloat}, Infer: func(c *InferCtx) error {
			return conv(c, 0, 1, 3, c.DType(0))
		},
		MACs: convMACs},
}

func window1D(name string) OpSpec {
	return OpSpec{Name: name, Doc: "window function of a size", Since: 17, Kind: KindOther, MinIn: 1,
		In: []Socket{SocketIndex}, Out: []Socket{SocketFloat}, Infer: func(c *InferCtx) error {
			d, err := dtypeAttr(c.Node, "output_datatype", tensor.Float32)
			size, known := c.scalar(0)
			if known && size.N < 0 {
				return fmt.Errorf("size %d", size.N)
			}
			c.SetOut(0, d, Shape{size.dim()})
			return err
		}}
}

// scalar returns the single element of integer input i; known tells whether it is a number.
func (c *InferCtx) scalar(i int) (e Elem, known bool) {
	list, ok := c.Elems(i)
	if !ok || len(list) != 1 {
		return Elem{}, false
	}
	return list[0], list[0].Known
}

// inferDFT: the last axis is 1 (real) or 2 (complex). The transformed axis has dft_length entries, or the non-redundant half
// of them with onesided; the inverse of a half is real.
func inferDFT(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	at := known(int64(c.Node.Axis()))
	if c.Opset >= 20 || c.Opset == 0 {
		at = known(-2)
		if c.Has(2) {
			at, _ = c.scalar(2)
		}
	}
	if !at.Known {
		c.SetOut(0, c.DType(0), unknownShape(len(x)))
		return nil
	}
	axis, err := normAxis(int(at.N), len(x))
	if err != nil || axis == len(x)-1 {
		return fmt.Errorf("axis %d of %s cannot be transformed", at.N, x)
	}
	half, inverse := c.Node.AttrInt("onesided", 0) != 0, c.Node.AttrInt("inverse", 0) != 0
	n := x[axis].elem()
	if half && inverse {
		n = addElems(addElems(n, n), known(-2))
	}
	if c.Has(1) {
		n, _ = c.scalar(1)
	}
	out := append(Shape{}, x...)
	out[axis], out[len(x)-1] = n.dim(), Dim{N: 2}
	switch {
	case half && inverse:
		out[len(x)-1] = Dim{N: 1}
	case half:
		out[axis] = unknownDim
		if n.Known {
			out[axis] = Dim{N: n.N/2 + 1}
		}
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

// inferSTFT: [batch, frames, bins, 2] for a signal [batch, length, 1 or 2], or [batch, length], which ONNX Runtime takes for a real one
// and torch.onnx writes.
func inferSTFT(c *InferCtx) error {
	x := c.Shape(0)
	if x != nil && len(x) != 2 && len(x) != 3 {
		return fmt.Errorf("signal %s", x)
	}
	out := Shape{unknownDim, unknownDim, unknownDim, {N: 2}}
	if x != nil {
		out[0] = x[0]
	}
	step, stepKnown := c.scalar(1)
	length, lengthKnown := c.scalar(3)
	if w := c.Shape(2); !c.Has(3) && len(w) == 1 {
		length, lengthKnown = w[0].elem(), w[0].Known()
	}
	if !c.Has(2) && !c.Has(3) && x != nil {
		length, lengthKnown = x[1].elem(), x[1].Known()
	}
	if stepKnown && step.N < 1 || lengthKnown && length.N < 1 {
		return fmt.Errorf("frame_step %d and frame_length %d", step.N, length.N)
	}
	if lengthKnown {
		out[2] = Dim{N: length.N}
		if c.Node.AttrInt("onesided", 1) != 0 {
			out[2].N = length.N/2 + 1
		}
	}
	if lengthKnown && stepKnown && x != nil && x[1].Known() {
		if x[1].N < length.N {
			return fmt.Errorf("frames of %d in a signal of %d", length.N, x[1].N)
		}
		out[1] = Dim{N: (x[1].N-length.N)/step.N + 1}
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

func inferMelWeights(c *InferCtx) error {
	d, err := dtypeAttr(c.Node, "output_datatype", tensor.Float32)
	bands, _ := c.scalar(0)
	length, ok := c.scalar(1)
	out := Shape{unknownDim, bands.dim()}
	if ok && length.N >= 0 {
		out[0] = Dim{N: length.N/2 + 1}
	}
	c.SetOut(0, d, out)
	return err
}

func inferDet(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	if len(x) < 2 {
		return fmt.Errorf("%s is no matrix", x)
	}
	if _, ok := mergeDim(x[len(x)-1], x[len(x)-2]); !ok {
		return fmt.Errorf("%s is not square", x)
	}
	c.SetOut(0, c.DType(0), append(Shape{}, x[:len(x)-2]...))
	return nil
}

func inferBitCast(c *InferCtx) error {
	d, err := dtypeAttr(c.Node, "to", tensor.Undefined)
	if err != nil {
		return err
	}
	if from := c.DType(0); from != tensor.Undefined && from.Bits() != d.Bits() {
		return fmt.Errorf("%s and %s differ in width", from, d)
	}
	c.SetOut(0, d, c.Shape(0))
	return nil
}

// inferAffineGrid: [N, spatial..., axes] for size [N, C, spatial...].
func inferAffineGrid(c *InferCtx) error {
	size, ok := c.Elems(1)
	c.SetOut(0, c.DType(0), nil)
	if !ok {
		return nil
	}
	if len(size) != 4 && len(size) != 5 {
		return fmt.Errorf("size %s", elemsString(size))
	}
	s := shapeOf(size)
	c.SetOut(0, c.DType(0), append(append(Shape{s[0]}, s[2:]...), dimOf(len(s)-2)))
	return nil
}

// Col2ImGeometry returns the windows of a Col2Im: blocks of the given size in an image of the given size.
func Col2ImGeometry(n *Node, image, block []int) (*Geometry, error) {
	kernel := make([]int64, len(block))
	for i, b := range block {
		kernel[i] = int64(b)
	}
	geo, err := window(n, Static(image...), nil, kernel)
	if err != nil {
		return nil, err
	}
	return geo, geo.slide("NOTSET", false)
}

// inferCol2Im: [N, C*block, columns] becomes [N, C, image...].
func inferCol2Im(c *InferCtx) error {
	x := c.Shape(0)
	image, ok := c.Elems(1)
	block, okBlock := c.Elems(2)
	c.SetOut(0, c.DType(0), nil)
	if x == nil || !ok || !okBlock {
		return nil
	}
	if len(x) != 3 || len(image) != len(block) {
		return fmt.Errorf("input %s, image %s and block %s", x, elemsString(image), elemsString(block))
	}
	channels := x[1].elem()
	for _, b := range block {
		channels = divElems(channels, b)
	}
	c.SetOut(0, c.DType(0), append(Shape{x[0], channels.dim()}, shapeOf(image)...))
	return nil
}
