package qmath

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Profile ort equals ONNX Runtime, whose answers testdata/ort.py recorded, code for code; onnx what it answers where Q/DQ is
// not fused and float sums are exact, and onnx-ref the ONNX reference evaluator.
func TestONNXRuntime(t *testing.T) {
	n := tally{map[string]int{}, map[string]int{}}
	for _, c := range oracle(t, "ort.json.gz") {
		p, as := named(t, "ort"), c
		if by, op, ok := strings.Cut(c.Op, " "); ok {
			p, as.Op = named(t, map[string]string{"unfused": "onnx", "reference": "onnx-ref"}[by]), op
		}
		for i, got := range ortAnswer(t, p, as) {
			n.add(t, c, i, got)
		}
	}
	t.Logf("compared %v, different %v", n.compared, n.different)
}

// ortAnswer computes what an operator of ONNX Runtime answers.
func ortAnswer(t *testing.T, p Profile, c oracleCase) (y []int32) {
	t.Helper()
	add := func(q int32, err error) {
		require.NoError(t, err, c.Op)
		y = append(y, q)
	}
	switch c.Op {
	case "QLinearAdd", "QLinearMul":
		a, b := c.codes(0, c.Shape[0]), c.codes(1, c.Shape[1])
		sum, err := p.PrepareSum(c.grid(0), c.grid(1), c.grid(2), false)
		require.NoError(t, err)
		product, err := p.PrepareProduct(c.grid(0), c.grid(1), c.grid(2))
		require.NoError(t, err)
		for i := range max(len(a), len(b)) {
			if c.Op == "QLinearAdd" {
				y = append(y, sum.At(a[i%len(a)], b[i%len(b)]))
			} else {
				y = append(y, product.At(a[i%len(a)], b[i%len(b)]))
			}
		}
	case "QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat":
		table := p.Table(c.grid(0), c.grid(1), p.Sigmoid())
		if c.Op == "QLinearLeakyRelu" {
			var err error
			table, err = p.LeakyRelu(c.grid(0), c.grid(1), c.Alpha)
			require.NoError(t, err)
		}
		rescale, err := p.PrepareRescale(c.grid(0), c.grid(1))
		for b := range 256 {
			q := fromByte(byte(b), c.Signed)
			if c.Op == "QLinearConcat" {
				add(rescale.At(q), err)
			} else {
				y = append(y, table.Look(q, c.Signed))
			}
		}
	case "QLinearGlobalAveragePool":
		positions := c.Shape[1] * c.Shape[2]
		a, err := p.PrepareAverage(c.grid(0), c.grid(1), positions, GlobalMean)
		x := c.codes(0, c.Shape[0]*positions)
		for ; len(x) > 0; x = x[positions:] {
			sum := int32(0)
			for _, q := range x[:positions] {
				sum += a.Term(q)
			}
			add(a.At(sum), err)
		}
	case "QLinearAveragePool":
		channels, h, w, oh, ow, k, pad, counted := c.Shape[0], c.Shape[1], c.Shape[2], c.Shape[3], c.Shape[4], c.Shape[5], c.Shape[6],
			c.Shape[7] == 1
		x := c.codes(0, channels*h*w)
		for ch := range channels {
			for i := range oh {
				for j := range ow {
					terms, sum := 0, float32(0)
					a, err := p.PrepareAverage(c.grid(0), c.grid(1), 1, WindowMean)
					for row := i - pad; row < i-pad+k; row++ {
						for col := 2*j - pad; col < 2*j-pad+k; col++ {
							if row >= 0 && row < h && col >= 0 && col < w {
								sum += a.AverageTerm(x[(ch*h+row)*w+col])
								terms++
							}
						}
					}
					if a.N = terms; counted {
						a.N = k * k
					}
					add(a.AtFloat(sum), err)
				}
			}
		}
	case "QLinearSoftmax":
		s, err := p.PrepareSoftmax(c.grid(0), c.grid(1), c.Shape[1])
		require.NoError(t, err)
		y = c.codes(0, c.Shape[0]*c.Shape[1])
		for i := range c.Shape[0] {
			row := y[i*c.Shape[1]:][:c.Shape[1]]
			s.Row(row, row)
		}
	case "QLinearConv", "QLinearMatMul":
		y = linearAnswer(t, p, c)
	case "QuantizeLinear":
		q := p.Quantizer(c.grid(0))
		for i := range c.Shape[0] {
			y = append(y, q.At(float32(i-2048)/1024))
		}
	default:
		t.Fatalf("no operator %s", c.Op)
	}
	return y
}

// linearAnswer is a product of codes x [k, pixels] (of a matrix product, [pixels, k]) and w [m, k] (of a matrix product, [k, m]).
func linearAnswer(t *testing.T, p Profile, c oracleCase) (y []int32) {
	t.Helper()
	k, m, pixels, conv := c.Shape[0], c.Shape[1], c.Shape[2], c.Op == "QLinearConv"
	x, w, bias := c.codes(0, k*pixels), generated(c.Seed+1, k*m, c.SignedW), generated(c.Seed+2, m, true)
	g := c.grid(1)
	y = make([]int32, m*pixels)
	for j := range m {
		s := c.Scales[2:]
		weight := s[j%len(s)]
		factor, err := p.Prepare(Channel{X: c.Scales[0], W: weight, Y: g.Scale, Bias: float32(bias[j]*20) * BiasScale(c.Scales[0], weight)})
		require.NoError(t, err)
		for i := range pixels {
			acc, at := int32(0), i*m+j
			if conv {
				at = j*pixels + i
			}
			if conv && !p.FloatBias() {
				acc = bias[j] * 20
			}
			for l := range k {
				if conv {
					acc += (x[l*pixels+i] - c.Zeros[0]) * (w[j*k+l] - c.Zeros[2])
				} else {
					acc += (x[i*k+l] - c.Zeros[0]) * (w[l*m+j] - c.Zeros[2])
				}
			}
			y[at] = p.Requantize(acc, factor, g.ZeroPoint, g.QMin, g.QMax)
		}
	}
	return y
}
