package calib_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/graphtest"
	"qwb/quantizer"
	"qwb/quantizer/tqc"
)

const classifier = `
input x: f32[1,8]
const w: f32[8,5] = normal(1)
const b: f32[5] = normal(2)
const shape: i64[2] = [1, 5]
a = Gemm(x, w, b) "fc"
r = Reshape(a, shape) "flat"
y = Softmax(r) {axis=1} "soft"
output y: f32[1,5]
`

// Class scores in front of a last Softmax, LogSoftmax or ArgMax get a range that reaches beyond the largest of the samples, whatever moves
// them: what is cut off there is the class. Methods that are named, and tensors that no class hangs on, do not.
func TestScoresReachBeyondTheSamples(t *testing.T) {
	samples := make([]*exec.Sample, 24)
	for i := range samples {
		samples[i] = sampleOf(fmt.Sprint(i), graphtest.Normal(uint64(40+i), 8).F32(), 1, 8)
	}
	for end, reaches := range map[string]bool{
		`y = Softmax(r) {axis=1} "soft"`:                          true,
		"l = LogSoftmax(r) {axis=1}\ny = Reshape(l, shape)":       true,
		"s = Softmax(r) {axis=1}\ny = Transpose(s) {perm=[0, 1]}": true,
		"i = ArgMax(r) {axis=1}\ny = Cast(i) {to=1}":              false, // what reads it is not an output
		"e = Exp(r)\ny = Softmax(e) {axis=1}":                     false, // Exp is between
		"s = Softmax(r) {axis=1}\ny = Gemm(s, w5, b) \"behind\"":  false, // attention, not classes
	} {
		g := parse(t, strings.Replace(strings.Replace(classifier, `y = Softmax(r) {axis=1} "soft"`, end, 1),
			"const shape", "const w5: f32[5,5] = normal(3)\nconst shape", 1))
		stats := run(t, g, samples, calib.Config{})
		st := stats.Tensor("a").State
		mean, known := st.SampleMean()
		require.True(t, known)
		top := float64(st.Extent().Max)
		require.Less(t, mean.Hi, top)
		for _, o := range []tqc.Observer{tqc.ObserverNone, tqc.ObserverMinMax, "percentile"} {
			set := configure(t, g, "tflite_int8", quantizer.Options{})
			for _, c := range render(t, g, set, stats, calib.RenderConfig{Observer: o}).Choices {
				if c.Tensor != "a" {
					continue
				}
				if reaches && o == tqc.ObserverNone {
					require.Equal(t, top+(top-mean.Hi), c.Range.Hi, end)
				} else {
					require.LessOrEqual(t, c.Range.Hi, top*1.01, "%s %s", end, o)
				}
				list, err := calib.Candidates(g, set, stats, c.Slot)
				require.NoError(t, err)
				require.Equal(t, reaches, len(list) == 0, "%s: ranges that the samples like best are tried", end)
			}
		}
	}
}

// ONNX Runtime's Softmax has the scale 1/n of the largest whole number that its probabilities allow, 128 for each of a row at most, and
// 1/256 where they are large or a row's length is not known.
func TestProbabilitiesHaveAScaleThatFits(t *testing.T) {
	for _, c := range []struct {
		length      string
		rows        int
		spread      float32
		least, most float64
	}{
		{"64", 64, 0.02, 8192, 8192}, {"64", 64, 0.4, 400, 6000}, {"64", 64, 30, 256, 257}, {"2", 2, 0.02, 256, 256}, {"L", 64, 0.02, 256, 256},
	} {
		data := graphtest.Normal(9, c.rows*8).F32()
		for i := range data {
			data[i] *= c.spread
		}
		g := parse(t, "input x: f32["+c.length+",8]\nconst w: f32[8,8] = normal(3)\na = MatMul(x, w) \"scores\"\n"+
			"s = Softmax(a) {axis=0} \"soft\"\ny = MatMul(s, w) \"context\"\nz = MatMul(a, w) \"on integers\"\noutput y\noutput z\n")
		require.Empty(t, graph.InferShapes(g))
		set := configure(t, g, "onnxruntime", quantizer.Options{})
		render(t, g, set, run(t, g, []*exec.Sample{sampleOf("one", data, c.rows, 8)}, calib.Config{}), calib.RenderConfig{})
		p := set.Params(slotOf(t, g, set, "soft", tqc.Output, 0).ID)
		n := math.Floor(float64(1 / p.Scale[0]))
		require.True(t, c.least <= n && n <= c.most, "%v: 1/%v", c, n)
		require.InEpsilon(t, n, 1/float64(p.Scale[0]), 1e-6, "%v", c)
		require.Zero(t, p.ZeroPoint[0])
	}
}

// A large probability decides its row: in front of a product robust keeps as much of the range of a Softmax's result as mse does, whatever
// moves it or empties masked rows. Of what is no probability it cuts the spike off.
func TestProbabilitiesAreNoSpikes(t *testing.T) {
	data := graphtest.Normal(9, 256*64).F32() // rows that are flat, and one with a probability of 0.9
	for i := range data {
		data[i] /= 4
	}
	data[0] = 6
	for between, whole := range map[string]bool{
		"p = Softmax(x) {axis=1}":                                                                 true,
		"s = Softmax(x) {axis=1}\nn = IsNaN(s)\np = Where(n, zero, s)":                            true,
		"s = Softmax(x) {axis=1}\nt = Transpose(s) {perm=[1, 0]}\np = Transpose(t) {perm=[1, 0]}": true,
		"s = Softmax(x) {axis=1}\np = Abs(s)":                                                     false,
	} {
		g := parse(t, "input x: f32[256,64]\nconst zero: f32[1] = [0]\nconst w: f32[64,8] = normal(3)\n"+between+
			"\ny = MatMul(p, w) \"context\"\noutput y\n")
		stats := run(t, g, []*exec.Sample{sampleOf("one", data, 256, 64)}, calib.Config{})
		top := map[tqc.Observer]float64{}
		for _, o := range []tqc.Observer{tqc.ObserverRobust, tqc.ObserverMSE} {
			for _, c := range render(t, g, configure(t, g, "openvino_int8", quantizer.Options{}), stats, calib.RenderConfig{Observer: o}).Choices {
				if c.Tensor == "p" {
					require.Equal(t, o, c.Observer)
					top[o] = c.Range.Hi
				}
			}
		}
		require.Positive(t, top[tqc.ObserverMSE], between)
		require.Equal(t, whole, top[tqc.ObserverRobust] == top[tqc.ObserverMSE], "%s %v", between, top)
	}
}
