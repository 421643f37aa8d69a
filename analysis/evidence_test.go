package analysis

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
)

func TestEstimates(t *testing.T) {
	e := NewEstimate([]float64{1, 2, 4, 5})
	require.InDelta(t, 3, e.Mean, 0)
	require.InDelta(t, math.Sqrt(10.0/3/4), e.Error, 1e-15, "sample deviation over the root of n")
	require.True(t, math.IsInf(NewEstimate([]float64{7}).Error, 1), "one sample says nothing of its error")
	require.Equal(t, 0.0, NewEstimate(nil).Mean)

	hard := []float64{1, 9, 3, 70, 20, 5}
	easier := make([]float64, len(hard))
	for i, x := range hard {
		easier[i] = 0.9*x - 0.05
	}
	d := Paired(hard, easier)
	require.True(t, d.Below(1.5))
	require.Less(t, d.Error, NewEstimate(hard).Error/5, "what the samples have in common drops out")
	require.False(t, Paired(easier, hard).Below(0))
	require.False(t, NewEstimate([]float64{-7}).Below(2), "one sample decides nothing")
}

func TestTrials(t *testing.T) {
	require.InDelta(t, 2, Trials(1), 1e-9)
	require.InDelta(t, 2, Trials(0), 1e-9)
	require.InDelta(t, 3.33, Trials(53), 0.01) // P(z > 3.33) = 0.0228/53
	require.Greater(t, Trials(20), Trials(10))
}

func TestSpreadIsNullWhereNothingIsKnown(t *testing.T) {
	b, err := json.Marshal(NewNSR(NewEstimate([]float64{0.01})))
	require.NoError(t, err)
	require.JSONEq(t, `{"nsr":0.01,"nsr_error":null,"sqnr_db":20}`, string(b))
	b, err = json.Marshal(NewNSR(NewEstimate([]float64{0, 0})))
	require.NoError(t, err)
	require.JSONEq(t, `{"nsr":0,"nsr_error":0,"sqnr_db":null}`, string(b))
}

func TestHeldOutUsesABitOfItsOwn(t *testing.T) {
	counts := map[[2]bool]int{}
	for i := range 256 {
		h := [32]byte{31: byte(i)}
		counts[[2]bool{exec.HeldOut(h), h[31]&1 == 1}]++
	}
	require.Equal(t, map[[2]bool]int{{false, false}: 64, {false, true}: 64, {true, false}: 64, {true, true}: 64}, counts)
	seen := func(h [32]byte) bool { return h[0] == 1 }
	require.Equal(t, HeldOutUnseen, HeldOutKind([][32]byte{{2}, {3}}, seen))
	require.Equal(t, HeldOutHalf, HeldOutKind([][32]byte{{2}, {1}}, seen))
	require.Equal(t, HeldOutUnseen, HeldOutKind([][32]byte{{2}}, nil))
}

// classNet ends as classifiers do; with its biases large the mean of the scores is too.
const classNet = `opset 13
input x: f32[1,4,6,6]
const w: f32[5,4,3,3] = normal(seed=1, std=0.3)
const b: f32[5] = [100, 101, 99, 100, 100]
c = Conv(x, w, b) "conv"
p = GlobalAveragePool(c)
f = Flatten(p)
y = Softmax(f) "softmax"
z = Identity(y)
output z
output c
`

func TestJudgeTakesTheMeanOverClassesOff(t *testing.T) {
	g := graphtest.Parse(t, classNet)
	j := NewJudge(g)
	require.True(t, j.Classes())
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(1, 1, 4, 6, 6)}
	run := func(add []float32) *Verdict {
		var v Verdict
		h := &exec.Hooks{Output: func(n *graph.Node, _ int, x *tensor.Tensor) error {
			if n.Op == "Flatten" && add != nil {
				for i, d := range add {
					x.F32()[i] += d
				}
			}
			return nil
		}}
		out, err := session.NewRunner().Run(context.Background(), feeds, j.Watch(h, &v))
		require.NoError(t, err)
		v.Outputs(out)
		return &v
	}
	float := run(nil)
	shifted, err := j.Losses(run([]float32{8, 8, 8, 8, 8}), float)
	require.NoError(t, err)
	require.InDelta(t, 0, shifted[0], 1e-9, "Softmax does not see it, nor does the judge")
	require.Equal(t, 0.0, shifted[1], "the other output is judged plainly")

	moved, err := j.Losses(run([]float32{0.1, 0, 0, 0, -0.1}), float)
	require.NoError(t, err)
	x := float.scores[0].F32()
	var mean, signal float64
	for _, v := range x {
		mean += float64(v) / 5
	}
	for _, v := range x {
		signal += (float64(v) - mean) * (float64(v) - mean)
	}
	require.InDelta(t, 0.02/signal, moved[0], 1e-5*0.02/signal+1e-6)
	plain, err := Compare(tensor.FromF32([]float32{x[0] + 0.1, x[1], x[2], x[3], x[4] - 0.1}, 1, 5), float.scores[0])
	require.NoError(t, err)
	require.Greater(t, moved[0], 1000*plain.NSR, "the mean of 100 would have flattered")

	probabilities, err := j.Plain(run([]float32{0.1, 0, 0, 0, -0.1}), float)
	require.NoError(t, err)
	require.NotEqual(t, moved[0], probabilities[0])
}

func TestLossesAreOfTheWorstOutput(t *testing.T) {
	l := Losses{{1, 5}, {3, 1}, {2, 6}}
	require.InDelta(t, 4, l.Estimate().Mean, 0)
	require.Equal(t, []float64{5, 3, 6}, l.PerSample())
}

func TestResultsSayHowSureTheyAre(t *testing.T) {
	data := samplesOf(6, 1, 8, 10, 10)
	for i, s := range data.Samples {
		s.Label = i % 5
	}
	classes := strings.NewReplacer("y = Gemm", "l = Gemm", "output y", "y = Softmax(l)\noutput y").Replace(residualNet)
	g, q := configured(t, classes, &target.TRTInt8, data, 0.8)
	data = &exec.InMemory{Samples: data.Samples}
	r, err := Analyze(context.Background(), g, q, data, Config{Outputs: true, Graphwise: true, Layerwise: true})
	require.NoError(t, err)
	for _, s := range []Spread{r.Outputs[0].Spread, r.Outputs[1].Spread, r.Graphwise[0].Spread, r.Layerwise[0].Spread} {
		require.NotNil(t, s.NSRError)
		require.Positive(t, *s.NSRError)
		require.NotNil(t, s.SQNR)
	}
	require.InDelta(t, -10*math.Log10(r.Outputs[1].NSR), *r.Outputs[1].SQNR, 1e-12)
	require.Nil(t, r.Outputs[1].Centred)
	require.NotNil(t, r.Layerwise[0].Centred)
	require.NotNil(t, r.Layerwise[0].CentredRanks)
	require.Positive(t, r.Layerwise[0].CentredRanks[0])

	data = &exec.InMemory{Samples: data.Samples}
	a, err := Eval(context.Background(), g, data, AccuracyConfig{Simulator: q})
	require.NoError(t, err)
	require.NotNil(t, a.Noise)
	require.Positive(t, r.Outputs[0].Centred.NSR)
	require.InDelta(t, max(r.Outputs[0].Centred.NSR, r.Outputs[1].NSR), a.Centred.NSR, 0, "eval and analyze run the same simulation")
	b, err := json.Marshal(a)
	require.NoError(t, err)
	for _, key := range []string{`"nsr":`, `"nsr_error":`, `"sqnr_db":`, `"centred":`} {
		require.Contains(t, string(b), key)
	}
}
