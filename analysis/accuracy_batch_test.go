package analysis

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// Integers in batches give the answers of single samples; forwards that mix the samples of a batch are found, and so are outputs that do
// not fall into samples.
func TestEvalInBatches(t *testing.T) {
	g := graphtest.Parse(t, "opset 13\ninput x: f32[1,4]\ny = Relu(x)\noutput y\n")
	data := samplesOf(7, 1, 4)
	for i, s := range data.Samples {
		s.Label = i % 4
	}
	var sizes []int
	integer := func(_ context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
		x := feeds["x"]
		sizes = append(sizes, x.Shape[0])
		out := x.Clone()
		for i, v := range out.F32() {
			out.F32()[i] = v*v - float32(i%4)
		}
		return []*tensor.Tensor{out}, nil
	}
	run := func(cfg AccuracyConfig) (*Accuracy, error) {
		sizes = nil
		return Eval(context.Background(), g, &exec.InMemory{Samples: data.Samples}, cfg)
	}
	want, err := run(AccuracyConfig{Integer: integer, Base: integer, BaseProfile: "base"})
	require.NoError(t, err)
	for _, n := range []int{2, 3, 7, 20} {
		got, err := run(AccuracyConfig{Integer: integer, Base: integer, BaseProfile: "base", Batch: n})
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, min(n, 7), slices.Max(sizes))
	}
	for name, f := range map[string]Forward{
		"depends on the other samples": func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
			out, err := integer(ctx, feeds)
			out[0].F32()[0] = float32(feeds["x"].Shape[0])
			return out, err
		},
		"does not fall into 3 parts": func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{tensor.New(tensor.Float32, 1, 4)}, nil
		},
		"no batches here": func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
			return nil, errors.New("no batches here")
		},
	} {
		_, err := run(AccuracyConfig{Integer: f, Batch: 3})
		require.ErrorContains(t, err, name)
	}
	data.Samples[4] = &exec.Sample{Name: "other", Feeds: map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, 1, 5)}}
	_, err = run(AccuracyConfig{Integer: integer, Batch: 2})
	require.ErrorContains(t, err, "beside")
}
