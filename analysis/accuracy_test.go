package analysis

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis/task"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
)

func TestScoreCountsPairs(t *testing.T) {
	right := func(label int) []task.Record { return []task.Record{task.Ranked{Label: label, Class: label}} }
	wrong := func(label, rank int) []task.Record {
		return []task.Record{task.Ranked{Label: label, Class: 2, Rank: rank}}
	}
	answers := []answer{
		{sample: "a", label: 1, runs: [runs][]task.Record{right(1), right(1)}},
		{sample: "b", label: 1, runs: [runs][]task.Record{right(1), wrong(1, 1)}},
		{sample: "c", label: 1, runs: [runs][]task.Record{right(1), wrong(1, 4)}},
		{sample: "d", label: 1, runs: [runs][]task.Record{wrong(1, 1), right(1)}},
		{sample: "e", label: 1, runs: [runs][]task.Record{wrong(1, 1), wrong(1, 1)}},
		{sample: "f", label: 0, runs: [runs][]task.Record{wrong(0, 5), {task.Ranked{Label: 0, Class: 1, Rank: 5}}}},
	}
	r := score(classes(), answers, true, nil)
	require.Equal(t, []int{2, 5, 3, 4}, []int{r.Top1, r.Top5, r.FloatTop1, r.Flips})
	require.Equal(t, Answer{"b", 1, 2}, r.Answers[1])
	require.InDelta(t, 100.0/6, r.Drop, 1e-12)
	require.InDelta(t, 100*math.Sqrt((3-1.0/6)/(6*5)), r.DropError, 1e-12)
}

func TestEvalInFloat(t *testing.T) {
	g := graphtest.Parse(t, "opset 13\ninput x: f32[1,3]\ny = Relu(x)\noutput y\n")
	data := &exec.InMemory{Samples: []*exec.Sample{
		{Label: 0, Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{3, 2, 1}, 1, 3)}},
		{Label: 2, Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{3, 2, 1}, 1, 3)}}}}
	for threads := range 3 {
		data = &exec.InMemory{Samples: data.Samples}
		r, err := Eval(context.Background(), g, data, AccuracyConfig{Threads: threads})
		require.NoError(t, err)
		require.Equal(t, &Accuracy{Mode: "fp32", Backend: "cpu", N: 2, Counts: &Counts{1, 2}, Answers: []Answer{{"", 0, 0}, {"", 2, 0}}}, r)
	}
}

// An evaluator says of a quantization what Eval says, on samples that it keeps and on samples that it reads again.
func TestEvaluatorAnswersAsEval(t *testing.T) {
	const net = `opset 13
input x: f32[1,8,4,4]
const w1: f32[16,8,3,3] = normal(seed=1, std=0.15)
const w2: f32[6,16,4,4] = normal(seed=2, std=0.1)
c = Conv(x, w1) {pads=[1,1,1,1]}
r = Relu(c)
d = Conv(r, w2)
y = Flatten(d)
output y
`
	data := samplesOf(12, 1, 8, 4, 4)
	for i, s := range data.Samples {
		s.Label = i % 6
	}
	g, q := configured(t, net, &target.TRTInt8, data, 0.1)
	again := func() exec.Iterator { return &exec.InMemory{Samples: data.Samples} }
	want, err := Eval(context.Background(), g, again(), AccuracyConfig{Simulator: q})
	require.NoError(t, err)
	require.Positive(t, want.Flips, "the quantization is coarse enough to be seen")
	for _, memory := range []int64{0, 1} {
		for _, threads := range []int{1, 3} {
			ev, err := NewEvaluator(context.Background(), g, again, threads, memory)
			require.NoError(t, err)
			for range 2 {
				got, err := ev.Accuracy(context.Background(), q)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		}
	}
	for _, name := range []string{"top1", "top5"} {
		m, err := task.Find(name)
		require.NoError(t, err)
		ev, err := NewEvaluator(context.Background(), g, again, 2, 0)
		require.NoError(t, err)
		for _, l := range []task.Labels{{}, {Float: true}} {
			s, err := m.Open(l)
			require.NoError(t, err)
			before, err := ev.Records(context.Background(), nil, s)
			require.NoError(t, err)
			after, err := ev.Records(context.Background(), q, s)
			require.NoError(t, err)
			drop := NewEstimate(task.Difference(s, before, after, m)).Mean
			switch {
			case l.Float && name == "top1":
				require.InDelta(t, 100*want.FlipRate, drop, 1e-12)
			case name == "top1":
				require.InDelta(t, want.Drop, drop, 1e-12)
			case !l.Float:
				require.InDelta(t, float64(want.Top5)/12, s.Score(after), 1e-12)
			}
		}
	}
	data.Samples[3].Label = 6
	ev, err := NewEvaluator(context.Background(), g, again, 1, 0)
	require.NoError(t, err)
	_, err = ev.Accuracy(context.Background(), q)
	require.ErrorContains(t, err, "label-offset")
}

// TestShift: answers that are all one class too high say so, and answers that are right, too few labels or no clear offset say nothing.
func TestShift(t *testing.T) {
	answers := func(n, labels int, class func(label int) int) *Accuracy {
		r := &Accuracy{}
		for i := range n {
			label := 3 * (i % labels)
			r.Answers = append(r.Answers, Answer{Label: label, Class: class(label)})
		}
		return r
	}
	by, right, ok := answers(40, 20, func(l int) int { return l + 1 }).Shift()
	require.True(t, ok)
	require.Equal(t, []int{1, 40}, []int{by, right})
	for name, r := range map[string]*Accuracy{
		"all right":      answers(40, 20, func(l int) int { return l }),
		"two labels":     answers(40, 2, func(l int) int { return l + 1 }),
		"one answer":     answers(40, 20, func(l int) int { return 500 }),
		"nothing at all": {},
	} {
		_, _, ok := r.Shift()
		require.False(t, ok, name)
	}
}
