package exporttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Constant changes the first constant whose name ends so.
func Constant(suffix string, change func(x *tensor.Tensor) *tensor.Tensor) func(t testing.TB, dir string) {
	return EditModel(func(t testing.TB, g *graph.Graph) {
		for _, v := range g.Values() {
			if x := g.Const(v); x != nil && strings.HasSuffix(g.Value(v).Name, suffix) {
				g.SetConst(v, change(x.Clone()))
				return
			}
		}
		require.Fail(t, "no constant "+suffix)
	})
}

// Moved adds to the first code above 3, or to the first of all.
func Moved(by int32) func(x *tensor.Tensor) *tensor.Tensor {
	return func(x *tensor.Tensor) *tensor.Tensor {
		codes := slices.Clone(x.Integers())
		codes[max(0, slices.IndexFunc(codes, func(q int32) bool { return q > 3 }))] += by
		return x.WithIntegers(codes)
	}
}

// Longer multiplies the first number by a little more than 1.
func Longer(x *tensor.Tensor) *tensor.Tensor {
	x.F32()[0] *= 1.0001
	return x
}
