package cpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
)

// choice is a network whose operands meet in a Where and in a Softmax along an axis.
const choice = `
input x: f32[1,3,24,24]
input mask: bool[%s]
const w1: f32[8,3,3,3] = normal(seed=1, std=0.3)
const w2: f32[8,3,1,1] = normal(seed=2, std=0.6)
const w3: f32[5,8,1,1] = normal(seed=3, std=0.6)
a: f32[1,8,24,24] = Conv(x, w1) {pads=[1,1,1,1]} "a"
b: f32[1,8,24,24] = Conv(x, w2) "b"
c: f32[1,8,24,24] = Where(mask, a, b) "where"
s: f32[1,8,24,24] = Softmax(c) {axis=%d} "soft"
y: f32[1,5,24,24] = Conv(s, w3) "last"
output y
`

func chosen(t testing.TB, mask []int, axis int, profile string) (*lower.Program, map[string]*tensor.Tensor) {
	shape := fmt.Sprint(mask[0])
	for _, n := range mask[1:] {
		shape += fmt.Sprint(",", n)
	}
	g, set, feeds := lowertest.Configured(t, fmt.Sprintf(choice, shape, axis), "onnxruntime")
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	p, err := lower.Compile(g, set, &target.ONNXRuntime, pr)
	require.NoError(t, err)
	kinds := map[string]bool{}
	for i := range p.Steps {
		kinds[p.Steps[i].Op.Name()] = true
	}
	require.True(t, kinds["Where"] && kinds["Softmax"], lower.Format(p))
	return p, feeds
}

// Where with a condition of any shape, and Softmax along any axis, have kernels that compute what the reference does.
func TestWhereAndSoftmaxAlongAxes(t *testing.T) {
	for _, mask := range [][]int{{1, 8, 24, 24}, {1, 1, 24, 24}, {1, 8, 1, 1}, {1}} {
		for _, axis := range []int{1, 2, 3} {
			for _, profile := range []string{"ort", "tflite2"} {
				p, feeds := chosen(t, mask, axis, profile)
				require.Positive(t, programtest.Equal(t, p, feeds, backends()[:1], 2))
			}
		}
	}
}

// BenchmarkWhereAndSoftmax times the steps of a Where and a Softmax along the channels.
func BenchmarkWhereAndSoftmax(b *testing.B) {
	p, feeds := chosen(b, []int{1, 1, 24, 24}, 1, "ort")
	for _, backend := range programtest.Available() {
		b.Run("backend="+backend.Name, func(b *testing.B) {
			e, err := program.New(p, backend, 1)
			require.NoError(b, err)
			forward(b, func() error {
				_, err := e.Run(b.Context(), feeds, nil)
				return err
			})
		})
	}
}
