package main

import (
	"context"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/demo"
	"qwb/internal/longtest"
)

// trained makes a few steps on a few images.
func trained(t *testing.T, steps int) (*network, []float32, []int) {
	t.Helper()
	const images = 2 * batchSize
	x, labels, err := shoot(demo.Training, 3, images)
	require.NoError(t, err)
	net := newNetwork(3)
	for step := range steps {
		indices := make([]int, batchSize)
		for i := range indices {
			indices[i] = (step*batchSize + i) % images
		}
		in, want := gather(x, labels, indices)
		tp := &tape{train: true}
		crossEntropy(net.forward(tp, in), want)
		tp.back()
		net.step(0.05)
	}
	return net, x, labels
}

func TestTrainingDoesNotDependOnTheNumberOfCores(t *testing.T) {
	longtest.Need(t, "trains twice")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one, _, _ := trained(t, 3)
	runtime.GOMAXPROCS(4)
	four, _, _ := trained(t, 3)
	require.Equal(t, len(one.params), len(four.params))
	for i, p := range one.params {
		require.True(t, slices.Equal(p.x, four.params[i].x), "parameter %d", i)
	}
}

// The written model computes what the network that was trained computes.
func TestWrittenModelIsTheNetwork(t *testing.T) {
	net, x, labels := trained(t, 2)
	file := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, writeModel(file, net, 3))
	m, _, err := onnx.Open(file)
	require.NoError(t, err)
	defer m.Close()
	s, err := exec.New(m.Graph, exec.Options{})
	require.NoError(t, err)
	in, _ := gather(x, labels, []int{5, 6, 7})
	want := net.forward(&tape{}, in)
	out, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"image": tensor.FromF32(in.x, 3, 1, demo.Size, demo.Size)},
		nil)
	require.NoError(t, err)
	require.Equal(t, []int{3, len(demo.Alphabet)}, out[0].Shape)
	largest := 0.0
	for _, v := range want.x {
		largest = max(largest, math.Abs(float64(v)))
	}
	for i, v := range out[0].F32() {
		require.InDelta(t, want.x[i], v, 1e-4*largest)
	}
}

// A step along the negative gradient lowers the loss by as much as the gradient promises: every operator's derivative is in it.
func TestGradientPredictsTheLoss(t *testing.T) {
	net, x, labels := trained(t, 1)
	indices := make([]int, 32)
	for i := range indices {
		indices[i] = i
	}
	loss := func() float64 {
		in, want := gather(x, labels, indices)
		l, _ := crossEntropy(net.forward(&tape{train: true}, in), want)
		return l
	}
	in, want := gather(x, labels, indices)
	tp := &tape{train: true}
	crossEntropy(net.forward(tp, in), want)
	tp.back()
	for i, p := range net.params {
		var square float64
		for _, g := range p.g {
			square += float64(g) * float64(g)
		}
		if square < 1e-6 { // float32 cannot resolve the difference
			continue
		}
		const drop = 4e-3 // of the loss, along this parameter's gradient, half of it to either side
		step := float32(drop / 2 / square)
		move := func(s float32) {
			for k, g := range p.g {
				p.x[k] += s * g
			}
		}
		move(step)
		up := loss()
		move(-2 * step)
		down := loss()
		move(step)
		require.InDelta(t, drop, up-down, 0.15*drop, "parameter %d of %d", i, len(net.params))
	}
}
