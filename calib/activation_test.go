package calib_test

import (
	"context"
	"crypto/sha256"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// Activations per channel take the ranges of the channels; only minmax has them, so auto falls to it.
func TestPerChannelActivation(t *testing.T) {
	g := parse(t, `
input x: f32[1,2,2,2]
const w: f32[2,1,1,1] = [1, 2]
y = Conv(x, w) {group=2}
output y: f32[1,2,2,2]`)
	stats := run(t, g, []*exec.Sample{
		sampleOf("a", []float32{1, 2, 3, 4, 0, 0, -127, 5}, 1, 2, 2, 2), sampleOf("b", []float32{-12.7, 0, 0, 0, 1, 1, 1, 1}, 1, 2, 2, 2)},
		calib.Config{})
	cfg := tqc.Config{Policy: tqc.Symmetric | tqc.PerChannel | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127}, Axis: 1,
		Observer: tqc.ObserverAuto}
	with := func(c tqc.Config) (*tqc.Params, *calib.Outcome, error) {
		set := tqc.NewSet(g)
		sl := slotOf(t, g, set, "y", tqc.Input, 0)
		require.NoError(t, set.Configure(sl.ID, c))
		out, err := calib.Render(context.Background(), g, set, stats, calib.RenderConfig{})
		return set.Params(sl.ID), out, err
	}
	p, out, err := with(cfg)
	require.NoError(t, err)
	require.Equal(t, []float32{0.1, 1}, p.Scale)
	require.Equal(t, tqc.ObserverMinMax, out.Choices[0].Observer)
	require.InDelta(t, -127, out.Choices[0].Range.Lo, 0)

	cfg.Observer = tqc.ObserverKL
	_, _, err = with(cfg)
	require.ErrorIs(t, err, observers.ErrPerChannel)
	cfg.Observer, cfg.Axis = tqc.ObserverMinMax, 2
	_, _, err = with(cfg)
	require.ErrorContains(t, err, "not along axis 2")
	cfg.Policy, cfg.GroupSize = tqc.Symmetric|tqc.PerGroup|tqc.Linear, 1
	_, _, err = with(cfg)
	require.ErrorContains(t, err, "per-group scales are for parameters")
}

// A tensor that no operator reads is judged by its own error, one that is only moved by its readers behind the move.
func TestAutoWithoutWeightedConsumer(t *testing.T) {
	g := parse(t, `
input x: f32[1,64]
r = Relu(x)
f = Reshape(r, s)
const s: i64[2] = [8, 8]
const w: f32[8,4] = normal(1)
y = MatMul(f, w)
output r: f32[1,64]
output y: f32[8,4]`)
	v := make([]float32, 64)
	for i := range v {
		v[i] = float32(i) / 8
	}
	v[63] = 500
	stats := run(t, g, []*exec.Sample{sampleOf("a", v, 1, 64)}, calib.Config{})
	cfg := tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Observer: tqc.ObserverAuto}
	choose := func(moved bool) calib.Choice {
		set := tqc.NewSet(g)
		root := slotOf(t, g, set, "r", tqc.Output, 0).ID
		require.NoError(t, set.Configure(root, cfg))
		if moved {
			for _, sl := range []*tqc.Slot{slotOf(t, g, set, "f", tqc.Input, 0), slotOf(t, g, set, "f", tqc.Output, 0),
				slotOf(t, g, set, "y", tqc.Input, 0)} {
				require.NoError(t, set.Configure(sl.ID, cfg))
			}
			require.NoError(t, set.Dominate(slotOf(t, g, set, "f", tqc.Input, 0).ID, root))
			require.NoError(t, set.Borrow(slotOf(t, g, set, "f", tqc.Output, 0).ID, root))
			require.NoError(t, set.Dominate(slotOf(t, g, set, "y", tqc.Input, 0).ID, root))
		}
		return render(t, g, set, stats, calib.RenderConfig{}).Choices[0]
	}
	own, behind := choose(false), choose(true)
	require.Len(t, own.Errors, len(behind.Errors))
	require.NotEqual(t, own.Errors[0].Error, behind.Errors[0].Error, "one is the tensor's error, the other the product's")
	for _, c := range []calib.Choice{own, behind} {
		for _, e := range c.Errors {
			require.GreaterOrEqual(t, e.Error, 0.0)
		}
	}
}

// Rows of a Softmax: the last axis by default since opset 13, everything from axis 1 on before.
func TestSoftmaxRows(t *testing.T) {
	for text, want := range map[string]int{
		"opset 13; input x: f32[2,3,4]; y = Softmax(x); output y: f32[2,3,4]":           6,
		"opset 13; input x: f32[2,3,4]; y = Softmax(x) {axis=1}; output y: f32[2,3,4]":  8,
		"opset 11; input x: f32[2,3,4]; y = Softmax(x); output y: f32[2,3,4]":           2,
		"opset 11; input x: f32[2,3,4]; y = Softmax(x) {axis=-1}; output y: f32[2,3,4]": 6,
		"opset 11; input x: f32[2,3,4]; y = Softmax(x) {axis=0}; output y: f32[2,3,4]":  1,
		"opset 13; input x: f32[2,3,4]; y = LogSoftmax(x); output y: f32[2,3,4]":        0,
		"opset 13; input x: f32[2,3,4]; y = Softmax(x) {axis=-3}; output y: f32[2,3,4]": 12,
		"opset 13; input x: f32[2,3,4]; y = Sigmoid(x); output y: f32[2,3,4] # no rows": 0,
	} {
		v := make([]float32, 24)
		for i := range v {
			v[i] = float32(i*i%7) + float32(i)/50
		}
		stats := run(t, parse(t, text), []*exec.Sample{sampleOf("a", v, 2, 3, 4)}, calib.Config{})
		rows, ties := stats.Tensor("y").State.Rows()
		require.EqualValues(t, want, rows+ties, text)
	}
}

// Inputs of other types are kept with the samples and come back from the file as they were.
func TestKeptTypes(t *testing.T) {
	g := parse(t, `
input x: f32[1,2]
input n: i64[1]
input b: bool[2]
c = Cast(n) {to=1}
d = Cast(b) {to=1}
e = Add(x, c)
y = Add(e, d)
output y: f32[1,2]`)
	feeds := map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{1, 2}, 1, 2), "n": tensor.FromI64([]int64{-3}, 1),
		"b": {DType: tensor.Bool, Shape: []int{2}, Data: []bool{true, false}}}
	stats := run(t, g, []*exec.Sample{{Name: "a", Hash: sha256.Sum256(nil), Feeds: feeds}}, calib.Config{})
	require.Equal(t, []string{"c", "d", "e", "x", "y"}, stats.Names())
	path := t.TempDir() + "/a.stats"
	require.NoError(t, stats.Save(path))
	loaded, err := calib.Load(path)
	require.NoError(t, err)
	require.Len(t, loaded.Kept(), 1)
	for name, want := range feeds {
		require.True(t, tensor.Equal(want, loaded.Kept()[0].Feeds[name]), name)
	}
}

// What qmath had to mend, and what a method has to say, become warnings that name node and tensor.
func TestDegenerateActivationsWarn(t *testing.T) {
	g := parse(t, `
input x: f32[1,1,2,2]
const w: f32[1,1,1,1] = [1]
z = Mul(x, zero)
const zero: f32[] = 0
y = Conv(z, w)
q = Conv(x, w)
output y: f32[1,1,2,2]
output q: f32[1,1,2,2]`)
	inf := float32(math.Inf(1))
	stats := run(t, parse(t, "input x: f32[1,1,2,2]\nz = Relu(x)\noutput z: f32[1,1,2,2]"),
		[]*exec.Sample{sampleOf("a", []float32{0, -1, -inf, -3}, 1, 1, 2, 2), sampleOf("b", []float32{0, -1, -2, -3}, 1, 1, 2, 2)},
		calib.Config{})
	set := tqc.NewSet(g)
	cfg := tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Observer: tqc.ObserverMinMax}
	for _, n := range []string{"y", "q"} {
		require.NoError(t, set.Configure(slotOf(t, g, set, n, tqc.Input, 0).ID, cfg))
	}
	var text []string
	for _, w := range render(t, g, set, stats, calib.RenderConfig{}).Warnings {
		text = append(text, w.Node+": "+w.Text)
	}
	require.ElementsMatch(t, []string{`y: tensor "z": zero range`,
		`q: tensor "x": minmax: 1 values are infinite; they are clipped to the range of the finite ones`}, text)
}
