package onnxqdq_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/exporttest"
)

// altered returns a Plant that rewrites a model after a change of its graph.
func altered(change func(t testing.TB, g *graph.Graph)) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		t.Helper()
		path := filepath.Join(dir, "m.onnx")
		m, _, err := onnx.Open(path)
		require.NoError(t, err)
		defer m.Close()
		change(t, m.Graph)
		require.NoError(t, m.Save(path+".new", onnx.SaveOptions{}))
		require.NoError(t, os.Rename(path+".new", path))
	}
}

// constant changes the first constant whose name ends so.
func constant(suffix string, change func(x *tensor.Tensor) *tensor.Tensor) func(t testing.TB, dir string) {
	return altered(func(t testing.TB, g *graph.Graph) {
		for _, v := range g.Values() {
			if x := g.Const(v); x != nil && strings.HasSuffix(g.Value(v).Name, suffix) {
				g.SetConst(v, change(x.Clone()))
				return
			}
		}
		require.Fail(t, "no constant "+suffix)
	})
}

// moved adds to the first code above 3, or to the first of all.
func moved(by int32) func(x *tensor.Tensor) *tensor.Tensor {
	return func(x *tensor.Tensor) *tensor.Tensor {
		codes := slices.Clone(x.Integers())
		codes[max(0, slices.IndexFunc(codes, func(q int32) bool { return q > 3 }))] += by
		return x.WithIntegers(codes)
	}
}

// longer multiplies the first number by a little more than 1.
func longer(x *tensor.Tensor) *tensor.Tensor {
	x.F32()[0] *= 1.0001
	return x
}

func TestDamagedFilesAreFound(t *testing.T) {
	f := onnxqdq.Format()
	for platform, faults := range map[string][]exporttest.Damaged{
		"onnxruntime": {
			{What: "a code of a weight", Plant: constant("w1_quantized", moved(-2))},
			{What: "a code of a bias", Plant: constant("b2_quantized", moved(1))},
			{What: "a scale of a weight", Plant: constant("w1_scale", longer)},
			{What: "a scale of a bias", Plant: constant("b1_scale", longer)},
			{What: "a scale of a tensor", Plant: constant("x_scale", longer)},
			{What: "a zero point of a tensor", Plant: constant("x_zero_point", moved(1))},
			{What: "a zero point of a weight", Plant: constant("w3_zero_point", moved(1))},
			{What: "a pair that is missing", Plant: altered(func(t testing.TB, g *graph.Graph) {
				id, ok := g.LookupNode("conv2")
				require.True(t, ok)
				v, ok := g.Lookup("x")
				require.True(t, ok)
				g.SetInput(id, 0, v)
			})},
		},
		"trt_int8": {
			{What: "a float weight", Plant: constant("w1", func(x *tensor.Tensor) *tensor.Tensor {
				for i := range x.F32() {
					x.F32()[i] *= 0.98
				}
				return x
			})},
			{What: "a float bias", Plant: constant("b1", longer)},
		},
		"trt_fp8": {
			{What: "a float weight", Plant: constant("w1", func(x *tensor.Tensor) *tensor.Tensor {
				x.F32()[0] *= 1.5
				return x
			})},
		},
	} {
		t.Run(platform, func(t *testing.T) { exporttest.ReadBack(t, &f, victim, platform, faults) })
	}
}
