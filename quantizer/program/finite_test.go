package program

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

func TestFiniteOutputs(t *testing.T) {
	infinite := float32(math.Inf(1))
	real := func(c ...qmath.Channel) *lower.Linear { return &lower.Linear{Real: c} }
	for name, c := range map[string]struct {
		op    lower.Op
		scale float32
		want  bool
	}{
		"dequantized":       {&lower.Dequantize{}, 0.1, true},
		"a large scale":     {&lower.Dequantize{}, 0x1p120, false},
		"product":           {real(qmath.Channel{X: 1, W: 1e-3, Bias: -4}), 0.1, true},
		"one large channel": {real(qmath.Channel{X: 1, W: 1}, qmath.Channel{X: 0x1p60, W: 0x1p60}), 0.1, false},
		"infinite bias":     {real(qmath.Channel{X: 1, W: 1, Bias: infinite}), 0.1, false},
		"no real output":    {real(), 0.1, false},
		"residual":          {&lower.Linear{Real: []qmath.Channel{{X: 1, W: 1}}, Residual: true}, 0.1, true},
		"a large residual":  {&lower.Linear{Real: []qmath.Channel{{X: 1, W: 1}}, Residual: true}, infinite, false},
		"function":          {&lower.Linear{Real: []qmath.Channel{{X: 1, W: 1}}, Func: &graph.Graph{}}, 0.1, false},
		"64 bits":           {&lower.Linear{Real: []qmath.Channel{{X: 1, W: 1}}, Wide: true}, 0.1, false},
		"clip of floats":    {&lower.Island{}, 0.1, false},
	} {
		p := &lower.Program{Outputs: []lower.TensorID{1, 1, 0}, Tensors: []lower.Tensor{
			{DType: tensor.Int8, Encoding: &lower.Encoding{Scale: c.scale, QMin: -128, QMax: 127}}, {DType: tensor.Float32}}}
		p.Steps = []lower.Step{{Op: c.op, Inputs: []lower.TensorID{0}, Outputs: []lower.TensorID{1}}}
		require.Equal(t, []bool{c.want, c.want, false}, finite(p), name)
	}
}
