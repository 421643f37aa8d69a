package main

import (
	"context"
	"math"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/demo"
	"qwb/internal/longtest"
)

// trained makes a few steps on a few images.
func trained(t *testing.T, steps int) (*trainer, []float32, []int) {
	t.Helper()
	const images = 2 * batchSize
	x, labels, err := shoot(demo.Training, 3, images)
	require.NoError(t, err)
	tr, err := newTrainer(newNetwork(3))
	require.NoError(t, err)
	for step := range steps {
		in, want := gather(x, labels, batchFrom(step*batchSize%images))
		_, _, gradients, err := tr.pass(in, want, statisticsRate)
		require.NoError(t, err)
		tr.net.step(0.05, gradients)
	}
	return tr, x, labels
}

func batchFrom(first int) []int {
	list := make([]int, batchSize)
	for i := range list {
		list[i] = first + i
	}
	return list
}

func TestTrainingDoesNotDependOnTheNumberOfCores(t *testing.T) {
	longtest.Need(t, "trains twice")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one, _, _ := trained(t, 3)
	runtime.GOMAXPROCS(4)
	four, _, _ := trained(t, 3)
	require.Equal(t, len(one.net.params), len(four.net.params))
	for i, p := range one.net.params {
		require.Equal(t, p.x.F32(), four.net.params[i].x.F32(), "parameter %d", i)
	}
}

// The written model, with the statistics of a batch, computes of that batch what the graph that trains does.
func TestWrittenModelIsTheNetwork(t *testing.T) {
	tr, x, labels := trained(t, 2)
	in, want := gather(x, labels, batchFrom(5))
	_, _, _, err := tr.pass(in, want, 1)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, writeModel(file, tr.net, 3))
	m, _, err := onnx.Open(file)
	require.NoError(t, err)
	defer m.Close()
	s, err := exec.New(m.Graph, exec.Options{})
	require.NoError(t, err)
	out, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"image": in}, nil)
	require.NoError(t, err)
	require.Equal(t, []int{batchSize, len(demo.Alphabet)}, out[0].Shape)
	loss, _, _, err := tr.pass(in, want, 0)
	require.NoError(t, err)
	var written float64
	for i, label := range want {
		row, sum := out[0].F32()[i*len(demo.Alphabet):][:len(demo.Alphabet)], 0.0
		for _, v := range row {
			sum += math.Exp(float64(v))
		}
		written += (math.Log(sum) - float64(row[label])) / batchSize
	}
	require.InDelta(t, loss, written, 1e-4*loss)
}

// A step along the negative gradient lowers the loss by as much as the gradient promises.
func TestGradientPredictsTheLoss(t *testing.T) {
	tr, x, labels := trained(t, 1)
	in, want := gather(x, labels, batchFrom(0))
	loss := func() float64 {
		l, _, _, err := tr.pass(in, want, 0)
		require.NoError(t, err)
		return l
	}
	_, _, list, err := tr.pass(in, want, 0)
	require.NoError(t, err)
	gradients := make([][]float32, len(list))
	for i, g := range list {
		gradients[i] = append([]float32{}, g.F32()...)
	}
	for i, p := range tr.net.params {
		var square float64
		for _, g := range gradients[i] {
			square += float64(g) * float64(g)
		}
		if square < 2e-3 { // so long a step meets kinks
			continue
		}
		const drop = 2e-4 // of the loss, along this parameter's gradient, half of it to either side
		step := float32(drop / 2 / square)
		move := func(s float32) {
			for k, g := range gradients[i] {
				p.x.F32()[k] += s * g
			}
		}
		move(step)
		up := loss()
		move(-2 * step)
		down := loss()
		move(step)
		require.InDelta(t, drop, up-down, 0.15*drop, "parameter %d of %d", i, len(tr.net.params))
	}
}
