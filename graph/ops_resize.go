package graph

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph/tensor"
)

var resizeOps = []OpSpec{
	{Name: "Resize", Doc: "x sampled at another size", Since: 10, Kind: KindMover, MinIn: 1,
		In: []Socket{SocketData, SocketIndex}, Passive: nearest, Infer: inferResize},
	{Name: "Upsample", Doc: "Resize before opset 10", Since: 1, Kind: KindMover, MinIn: 1,
		In: []Socket{SocketData, SocketIndex}, Passive: nearest, Infer: inferUpsample},
	{Name: "GridSample", Doc: "x sampled at the points of a grid", Since: 16, Kind: KindMover, MinIn: 2,
		In: []Socket{SocketData, SocketFloat}, Infer: inferGridSample},
}

// nearest: interpolation makes values between those of x, cubic interpolation also others.
func nearest(_ *Graph, n *Node) bool { return n.AttrStr("mode", "nearest") == "nearest" }

// ResizeInputs are the positions of the optional inputs of a Resize by its opset, -1 where it has none.
func ResizeInputs(opset int64) (roi, scales, sizes int) {
	if opset == 10 {
		return -1, 1, -1
	}
	return 1, 2, 3
}

// ResizeGeometry returns the output's shape and, per axis, the scale that coordinates are mapped with, for an input of the
// given shape. Exactly one of scales and sizes is not nil, roi only for tf_crop_and_resize.
func ResizeGeometry(n *Node, shape []int, roi, scales []float32, sizes []int64) (out []int, scale []float32, err error) {
	rank := len(shape)
	axes := make([]int, rank)
	for i := range axes {
		axes[i] = i
	}
	if list := n.AttrInts("axes"); list != nil {
		if axes, err = normAxes(list, rank); err != nil {
			return nil, nil, err
		}
	}
	out = slices.Clone(shape)
	scale = make([]float32, rank)
	for i := range scale {
		scale[i] = 1
	}
	crop := n.AttrStr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
	if (scales == nil) == (sizes == nil) || max(len(scales), len(sizes)) != len(axes) || crop && len(roi) != 2*len(axes) {
		return nil, nil, fmt.Errorf("%d scales, %d sizes and %d roi values for %d axes", len(scales), len(sizes), len(roi), len(axes))
	}
	if sizes != nil {
		err = resizeToSizes(n, shape, axes, sizes, out, scale)
		return out, scale, err
	}
	for i, a := range axes {
		size := float64(float32(shape[a]) * scales[i])
		if crop {
			size = math.Floor(float64(float32(shape[a]) * (roi[i+len(axes)] - roi[i]) * scales[i]))
		}
		if !(scales[i] > 0) || !(size >= 0 && size <= maxWindow) {
			return nil, nil, fmt.Errorf("scales %v for shape %v", scales, shape)
		}
		out[a], scale[a] = int(size), scales[i]
	}
	return out, scale, nil
}

// resizeToSizes fills out and scale from sizes, under keep_aspect_ratio_policy.
func resizeToSizes(n *Node, shape, axes []int, sizes []int64, out []int, scale []float32) error {
	policy := n.AttrStr("keep_aspect_ratio_policy", "stretch")
	common := float32(0)
	for i, a := range axes {
		if sizes[i] < 0 || sizes[i] > maxWindow || shape[a] == 0 && sizes[i] > 0 {
			return fmt.Errorf("sizes %v for shape %v", sizes, shape)
		}
		out[a] = int(sizes[i])
		if shape[a] > 0 {
			scale[a] = float32(sizes[i]) / float32(shape[a])
		}
		if i == 0 || policy == "not_larger" && scale[a] < common || policy == "not_smaller" && scale[a] > common {
			common = scale[a]
		}
	}
	switch policy {
	case "stretch":
	case "not_larger", "not_smaller":
		for _, a := range axes {
			scale[a] = common
			out[a] = int(math.Floor(float64(common*float32(shape[a])) + 0.5)) // half up, as ONNX states
		}
	default:
		return fmt.Errorf("keep_aspect_ratio_policy %q", policy)
	}
	return nil
}

func inferResize(c *InferCtx) error {
	roi, scales, sizes := ResizeInputs(c.Opset)
	return resize(c, roi, scales, sizes, nil)
}

func inferUpsample(c *InferCtx) error {
	if c.Has(1) {
		return resize(c, -1, 1, -1, nil)
	}
	if s := c.Node.Attr("scales"); s != nil {
		return resize(c, -1, -1, -1, s.Floats)
	}
	return resize(c, -1, -1, -1, []float32{1, 1, c.Node.AttrFloat("height_scale", 1), c.Node.AttrFloat("width_scale", 1)})
}

func resize(c *InferCtx, roi, scales, sizes int, attrScales []float32) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	c.SetOut(0, c.DType(0), unknownShape(len(x)))
	if sizes >= 0 && c.Has(sizes) && !empty(c.Shape(sizes)) {
		return resizeSymbolic(c, x, sizes)
	}
	s := attrScales
	if s == nil {
		if s = c.floats(scales); s == nil {
			return nil
		}
	}
	if axes := c.Node.AttrInts("axes"); axes == nil && len(s) != len(x) {
		return fmt.Errorf("%d scales for shape %s", len(s), x)
	}
	known, ok := x.Ints()
	if !ok {
		return resizeOpen(c, x, s)
	}
	out, _, err := ResizeGeometry(c.Node, known, c.floats(roi), s, nil)
	if err == nil {
		c.SetOut(0, c.DType(0), Static(out...))
	}
	return err
}

func empty(s Shape) bool { return len(s) == 1 && s[0].N == 0 }

// floats returns the elements of float32 input i, nil if they are unknown.
func (c *InferCtx) floats(i int) []float32 {
	if i < 0 || !c.Has(i) || c.Const(i) == nil || c.Const(i).DType != tensor.Float32 {
		return nil
	}
	return c.Const(i).F32()
}

// resizeOpen keeps symbols times whole scales.
func resizeOpen(c *InferCtx, x Shape, scales []float32) error {
	if c.Node.AttrInts("axes") != nil || c.Node.AttrStr("coordinate_transformation_mode", "") == "tf_crop_and_resize" {
		return nil
	}
	out := unknownShape(len(x))
	for i, d := range x {
		switch s := scales[i]; {
		case !(s > 0) || s > maxWindow:
			return fmt.Errorf("scales %v", scales)
		case d.Known():
			if size := float32(d.N) * s; size <= maxWindow {
				out[i] = Dim{N: int64(size)}
			}
		case s == float32(int64(s)):
			out[i] = mulElems(d.elem(), known(int64(s))).dim()
		}
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

func resizeSymbolic(c *InferCtx, x Shape, sizes int) error {
	elems, ok := c.Elems(sizes)
	if !ok {
		return nil
	}
	shape, static := x.Ints()
	if list, all := knownInts(elems); all && static {
		out, _, err := ResizeGeometry(c.Node, shape, c.floats(1), nil, list)
		if err == nil {
			c.SetOut(0, c.DType(0), Static(out...))
		}
		return err
	}
	if c.Node.AttrStr("keep_aspect_ratio_policy", "stretch") != "stretch" {
		return nil
	}
	axes := make([]int64, len(x))
	for i := range axes {
		axes[i] = int64(i)
	}
	if list := c.Node.AttrInts("axes"); list != nil {
		axes = list
	}
	norm, err := normAxes(axes, len(x))
	if err != nil || len(norm) != len(elems) {
		return fmt.Errorf("%d sizes for axes %v of %s", len(elems), axes, x)
	}
	out := slices.Clone(x)
	for i, a := range norm {
		out[a] = elems[i].dim()
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

// inferGridSample: [N, C] of x and the spatial axes of the grid.
func inferGridSample(c *InferCtx) error {
	x, grid := c.Shape(0), c.Shape(1)
	c.SetOut(0, c.DType(0), nil)
	if x == nil || grid == nil {
		return nil
	}
	if len(x) < 3 || len(grid) != len(x) {
		return fmt.Errorf("grid %s does not fit input %s", grid, x)
	}
	c.SetOut(0, c.DType(0), append(Shape{x[0], x[1]}, grid[1:len(grid)-1]...))
	return nil
}
