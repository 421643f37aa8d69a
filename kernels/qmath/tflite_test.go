package qmath

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Profile tflite2 equals TFLite's reference kernels, whose answers testdata/tflite.py recorded, code for code, and ort equals
// what XNNPACK makes of convolution and matrix product on x64, rndnu its additions and conversions. The optimized kernels
// between them round both times half up, as tvm-a64 does. Profile litert equals the reference kernels of LiteRT 2.3 in FULLY_CONNECTED too.
func TestTFLite(t *testing.T) {
	reference, optimized, xnnpack := named(t, "tflite2"), named(t, "tflite2"), named(t, "ort")
	optimized.Form = DoubleUpUp
	n := tally{map[string]int{}, map[string]int{}}
	for _, c := range oracle(t, "tflite.json.gz") {
		p, as := reference, c
		if kernels, op, ok := strings.Cut(c.Op, " "); ok {
			p, as.Op = map[string]Profile{"optimized": optimized, "xnnpack": xnnpack}[kernels], op
			if kernels == "xnnpack" && op != "CONV_2D" && op != "FULLY_CONNECTED" {
				p = named(t, "rndnu")
			}
		}
		if p.Name == "tflite2" && !strings.Contains(c.Op, " ") {
			for i, got := range tfliteAnswer(t, named(t, "litert"), as) {
				n.add(t, c, i, got)
			}
		}
		for i, got := range tfliteAnswer(t, p, as) {
			if c.Op == "FULLY_CONNECTED" {
				n.near(t, c, i, got)
			} else {
				n.add(t, c, i, got)
			}
		}
	}
	t.Logf("compared %v, different %v", n.compared, n.different)
}

// near accepts a step of difference: the reference kernel of FULLY_CONNECTED in LiteRT 2 rounds float64(acc)*s_x*s_w/s_y half
// away from zero; TFLite before it and TFLite Micro use tflite2.
func (n tally) near(t *testing.T, c oracleCase, i int, got int32) {
	n.compared[c.Op]++
	if want := c.want(i); got != want {
		n.different[c.Op]++
		require.InDelta(t, want, got, 1, "%s %v: element %d", c.Op, c.Scales, i)
	}
}

// tfliteAnswer computes what an operator of TFLite answers.
func tfliteAnswer(t *testing.T, p Profile, c oracleCase) (y []int32) {
	t.Helper()
	x := c.grid(0)
	tabulate := func(table Table, err error) {
		require.NoError(t, err, c.Op)
		for b := range 256 {
			y = append(y, table.Look(int32(int8(b)), true))
		}
	}
	switch c.Op {
	case "ADD", "SUB", "MUL":
		a, b := c.codes(0, c.Shape[0]), c.codes(1, c.Shape[0])
		sum, err := p.PrepareSum(x, c.grid(1), c.grid(2), c.Op == "SUB")
		product, wrong := p.PrepareProduct(x, c.grid(1), c.grid(2))
		require.NoError(t, wrong)
		for i := range a {
			if c.Op == "MUL" {
				y = append(y, product.At(a[i], b[i]))
			} else {
				require.NoError(t, err)
				y = append(y, sum.At(a[i], b[i]))
			}
		}
	case "LOGISTIC":
		tabulate(p.Table(x, c.grid(1), p.Sigmoid()), nil)
	case "TANH":
		tabulate(p.Table(x, c.grid(1), Correct(math.Tanh)), nil)
	case "HARD_SWISH":
		tabulate(p.HardSwish(x, c.grid(1)))
	case "LEAKY_RELU":
		tabulate(p.LeakyRelu(x, c.grid(1), c.Alpha))
	case "QUANTIZE":
		r, err := p.PrepareRescale(x, c.grid(1))
		tabulate(tableOf(x, r.At), err)
	case "QUANTIZE_FLOAT":
		q := p.Quantizer(x)
		for i := range c.Shape[0] {
			y = append(y, q.At(float32(i-2048)/1024))
		}
	case "AVERAGE_POOL_2D":
		h, w, channels, oh, ow, k := c.Shape[0], c.Shape[1], c.Shape[2], c.Shape[3], c.Shape[4], c.Shape[5]
		a, err := p.PrepareAverage(x, c.grid(1), k*k, WindowMean)
		require.NoError(t, err)
		codes := c.codes(0, h*w*channels)
		for i := range oh * ow * channels {
			row, col, ch, sum := i/channels/ow, i/channels%ow*2, i%channels, int32(0)
			for j := range k * k {
				sum += a.Term(codes[((row+j/k)*w+col+j%k)*channels+ch])
			}
			y = append(y, a.At(sum))
		}
	case "MEAN":
		positions, channels := c.Shape[0], c.Shape[1]
		a, err := p.PrepareAverage(x, c.grid(1), positions, AxesMean)
		require.NoError(t, err)
		sums := make([]int32, channels)
		for i, q := range c.codes(0, positions*channels) {
			sums[i%channels] += a.Term(q)
		}
		for _, sum := range sums {
			y = append(y, a.At(sum))
		}
	case "SOFTMAX":
		s, err := p.PrepareSoftmax(x, c.grid(1), c.Shape[1])
		require.NoError(t, err)
		require.Equal(t, SoftmaxGemmlowp, s.Form)
		y = c.codes(0, c.Shape[0]*c.Shape[1])
		for i := range c.Shape[0] {
			row := y[i*c.Shape[1]:][:c.Shape[1]]
			s.Row(row, row)
		}
	case "CONV_2D", "FULLY_CONNECTED":
		y = tfliteLinear(t, p, c)
	default:
		t.Fatalf("no operator %s", c.Op)
	}
	return y
}

// tfliteLinear is the product of codes x [pixels, k] and weights [m, k], which have a scale each or one for all.
func tfliteLinear(t *testing.T, p Profile, c oracleCase) (y []int32) {
	t.Helper()
	k, m, pixels := c.Shape[0], c.Shape[1], c.Shape[2]
	x, w, bias, g := c.codes(0, k*pixels), generated(c.Seed+1, k*m, true), generated(c.Seed+2, m, true), c.grid(1)
	scales := c.Scales[2:]
	for i := range pixels {
		for j := range m {
			factor, err := p.Prepare(Channel{X: c.Scales[0], W: scales[j%len(scales)], Y: g.Scale, Dense: c.Op == "FULLY_CONNECTED",
				Connected: c.Op == "FULLY_CONNECTED"})
			require.NoError(t, err)
			acc := int64(bias[j] * 20)
			for l := range k {
				acc += int64(x[i*k+l]-c.Zeros[0]) * int64(max(w[j*k+l], -127))
			}
			if c.Bits == 16 {
				y = append(y, p.Requantize64(acc, factor, g.ZeroPoint, g.QMin, g.QMax))
			} else {
				y = append(y, p.Requantize(int32(acc), factor, g.ZeroPoint, g.QMin, g.QMax))
			}
		}
	}
	return y
}
