package steps

import (
	"fmt"

	"qwb/graph"
	"qwb/kernels"
)

// SpatialShape is the shape of an output with n images of c channels.
func SpatialShape(n, c int, geo *graph.Geometry) []int { return append([]int{n, c}, geo.Out...) }

// ConvShape turns a geometry into the kernels' shape of a window from c to m channels. It is the zero value where a depth, of the input
// or of the output, is empty, which the kernels would read as two dimensions; more than three spatial axes are an error.
func ConvShape(geo *graph.Geometry, n, c, m int) (kernels.ConvShape, error) {
	rank := len(geo.In)
	if rank > 3 {
		return kernels.ConvShape{}, fmt.Errorf("%d spatial axes; at most 3 are supported", rank)
	}
	at := func(list []int, axis, missing int) int {
		if k := axis - (3 - rank); k >= 0 {
			return list[k]
		}
		return missing
	}
	s := kernels.ConvShape{N: n, C: c, M: m, Group: geo.Group,
		D: at(geo.In, 0, 1), KD: at(geo.Kernel, 0, 1), StrideD: at(geo.Stride, 0, 1), DilD: at(geo.Dilation, 0, 1),
		PadFront: at(geo.PadBegin, 0, 0), PadBack: at(geo.PadEnd, 0, 0), OutD: at(geo.Out, 0, 1),
		H: at(geo.In, 1, 1), KH: at(geo.Kernel, 1, 1), StrideH: at(geo.Stride, 1, 1), DilH: at(geo.Dilation, 1, 1),
		PadTop: at(geo.PadBegin, 1, 0), PadBottom: at(geo.PadEnd, 1, 0), OutH: at(geo.Out, 1, 1),
		W: at(geo.In, 2, 1), KW: at(geo.Kernel, 2, 1), StrideW: at(geo.Stride, 2, 1), DilW: at(geo.Dilation, 2, 1),
		PadLeft: at(geo.PadBegin, 2, 0), PadRight: at(geo.PadEnd, 2, 0), OutW: at(geo.Out, 2, 1),
	}
	if s.D == 0 || s.OutD == 0 {
		return kernels.ConvShape{}, nil
	}
	return s, nil
}
