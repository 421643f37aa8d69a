package gpu

import (
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

// rearrangement brings a value of at least three axes into the other layout; last is that of the result.
func rearrangement(d tensor.DType, shape []int, last bool) *prepared {
	n, c, positions := shape[0], shape[1], tensor.Count(shape[2:])
	rows, cols := c, positions
	if !last {
		rows, cols = positions, c
	}
	el := elementOf(d)
	return &prepared{in: []layout{anyLayout}, out: []*output{{dtype: d, shape: slices.Clone(shape), last: last, alias: -1}},
		launch: func(s *cuda.Stream, in, out, _ []cuda.Buffer) error {
			return cuda.TurnCodes(s, out[0], in[0], el, n, rows, cols)
		}}
}
