package tflite

import (
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// resize is a Resize over the two spatial axes: to the nearest for all types, linear for floats.
func (b *builder) resize(g *graph.Graph, n *graph.Node, x *value, out []*value) error {
	y := out[0]
	if rank := len(x.shape); rank != 3 && rank != 4 || x.shape[0] != y.shape[0] || x.shape[1] != y.shape[1] {
		return fmt.Errorf("from %v to %v: the file resizes two spatial axes", x.shape, y.shape)
	}
	planes := func(s []int) []int { // with two spatial axes
		if len(s) == 3 {
			return slices.Insert(slices.Clone(s), 2, 1)
		}
		return s
	}
	from, to := planes(x.shape), planes(y.shape)
	write := func(name string, corners, half bool) {
		in := b.plane(x)
		result := b.make(y, last(len(y.shape)))
		made := result
		if len(y.shape) == 3 {
			result = b.temporary(y, "plane", permuted(to, last(4)), y.enc)
		}
		b.op(name, []int{in, b.list("size", to[2:])}, []int{result}, "align_corners", corners, "half_pixel_centers", half)
		if made != result {
			b.reshape(result, made)
		}
	}
	mode, by, nearest := n.AttrStr("mode", "nearest"), n.AttrStr("coordinate_transformation_mode", "half_pixel"),
		n.AttrStr("nearest_mode", "round_prefer_floor")
	if g.Opset("") < 11 || n.Op == "Upsample" {
		by, nearest = "asymmetric", "floor"
	}
	half, corners := by == "half_pixel" || by == "pytorch_half_pixel" && !slices.Contains(y.shape[2:], 1), by == "align_corners"
	name := "RESIZE_BILINEAR"
	switch {
	case !half && !corners && by != "asymmetric":
		return fmt.Errorf("coordinates by %s have no form in the file", by)
	case mode == "nearest":
		name = "RESIZE_NEAREST_NEIGHBOR"
		list, err := b.places(g, n, x.shape, 1)
		if err != nil {
			return err
		}
		// What TensorFlow Lite computes is compared, so that ways of rounding and scales that are not the quotient of the sizes show.
		for _, way := range [][2]bool{{corners, half}, {false, true}, {false, false}, {true, false}} {
			if nearestPlaces(from, to, way[0], way[1], tensor.Of[int32](list[0].ToRowMajor())) {
				write(name, way[0], way[1])
				return nil
			}
		}
		return fmt.Errorf("coordinates by %s, rounded by %s, choose other elements than TensorFlow Lite's", by, nearest)
	case mode != "linear" || x.enc != nil:
		return fmt.Errorf("mode %s of %s has no form in the file", mode, x.typ)
	}
	if err := export.QuotientScales(g, n, x.shape, y.shape); err != nil {
		return err
	}
	write(name, corners, half)
	return nil
}

// nearestPlaces compares the elements that RESIZE_NEAREST_NEIGHBOR takes with a list.
func nearestPlaces(x, y []int, corners, half bool, from []int32) bool {
	at := func(i, in, out int) int {
		scale, offset := float32(in)/float32(out), float32(0)
		if corners && out > 1 {
			scale = float32(in-1) / float32(out-1)
		}
		if half {
			offset = 0.5
		}
		v := (float32(i) + offset) * scale
		k := int(qmath.Down.Round(float64(v)))
		if corners {
			k = int(qmath.HalfAwayFromZero.Round(float64(v)))
		}
		return max(min(k, in-1), 0)
	}
	for i, f := range from {
		index := unravel(i, y)
		if int(f) != ((index[0]*x[1]+index[1])*x[2]+at(index[2], x[2], y[2]))*x[3]+at(index[3], x[3], y[3]) {
			return false
		}
	}
	return true
}
