package qwb

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/calib/data/npy"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/internal/work/planning"
	"qwb/quantizer/tqc"
)

// A calibration whose observer loses says which one does better, and by how much: what planning.KeptLosses measures of both plans. It
// changes nothing, and the better observer gets no hint.
func TestHint(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	for i := range 12 {
		var b bytes.Buffer
		x := graphtest.Normal(uint64(700+i), 1, 3, 8, 8)
		require.NoError(t, npy.Write(&b, x))
		p.Store.(*Memory).Write("far/"+string(rune('a'+i))+".npy", b.Bytes())
	}
	o := CalibrateOptions{Platform: "trt_int8", Observer: "percentile(0.9)", Data: DataOptions{Paths: []string{"far"}}, Threads: 1}
	r, _, err := p.Calibrate(ctx, o)
	require.NoError(t, err)
	require.NotNil(t, r.Hint, "a tenth of the values is clipped")
	require.Equal(t, 8, r.Hint.Samples)
	require.Less(t, r.Hint.Other.NSR, r.Hint.Plan.NSR/2)
	before := string(get(t, p, p.Plan))

	losses := func() float64 {
		j := p.job()
		c, err := planning.NewChange(ctx, j, 1)
		require.NoError(t, err)
		defer c.Close()
		l, err := planning.KeptLosses(ctx, j, c.Derivation, c.Was, 1)
		require.NoError(t, err)
		return l.Estimate().Mean
	}
	require.Equal(t, r.Hint.Plan.NSR, losses())
	another, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "trt_int8", Observer: r.Hint.Observer, Threads: 1})
	require.NoError(t, err)
	require.Nil(t, another.Hint)
	require.Equal(t, r.Hint.Other.NSR, losses())
	require.NotEqual(t, before, string(get(t, p, p.Plan)))
	require.Equal(t, "hint: with --observer kl the NSR of the outputs is 0.50 instead of 0.70, "+
		"on the 8 samples that the statistics keep (no data needed; qwb sweep compares on held-out samples)",
		func() string {
			h := *r.Hint
			h.Observer, h.Plan.NSR, h.Other.NSR, h.Plan.NSRError, h.Other.NSRError = tqc.ObserverKL, 0.7, 0.5, nil, nil
			return h.String()
		}())
}

// A hint is bounded: an observer that takes long is not tried for many tensors.
func TestHintOfManyTensors(t *testing.T) {
	ctx := context.Background()
	var b strings.Builder
	b.WriteString("opset 13\ninput x: f32[1,2,2,2]\nconst w: f32[2,2,1,1] = normal(seed=1, std=0.5)\nc0 = Conv(x, w) \"c0\"\n")
	const n = 300
	for i := range n {
		fmt.Fprintf(&b, "s%d = Sigmoid(c%d)\nc%d = Conv(s%d, w) \"c%d\"\n", i, i, i+1, i, i+1)
	}
	fmt.Fprintf(&b, "output c%d\n", n)
	store := new(Memory)
	var file bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, b.String())}).Write(&file))
	store.Write("m.onnx", file.Bytes())
	for i := range 8 {
		var x bytes.Buffer
		require.NoError(t, npy.Write(&x, graphtest.Normal(uint64(i), 1, 2, 2, 2)))
		store.Write(fmt.Sprintf("d/%d.npy", i), x.Bytes())
	}
	heard := &listener{}
	p := &Project{Model: "m.onnx", Plan: "m.plan.json", Store: store, Events: heard}
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Observer: tqc.ObserverMinMax,
		Data: DataOptions{Paths: []string{"d"}}, Threads: 1})
	require.NoError(t, err)
	require.Contains(t, strings.Join(heard.details, "\n"), "hint: kl is not tried")
}

// Where rounded weights move the means of channels, a calibration hints at correcting biases, and tuning keeps what was hinted at.
// With a normalization in front, whose factors can take ranges on, it names that too.
func TestHintOfBiases(t *testing.T) {
	testHintOfBiases(t, "y = Gemm(x, w, b) \"y\"\n", "(qwb tune --method bias-analytic corrects them")
	testHintOfBiases(t, "n = LayerNormalization(x, f, f) \"n\"\ny = Gemm(n, w, b) \"y\"\n", "(qwb tune --method migrate,bias corrects them")
}

func testHintOfBiases(t *testing.T, text, says string) {
	ctx := context.Background()
	store := new(Memory)
	var file bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, `opset 17
input x: f32[1,32]
const w: f32[32,16] = normal(seed=1, std=0.5)
const b: f32[16] = normal(seed=2, std=0.5)
const f: f32[32] = fill(1)
`+text+"output y\n")}).Write(&file))
	store.Write("m.onnx", file.Bytes())
	for i := range 16 {
		var b bytes.Buffer
		x := graphtest.Normal(uint64(i), 1, 32)
		for k := range x.F32() {
			x.F32()[k] = 1 + x.F32()[k]/4
		}
		require.NoError(t, npy.Write(&b, x))
		store.Write(fmt.Sprintf("d/%02d.npy", i), b.Bytes())
	}
	p := &Project{Model: "m.onnx", Plan: "m.plan.json", Store: store}
	o := CalibrateOptions{Platform: "trt_int8", BorderCost: new(float64), Data: DataOptions{Paths: []string{"d"}}, Threads: 1}
	r, _, err := p.Calibrate(ctx, o)
	require.NoError(t, err)
	require.NotNil(t, r.Hint)
	require.Equal(t, "bias-analytic", r.Hint.Method)
	require.Empty(t, r.Hint.Observer)
	require.Less(t, r.Hint.Other.NSR, r.Hint.Plan.NSR)
	require.Contains(t, r.Hint.String(), "hint: with biases corrected the NSR of the outputs is ")
	require.Contains(t, r.Hint.String(), says)
	if strings.Contains(text, "LayerNormalization") {
		return // whose 16 samples are too few to confirm anything
	}
	tuned, _, err := p.Tune(ctx, TuneOptions{Methods: []string{r.Hint.Method}, Threads: 1})
	require.NoError(t, err)
	require.True(t, tuned.Confirmed)
	require.InEpsilon(t, r.Hint.Other.NSR/r.Hint.Plan.NSR, tuned.After.NSR/tuned.Before.NSR, 1, "what was hinted at is kept")
	again, _, err := p.Calibrate(ctx, o)
	require.NoError(t, err)
	require.True(t, again.Hint == nil || again.Hint.Method == "", "biases are corrected already")
}
