package calib_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/quantizer"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

const attention = `
opset 17
input x: f32[1,6,16]
%s
const wq: f32[16,16] = normal(1, std=0.3)
const wk: f32[16,16] = normal(2, std=0.3)
const wv: f32[16,16] = normal(3, std=0.3)
const half: f32[] = 0.5
q = MatMul(x, wq)
k = MatMul(x, wk)
v = MatMul(x, wv)
kt = Transpose(k) {perm=[0, 2, 1]}
s = MatMul(q, kt)
%s
p = Softmax(ms) {axis=-1}
y = MatMul(p, v)
output p: f32[1,6,6]
output y: f32[1,6,16]
`

// causal writes a constant with one text above the diagonal and another elsewhere.
func causal(name, dtype, above, elsewhere string) string {
	var v []string
	for i := range 6 {
		for j := range 6 {
			v = append(v, map[bool]string{true: above, false: elsewhere}[j > i])
		}
	}
	return fmt.Sprintf("const %s: %s[1,6,6] = [%s]", name, dtype, strings.Join(v, ", "))
}

func additive() string { return causal("mask", "f32", "LOW", "0") }

func keep() string { return causal("keep", "bool", "false", "true") }

var maskForms = []struct{ name, declare, apply string }{
	{"Add", additive(), "ms = Add(s, mask)"},
	// Masked ones are the last.
	{"Add, then TopK", additive() + "\nconst six: i64[1] = [6]", "a = Add(s, mask)\nms, places = TopK(a, six) {axis=-1}"},
	{"Add, then Concat",
		additive() + "\nconst none: i64[1] = [0]\nconst three: i64[1] = [3]\nconst six: i64[1] = [6]\nconst last: i64[1] = [2]",
		"a = Add(s, mask)\nl = Slice(a, none, three, last)\nr = Slice(a, three, six, last)\nms = Concat(l, r) {axis=-1}"},
	{"Add first", additive(), "ms = Add(mask, s)"},
	{"Add, then halved", additive(), "m0 = Add(s, mask)\nms = Mul(m0, half)"},
	{"scaled, Add, Reshape", additive() + "\nconst to: i64[3] = [1, 6, 6]", "s1 = Mul(s, half)\nm0 = Add(s1, mask)\nms = Reshape(m0, to)"},
	{"bias, then Add", additive() + "\nconst near: f32[6,6] = normal(9)", "s1 = Add(s, near)\nms = Add(s1, mask)"},
	{"Add, then bias", additive() + "\nconst near: f32[6,6] = normal(9)", "s1 = Add(s, mask)\nms = Add(s1, near)"},
	{"Add, then Max", additive() + "\nconst least: f32[] = -3.4e38", "m0 = Add(s, mask)\nms = Max(m0, least)"},
	{"Where", keep() + "\nconst low: f32[] = LOW", "ms = Where(keep, s, low)"},
	{"Where the other way", keep() + "\nconst low: f32[] = LOW", "no = Not(keep)\nms = Where(no, low, s)"},
	{"Where of constants, Add", keep() + "\nconst low: f32[] = LOW\nconst none: f32[] = 0",
		"mask = Where(keep, none, low)\nms = Add(s, mask)"},
	{"input, Add", "input m: f32[1,6,6]", "ms = Add(s, m)"},
	{"input, (1 - m) * low", "input m: f32[1,6,6]\nconst one: f32[] = 1\nconst low: f32[] = LOW",
		"n = Sub(one, m)\nmask = Mul(n, low)\nms = Add(s, mask)"},
	{"input, (1 - m) * low, and a bias by row", "input m: f32[1,6,6]\nconst one: f32[] = 1\nconst low: f32[] = LOW\n" +
		"const row: f32[6,1] = [0, -8, -16, 0, -30, 0]", "n = Sub(one, m)\nmn = Mul(n, low)\nmask = Add(mn, row)\nms = Add(s, mask)"},
	{"input, boolean", "input m: bool[1,6,6]\nconst low: f32[] = LOW", "ms = Where(m, s, low)"},
}

// maskSamples are tokens; those of every fourth sample have scores that all lie near the smallest one.
func maskSamples(form string, low float32, n int) []*exec.Sample {
	r := rand.New(rand.NewPCG(5, 6))
	var out []*exec.Sample
	for i := range n {
		x := make([]float32, 6*16)
		for k := range x {
			x[k] = float32(r.NormFloat64()) * float32(1+i%4)
		}
		s := sampleOf(fmt.Sprint(i), x, 1, 6, 16)
		additive, ones, boolean := make([]float32, 36), make([]float32, 36), make([]bool, 36)
		for k := range 36 {
			if boolean[k] = k%6 <= k/6; boolean[k] {
				ones[k] = 1
			} else {
				additive[k] = low
			}
		}
		switch form {
		case "input, Add":
			s.Feeds["m"] = tensor.FromF32(additive, 1, 6, 6)
		case "input, (1 - m) * low", "input, (1 - m) * low, and a bias by row":
			s.Feeds["m"] = tensor.FromF32(ones, 1, 6, 6)
		case "input, boolean":
			s.Feeds["m"] = tensor.New(tensor.Bool, 1, 6, 6)
			copy(s.Feeds["m"].Data.([]bool), boolean)
		}
		out = append(out, s)
	}
	return out
}

// A number that means "not this one" takes no levels from the others and is not seen: in every row the probabilities of masked entries sum
// to less than 1/512, and the error of the rest is that of a network without a mask, on all targets with all observers.
func TestMasks(t *testing.T) {
	lows := map[string]float32{"-1e4": -1e4, "-1e9": -1e9, "-3.4e38": -3.4e38, "-inf": float32(math.Inf(-1))}
	for _, form := range maskForms {
		for name, low := range lows {
			if name == "-inf" && (strings.HasPrefix(form.name, "input, (1 - m) * low") || form.name == "Add, then Max") {
				continue // 0 * -inf is no number; the lowest finite one is the sentinel behind Max anyway
			}
			t.Run(form.name+" "+name, func(t *testing.T) {
				g := parse(t, fmt.Sprintf(attention, strings.ReplaceAll(form.declare, "LOW", name), form.apply))
				samples := maskSamples(form.name, low, 16)
				stats := run(t, g, samples, calib.Config{})
				for i, platform := range []string{"onnxruntime", "tflite_int8", "openvino_int8", "trt_int8", "pow2_int8"} {
					if i > 1 && !longtest.Wanted(t) {
						continue
					}
					observers := []tqc.Observer{tqc.ObserverNone}
					if platform == "tflite_int8" && name == "-1e9" && (form.name == "Add" || form.name == "Where") {
						observers = append(tqc.Observers, tqc.ObserverAuto)
					}
					for _, o := range observers {
						if o == tqc.ObserverIsotone {
							continue
						}
						set := configure(t, g, platform, quantizer.Options{})
						render(t, g, set, stats, calib.RenderConfig{Observer: o})
						masked, nsr := maskedSum(t, g, set, samples)
						require.Less(t, masked, 1.0/512, "%s %s", platform, o)
						require.Less(t, nsr, 0.07, "%s %s", platform, o) // kl cuts off much of such small tensors
					}
				}
			})
		}
	}
}

// maskedSum simulates a set: the largest sum of the probabilities of masked entries in a row, and the NSR of y.
func maskedSum(t *testing.T, g *graph.Graph, set *tqc.Set, samples []*exec.Sample) (largest, nsr float64) {
	t.Helper()
	s, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	runner := session.NewRunner()
	var noise, signal float64
	for _, sample := range samples {
		want, err := runner.Run(context.Background(), sample.Feeds, nil)
		require.NoError(t, err)
		exact := append([]float32(nil), want[1].F32()...)
		got, err := runner.Run(context.Background(), sample.Feeds, s.Hooks(nil))
		require.NoError(t, err)
		for i := range 6 {
			sum := 0.0
			for j := i + 1; j < 6; j++ {
				sum += float64(got[0].F32()[6*i+j])
			}
			largest = max(largest, sum)
		}
		for i, v := range got[1].F32() {
			noise += math.Pow(float64(v-exact[i]), 2)
			signal += math.Pow(float64(exact[i]), 2)
		}
	}
	return largest, noise / signal
}

// In front of ArgMax a masked entry lies below all others, however close these are.
func TestMasksBeforeArgMax(t *testing.T) {
	const text = `
opset 17
input x: f32[1,6,16]
const w: f32[16,6] = normal(1, std=0.3)
const mask: f32[6] = [0, 0, -1e9, 0, 0, -1e9]
s = MatMul(x, w)
m = Add(s, mask)
y = ArgMax(m) {axis=-1}
output m: f32[1,6,6]
output y: i64[1,6,1]
`
	g := parse(t, text)
	samples := maskSamples("", 0, 16)
	stats := run(t, g, samples, calib.Config{})
	set := configure(t, g, "onnxruntime", quantizer.Options{})
	render(t, g, set, stats, calib.RenderConfig{})
	require.Less(t, set.Params(slotOf(t, g, set, "m", tqc.Output, 0).ID).Scale[0], float32(1), "a grid of the scores")
	s, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	same := 0
	for _, sample := range samples {
		want, err := session.NewRunner().Run(context.Background(), sample.Feeds, nil)
		require.NoError(t, err)
		got, err := session.NewRunner().Run(context.Background(), sample.Feeds, s.Hooks(nil))
		require.NoError(t, err)
		for i, y := range got[1].I64() {
			require.NotContains(t, []int64{2, 5}, y)
			if y == want[1].I64()[i] {
				same++
			}
		}
	}
	require.Greater(t, same, 90, "of 96")
}
