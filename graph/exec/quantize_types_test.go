package exec_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

func halves(v ...float64) *tensor.Tensor {
	return exec.CastTo(tensor.Float16, &tensor.Tensor{DType: tensor.Float64, Shape: []int{len(v)}, Data: v})
}

// TestQuantizeHalves: the division is one in the type of the scale, unless attribute precision says another. A quotient just above
// 2.5 is 2.5 in float16, which goes to the even 2.
func TestQuantizeHalves(t *testing.T) {
	x, scale := 0.0, 0.0
	for i := 1; i < 1024 && scale == 0; i++ { // a quotient that float16 rounds down to 2.5
		s := float64(1024+i) / 2048
		h := float64(exec.CastTo(tensor.Float32, halves(2.5*s)).F32()[0])
		if q := h / s; q > 2.5 && q < 2.5009 {
			x, scale = h, s
		}
	}
	assert.NotZero(t, scale)
	feeds := map[string]*tensor.Tensor{"x": halves(x, -x), "s": halves(scale)}
	for attr, want := range map[string][]int8{"": {2, -2}, "{precision=1}": {3, -3}} {
		g := graphtest.Parse(t, "opset 23\ninput x: f16[2]; input s: f16[1]\nconst z: i8[1] = [0]\noutput y\ny = QuantizeLinear(x, s, z) "+attr)
		assert.Equal(t, want, run(t, g, exec.Options{}, feeds, nil)[0].Data, attr)
	}
}

// TestQuantizeSmallFloats: 8- and 4-bit floats with a scale per block of two, there and back, in float16.
func TestQuantizeSmallFloats(t *testing.T) {
	x := exec.CastTo(tensor.Float16, &tensor.Tensor{DType: tensor.Float64, Shape: []int{2, 4},
		Data: []float64{1, 2, 3, 4, -6, 1000, 0.5, math.Inf(-1)}})
	scale := exec.CastTo(tensor.Float16, &tensor.Tensor{DType: tensor.Float64, Shape: []int{2, 2}, Data: []float64{1, 2, 1, 0.5}})
	for d, want := range map[tensor.DType][]float32{
		tensor.Float4E2M1:   {1, 2, 3, 4, -6, 6, 0.5, -3},
		tensor.Float8E4M3FN: {1, 2, 3, 4, -6, 448, 0.5, -224},
		tensor.Float8E5M2:   {1, 2, 3, 4, -6, 1024, 0.5, -28672},
		tensor.Int4:         {1, 2, 4, 4, -6, 7, 0.5, -4},
		tensor.Uint2:        {1, 2, 4, 4, 0, 3, 0.5, 0},
	} {
		g := graphtest.Parse(t, `opset 25
			input x: f16[2,4]; input s: f16[2,2]
			output y, q
			q = QuantizeLinear(x, s) {axis=1, block_size=2, output_dtype=`+number(d)+`}
			y = DequantizeLinear(q, s) {axis=1, block_size=2}`)
		out := run(t, g, exec.Options{}, map[string]*tensor.Tensor{"x": x, "s": scale}, nil)
		assert.Equal(t, d, out[1].DType)
		assert.Equal(t, tensor.Float16, out[0].DType)
		assert.Equal(t, want, exec.CastTo(tensor.Float32, out[0]).F32(), d.String())
	}
}

// TestDequantizeByPowers: scales of type f8e8m0, the result in the type that is asked for.
func TestDequantizeByPowers(t *testing.T) {
	g := graphtest.Parse(t, "opset 24\ninput q: i8[2,2]; input s: f8e8m0[2]\noutput y\ny = DequantizeLinear(q, s) {axis=0, output_dtype=16}")
	out := run(t, g, exec.Options{}, map[string]*tensor.Tensor{
		"q": {DType: tensor.Int8, Shape: []int{2, 2}, Data: []int8{1, -2, 3, -4}},
		"s": {DType: tensor.Float8E8M0, Shape: []int{2}, Data: []uint8{126, 130}},
	}, nil)
	assert.Equal(t, tensor.BFloat16, out[0].DType)
	assert.Equal(t, []float32{0.5, -1, 24, -32}, exec.CastTo(tensor.Float32, out[0]).F32())
}

func number(d tensor.DType) string {
	return string([]byte{'0' + byte(d)/10, '0' + byte(d)%10})
}
