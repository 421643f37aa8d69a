package ref

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
)

func profile(t *testing.T, name string) qmath.Profile {
	t.Helper()
	p, err := qmath.ProfileNamed(name)
	require.NoError(t, err)
	return p
}

// Grids of signed and unsigned codes: real 0.5 per step, zero at 10.
var (
	signed   = qmath.Grid{Scale: 0.5, ZeroPoint: 10, QMin: -128, QMax: 127}
	unsigned = qmath.Grid{Scale: 0.25, ZeroPoint: 10, QMin: 0, QMax: 255}
)

func TestQBorders(t *testing.T) {
	p := profile(t, "onnx")
	codes := make([]int8, 4)
	Quantize(p.Quantizer(signed), codes, []float32{0, 1, -1.25, 1000})
	assert.Equal(t, []int8{10, 12, 8, 127}, codes)
	x := make([]float32, 4)
	Dequantize(signed, x, codes)
	assert.Equal(t, []float32{0, 1, -1, 58.5}, x)

	r, err := p.PrepareRescale(signed, unsigned)
	require.NoError(t, err)
	moved := make([]uint8, 4)
	QRescale(&r, moved, codes)
	assert.Equal(t, []uint8{10, 14, 6, 244}, moved)

	table := qmath.Table{0: 7, 127: 1, 128: 2, 255: 0xfe}
	out := make([]int8, 4)
	QTable(&table, out, []int8{0, 127, -128, -1})
	assert.Equal(t, []int8{7, 1, 2, -2}, out)
}

func TestQSumAndProduct(t *testing.T) {
	p := profile(t, "tflite2")
	s, err := p.PrepareSum(unsigned, unsigned, unsigned, false)
	require.NoError(t, err)
	d, err := p.PrepareSum(unsigned, unsigned, unsigned, true)
	require.NoError(t, err)
	m, err := p.PrepareProduct(unsigned, unsigned, unsigned)
	require.NoError(t, err)
	a, b, dst := []uint8{10, 18, 200, 0}, []uint8{10, 14, 200, 14}, make([]uint8, 4)
	QSum(&s, dst, a, b)
	assert.Equal(t, []uint8{10, 22, 255, 4}, dst)
	QSum(&d, dst, a, b)
	assert.Equal(t, []uint8{10, 14, 10, 0}, dst)
	QProduct(&m, dst, a, b)
	assert.Equal(t, []uint8{10, 18, 255, 0}, dst, "2 * 1 = 2, -2.5 * 1 = -2.5")
}

// One row of five columns, windows of three with padding on both sides, every second output in a channel of its own.
func TestQPools(t *testing.T) {
	s := ConvShape{N: 1, H: 1, W: 5, C: 2, KH: 1, KW: 3, PadLeft: 1, PadRight: 1, OutH: 1, OutW: 5}
	src := []int8{1, -1, 5, -5, 3, -3, -9, 9, 0, 0}
	dst := make([]int8, 10)
	QMaxPool(dst, src, s, 0)
	assert.Equal(t, []int8{5, -1, 5, -1, 5, 9, 3, 9, 0, 9}, dst)

	for _, name := range []string{"onnx", "tflite2", "pow2-half-away"} {
		p := profile(t, name)
		by := func(n int) *qmath.Average {
			a, err := p.PrepareAverage(signed, signed, n, qmath.WindowMean)
			require.NoError(t, err)
			return &a
		}
		QAveragePool(by, dst, src, s, false, 100)
		assert.Equal(t, []int8{3, -3, 3, -3, 0, 0, -2, 2}, dst[:8], name)
		QAveragePool(by, dst, src, s, true, 100)
		assert.Equal(t, []int8{5, 1}, dst[:2], "%s: (10 + 1 + 5) / 3, (10 - 1 - 5) / 3", name)
		a := by(5)
		QMean(a, dst, src, 1, 2)
		assert.Equal(t, []int8{0, 0}, dst[:2], name)
	}

	p := profile(t, "ort")
	QAveragePool(func(n int) *qmath.Average {
		a, err := p.PrepareAverage(signed, signed, n, qmath.WindowMean)
		require.NoError(t, err)
		return &a
	}, dst, src, s, false, 100)
	assert.Equal(t, []int8{3, -3, 3, -3, 0, 0, -2, 2}, dst[:8])

	far := ConvShape{N: 1, H: 1, W: 1, C: 2, KH: 1, KW: 1, PadLeft: 1, OutH: 1, OutW: 2}
	QAveragePool(func(n int) *qmath.Average { a, _ := p.PrepareAverage(signed, signed, n, qmath.WindowMean); return &a }, dst, src,
		far, false, 100)
	assert.Equal(t, []int8{100, 100, 1, -1}, dst[:4], "a window beyond the input")
	QMaxPool(dst, src, far, 99)
	assert.Equal(t, []int8{99, 99, 1, -1}, dst[:4])
}

func TestQSoftmax(t *testing.T) {
	y := qmath.Grid{Scale: 1.0 / 256, QMax: 255}
	for _, name := range []string{"tflite2", "tflite1", "ort", "onnx", "pow2"} {
		s, err := profile(t, name).PrepareSoftmax(unsigned, y, 2)
		require.NoError(t, err)
		dst := make([]uint8, 6)
		QSoftmax(&s, dst, []uint8{7, 7, 0, 255, 14, 10}, 3)
		assert.Equal(t, []uint8{128, 128, 0, 255}, dst[:4], name)
		assert.Equal(t, []uint8{187, 69}, dst[4:], "%s: 256/(1+1/e), 256/(1+e)", name)
	}
}
