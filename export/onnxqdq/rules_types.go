package onnxqdq

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

var typesRule = rule{Name: "types", meaning: true, Doc: "Q and DQ of the file's opset know the types and blocks in use: fp8 since 19, 4 " +
	"and 16 bits and blocks since 21, fp4 since 23, powers of two as scales since 24, 2 bits since 25",
	Fix: "raise the opset of the file, or choose a scheme that its opset has",
	check: func(c *checker) {
		opset := c.g.Opset("")
		c.each(func(n *graph.Node) {
			need := func(since int64, what string) {
				if opset < since {
					c.report(n, "%s needs opset %d, the file has %d", what, since, opset)
				}
			}
			codes := n.Input(0)
			if is(n, quantizeLinear) {
				codes = n.Outputs[0]
			}
			d := c.g.Value(codes).DType
			if s := storageOf(d); s != nil {
				need(s.opset, d.String())
			} else if d != tensor.Undefined {
				c.report(n, "codes of type %s", d)
			}
			if n.Quantize().Block > 0 {
				need(opsetBlocks, "block_size")
			}
			if c.g.Value(n.Input(1)).DType == tensor.Float8E8M0 {
				need(opsetPowers, "a scale of type f8e8m0")
			}
		}, quantizeLinear, dequantizeLinear)
	}}

var scaleTypeRule = rule{Name: "scale-type", meaning: true,
	Doc: "scales are float32, or powers of two (f8e8m0) of a DQ that says that it gives float32", Fix: "write scales as float32",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			switch d := c.g.Value(n.Input(1)).DType; {
			case d == tensor.Float32 || d == tensor.Undefined:
			case d != tensor.Float8E8M0:
				c.report(n, "scale of type %s", d)
			case is(n, dequantizeLinear) && n.AttrInt("output_dtype", 0) != int64(tensor.Float32):
				c.report(n, "no output_dtype: the result would have the type of the scale, %s", d)
			}
		}, quantizeLinear, dequantizeLinear)
	}}

var blocksRule = rule{Name: "blocks", meaning: true, Doc: "scales of blocks have the rank of the tensor, and one entry for every " +
	"block_size elements along the axis", Fix: "write one scale for every block",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			scale, x := c.g.Value(n.Input(1)).Shape, c.g.Value(n.Input(0)).Shape
			size := int64(n.Quantize().Block)
			if s := c.g.Const(n.Input(1)); s != nil {
				scale = graph.Static(s.Shape...)
			}
			if scale == nil || x == nil || size == 0 && len(scale) < 2 {
				return
			}
			axis, ok := graph.Axis(n.Axis(), len(x))
			switch {
			case size <= 0:
				c.report(n, "scale %s with block_size %d", scale, size)
			case len(scale) != len(x) || !ok:
				c.report(n, "scale %s with block_size %d along axis %d of %s", scale, size, axis, x)
			default:
				for i := range x {
					want := x[i]
					if i == axis {
						want.N = (want.N + size - 1) / size
					}
					if x[i].Known() && scale[i].Known() && scale[i].N != want.N {
						c.report(n, "scale %s with block_size %d along axis %d of %s", scale, size, axis, x)
						return
					}
				}
			}
		}, quantizeLinear, dequantizeLinear)
	}}

var packedRule = rule{Name: "packed", meaning: true, Doc: "codes of fewer than 8 bits are packed, the first in the low bits, with zeros " +
	"behind the last", Fix: "pack two codes of 4 bits into a byte, with zeros behind the last",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			for i := range n.Inputs {
				t := c.g.Const(n.Input(i))
				if t == nil || t.DType.Bits() >= 8 || t.DType.Bits() == 0 {
					continue
				}
				data, _ := t.Data.([]uint8)
				switch bits := t.Len() * t.DType.Bits(); {
				case len(data) != t.DType.Bytes(t.Len()):
					c.report(n, "%d bytes for %s, packed they are %d", len(data), t.Type(), t.DType.Bytes(t.Len()))
				case bits%8 != 0 && data[len(data)-1]>>(bits%8) != 0:
					c.report(n, "bits are set behind the last element of %s", t.Type())
				}
			}
		}, quantizeLinear, dequantizeLinear)
	}}

var floatZeroRule = rule{Name: "float-zero", meaning: true, Doc: "the zero point of a float type is 0", Fix: "write zero as the zero point",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			zp, t := c.zeroPoints(n)
			if t == nil {
				return
			}
			if s := storageOf(t.DType); s != nil && s.kind != qmath.Integers && anyNonZero(zp) {
				c.report(n, "zero point of %s is not 0", t.DType)
			}
		}, quantizeLinear, dequantizeLinear)
	}}
