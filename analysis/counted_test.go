package analysis

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
)

const countedHead = `opset 17
input x: f32[1,8,6,6]
const w1: f32[8,8,3,3] = normal(seed=1, std=0.15)
const w2: f32[8,8,3,3] = normal(seed=2, std=0.12)
c = Conv(x, w1) {pads=[1,1,1,1]}
r = Relu(c)
s = Conv(r, w2) {pads=[1,1,1,1]}
`

// Whatever an output was chosen from and by stands for it, and only where how much of it there is depends on the numbers.
func TestJudgedBy(t *testing.T) {
	for _, c := range []struct{ name, text, judged, instead string }{
		{"Compress", "const t: f32[] = 0.2\ng = Greater(s, t)\nconst flat: i64[1] = [-1]\ngf = Reshape(g, flat)\ny = Compress(s, gf)\noutput y",
			"s", "y"},
		{"NonZero and Gather", "const t: f32[] = 0.2\ng = Greater(s, t)\nn = NonZero(g)\nm = Transpose(n)\ny = GatherND(s, m)\noutput y\n" +
			"output n", "s", "y n"},
		{"NonMaxSuppression", `const b: i64[3] = [1, 72, 4]
const k: i64[3] = [1, 1, 288]
boxes = Reshape(s, b)
q = Sigmoid(r)
const h: i64[3] = [1, 4, 72]
scores = Reshape(q, h)
const most: i64[1] = [20]
const iou: f32[1] = [0.5]
const least: f32[1] = [0.1]
y = NonMaxSuppression(boxes, scores, most, iou, least)
output y
output s`, "s boxes scores", " y y"},
		{"TopK of as many as there are", "const t: f32[] = 0.2\ng = Greater(s, t)\ngi = Cast(g) {to=7}\nk = ReduceSum(gi) {keepdims=0}\n" +
			"const one: i64[1] = [1]\nkk = Reshape(k, one)\nconst flat: i64[1] = [-1]\nsf = Reshape(s, flat)\nv, i = TopK(sf, kk)\noutput v\n" +
			"output i", "sf s", "v i v i"},
		{"TopK of five", "const kk: i64[1] = [5]\nconst flat: i64[1] = [-1]\nsf = Reshape(s, flat)\nv, i = TopK(sf, kk)\noutput v\noutput i",
			"v i", ""},
		{"a reshape by the shape", "n = Shape(s)\ny = Reshape(s, n)\noutput y", "y", ""},
		{"nothing but a mean behind it", "const t: f32[] = 0.2\ng = Greater(s, t)\nconst flat: i64[1] = [-1]\ngf = Reshape(g, flat)\n" +
			"z = Compress(s, gf)\ny = ReduceMean(z) {keepdims=0}\noutput y", "y", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := graphtest.Parse(t, countedHead+c.text)
			graph.InferShapes(g)
			list, instead, counted := judgedBy(g)
			require.Equal(t, c.instead != "", counted)
			require.Equal(t, c.judged, strings.Join(valueNames(g, list), " "))
			var of []string
			for _, x := range instead {
				of = append(of, strings.Join(valueNames(g, x), " "))
			}
			require.Equal(t, strings.TrimSpace(c.instead), strings.TrimSpace(strings.Join(of, " ")))
		})
	}
}

// A network whose output has as many elements as its numbers say is measured as the same network without the choice.
func TestCountedOutputIsMeasuredInFront(t *testing.T) {
	const choice = "const t: f32[] = 0.2\ng = Greater(s, t)\nconst flat: i64[1] = [-1]\ngf = Reshape(g, flat)\ny = Compress(s, gf)\noutput y"
	data := samplesOf(6, 1, 8, 6, 6)
	g, q := configured(t, countedHead+choice, &target.TRTInt8, data, 0.5)
	h, p := configured(t, countedHead+"output s", &target.TRTInt8, data, 0.5)
	cfg := Config{Graphwise: true, Layerwise: true, Split: true, Outputs: true}
	got, err := Analyze(context.Background(), g, q, &exec.InMemory{Samples: data.Samples}, cfg)
	require.NoError(t, err)
	want, err := Analyze(context.Background(), h, p, &exec.InMemory{Samples: data.Samples}, cfg)
	require.NoError(t, err)
	require.Equal(t, []string{"y"}, got.Outputs[0].For)
	got.Outputs[0].For = nil
	require.Equal(t, want.Outputs, got.Outputs)
	require.Equal(t, want.Layerwise, got.Layerwise)

	samples := func() exec.Iterator { return &exec.InMemory{Samples: data.Samples} }
	ev, err := NewEvaluator(context.Background(), g, samples, 2, 0)
	require.NoError(t, err)
	losses, err := ev.Losses(context.Background(), q)
	require.NoError(t, err)
	require.InDelta(t, want.Outputs[0].NSR, losses.Estimate().Mean, 1e-12)

	runs, err := CompareRuns(context.Background(), samples(), []Entrant{{Name: "a", Graph: g, Simulator: q, Float: g},
		{Name: "b", Graph: g, Simulator: q, Float: g}}, RunsConfig{})
	require.NoError(t, err)
	require.InDelta(t, want.Outputs[0].NSR, NewEstimate(runs.All[0].Losses).Mean, 1e-12)
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	forward := func(ctx context.Context, _ int, s *exec.Sample) ([]*tensor.Tensor, error) {
		return session.NewRunner().Run(ctx, s.Feeds, nil)
	}
	_, err = CompareRuns(context.Background(), samples(), []Entrant{{Name: "a", Forward: forward, Float: g}}, RunsConfig{})
	require.ErrorContains(t, err, `output "y": how many elements it has depends on the numbers`)
	forward = func(context.Context, int, *exec.Sample) ([]*tensor.Tensor, error) { // integers, which give another number of elements
		return []*tensor.Tensor{tensor.FromF32([]float32{1, 2}, 2)}, nil
	}
	runs, err = CompareRuns(context.Background(), samples(), []Entrant{{Name: "a", Graph: g, Simulator: q, Forward: forward, Float: g}},
		RunsConfig{Layers: 2})
	require.NoError(t, err)
	require.InDelta(t, want.Outputs[0].NSR, NewEstimate(runs.All[0].Losses).Mean, 1e-12)
	require.Equal(t, []string{"s"}, runs.Figures(nil, nil).At)
}

// Outputs in halves and doubles are numbers, and have the error that they have in float32.
func TestFloatsOfAllTypesAreCompared(t *testing.T) {
	data := samplesOf(6, 1, 8, 6, 6)
	report := func(text string) *Report {
		g, q := configured(t, countedHead+text, &target.TRTInt8, data, 0.5)
		r, err := Analyze(context.Background(), g, q, &exec.InMemory{Samples: data.Samples}, Config{Layerwise: true, Outputs: true})
		require.NoError(t, err)
		return r
	}
	want := report("output s")
	require.Positive(t, want.Outputs[0].NSR)
	for _, to := range []string{"1", "10", "11", "16"} {
		got := report("y = Cast(s) {to=" + to + "}\noutput y")
		require.InEpsilon(t, want.Outputs[0].NSR, got.Outputs[0].NSR, 0.02, to)
		require.InDelta(t, want.Outputs[0].Cosine, got.Outputs[0].Cosine, 1e-3, to)
		require.InEpsilon(t, want.Layerwise[0].NSR, got.Layerwise[0].NSR, 0.02, to)
		require.False(t, got.Outputs[0].Integer)
	}
}

// Whole numbers count as shares of mismatches, and only where nothing else is there.
func TestIntegerOutputsAreShares(t *testing.T) {
	data := samplesOf(6, 1, 8, 6, 6)
	run := func(text string) (*Report, Losses) {
		g, q := configured(t, countedHead+text, &target.TRTInt8, data, 0.02)
		r, err := Analyze(context.Background(), g, q, &exec.InMemory{Samples: data.Samples}, Config{Outputs: true})
		require.NoError(t, err)
		ev, err := NewEvaluator(context.Background(), g, func() exec.Iterator { return &exec.InMemory{Samples: data.Samples} }, 1, 0)
		require.NoError(t, err)
		l, err := ev.Losses(context.Background(), q)
		require.NoError(t, err)
		return r, l
	}
	alone, losses := run("i = ArgMax(s) {axis=1}\noutput i")
	require.True(t, alone.Outputs[0].Integer)
	require.Greater(t, alone.Outputs[0].Mismatch, 0.0)
	require.Less(t, alone.Outputs[0].Mismatch, 1.0)
	require.InDelta(t, alone.Outputs[0].Mismatch, losses.Estimate().Mean, 1e-12)
	both, losses := run("i = ArgMax(s) {axis=1}\noutput i\noutput s")
	require.Equal(t, "s", both.Judged().Output)
	require.InDelta(t, both.Judged().NSR, losses.Estimate().Mean, 1e-12)
	require.Equal(t, alone.Outputs[0].Mismatch, both.Outputs[0].Mismatch)

	// Beside a float output they are judged by themselves: lost where most elements are others.
	part := both.Outputs[0].Slices[0]
	require.True(t, part.Mismatch)
	require.InDelta(t, alone.Outputs[0].Mismatch, part.NSR, 1e-9)
	require.Equal(t, part.NSR >= 0.5, part.Finding == SignalLost)
	fine, _ := run("big = Greater(s, x)\ni = Cast(big) {to=7}\noutput i\noutput s")
	require.Less(t, fine.Outputs[0].Slices[0].NSR, 0.5)
	require.Empty(t, fine.Outputs[0].Slices[0].Finding)
	// The largest of values that are rounded to few codes is another one, though their NSR may be small.
	lost, _ := run("const k: f32[] = 1e4\nt = Mul(s, k)\ni = Cast(t) {to=7}\noutput i\noutput s")
	require.Equal(t, SignalLost, lost.Outputs[0].Slices[0].Finding)
	groups := Found(lost.Outputs[0].Slices, SignalLost)
	require.Regexp(t, "^no signal left: [0-9.]+ % of its elements differ$", groups[0].Text())
	require.Equal(t, "i", groups[0].Name())
	for _, r := range []*Report{both, lost} {
		require.Equal(t, "s", r.Judged().Output)
	}
}
