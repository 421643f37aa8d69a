package calib_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/tqc"
)

// bytesOf runs the graph over 11 samples and returns the statistics as a file, and what was warned of.
func bytesOf(t *testing.T, text string, shape []int, cfg calib.Config) ([]byte, []tqc.Warning) {
	t.Helper()
	var samples []*exec.Sample
	for i := range 11 {
		x := graphtest.Normal(uint64(i), shape...)
		s := &exec.Sample{Name: string(rune('a' + i)), Feeds: map[string]*tensor.Tensor{"x": x}}
		s.Hash[0], s.Hash[31] = byte(37*i), byte(i)
		samples = append(samples, s)
	}
	var warned []tqc.Warning
	cfg.Warn = func(w tqc.Warning) { warned = append(warned, w) }
	stats, err := calib.Run(context.Background(), graphtest.Parse(t, text), &list{samples: samples}, cfg)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, stats.Write(&b))
	return b.Bytes(), warned
}

func TestBatchesChangeNoByte(t *testing.T) {
	const open = `opset 13
input x: f32[N,8,6,6]
const w: f32[16,8,3,3] = normal(seed=1, std=0.2)
const v: f32[16,5] = normal(seed=2)
c = Conv(x, w) {pads=[1,1,1,1]}
r = Relu(c)
g = GlobalAveragePool(r)
f = Flatten(g)
m = MatMul(f, v)
y = Softmax(m)
output y
`
	want, _ := bytesOf(t, open, []int{1, 8, 6, 6}, calib.Config{})
	for _, cfg := range []calib.Config{{Batch: 2}, {Batch: 4, Threads: 3}, {Batch: 11}, {Batch: 100}} {
		got, warned := bytesOf(t, open, []int{1, 8, 6, 6}, cfg)
		require.Empty(t, warned)
		require.Equal(t, want, got, "batch %d", cfg.Batch)
	}
}

// TestFixedBatchesAreOpened: a model that was exported for one sample at a time takes several all the same.
func TestFixedBatchesAreOpened(t *testing.T) {
	const fixed = "opset 13\ninput x: f32[1,8,6]\nconst s: i64[2] = [1, 48]\nconst v: f32[48,5] = normal(seed=2)\n" +
		"r: f32[1,48] = Reshape(x, s)\nm = MatMul(r, v)\ny = Softmax(m)\noutput y\n"
	want, _ := bytesOf(t, fixed, []int{1, 8, 6}, calib.Config{})
	got, warned := bytesOf(t, fixed, []int{1, 8, 6}, calib.Config{Batch: 4})
	require.Empty(t, warned)
	require.Equal(t, want, got)
}

func TestGraphsThatTakeNoBatchesAreRunOneAtATime(t *testing.T) {
	for claim, text := range map[string]string{
		"a fixed batch that is kept": "opset 13\ninput x: f32[1,6]\nconst s: i64[2] = [2, 3]\ny = Reshape(x, s)\noutput y\n",
		"samples mixed by a mean":    "opset 13\ninput x: f32[N,6]\nm = ReduceMean(x) {axes=[0], keepdims=1}\ny = Sub(x, m)\noutput y\n",
		"samples mixed along axis 0": "opset 13\ninput x: f32[N,6]\ny = Softmax(x) {axis=0}\noutput y\n",
	} {
		want, _ := bytesOf(t, text, []int{1, 6}, calib.Config{})
		got, warned := bytesOf(t, text, []int{1, 6}, calib.Config{Batch: 4})
		require.Len(t, warned, 1, claim)
		require.Contains(t, warned[0].Text, "one at a time", claim)
		require.Equal(t, want, got, claim)
	}
}
