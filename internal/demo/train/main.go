// Command train makes the model of `qwb demo`: it draws glyphs, trains a small network on them and writes it as ONNX.
//
//	go run ./internal/demo/train -o internal/demo/glyphs.onnx
//
// The same flags give the same file on the same kind of machine, whatever the number of cores.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/demo"
)

func main() {
	seed := flag.Uint64("seed", 1, "seed of weights, order and training images")
	images := flag.Int("images", 20000, "number of training images")
	epochs := flag.Int("epochs", 7, "passes over the images")
	out := flag.String("o", "glyphs.onnx", "file to write")
	flag.Parse()
	if err := run(*seed, *images, *epochs, *out); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

const (
	batchSize      = 64
	statisticsRate = 0.1 // of the running statistics, a batch
)

func run(seed uint64, images, epochs int, out string) error {
	x, labels, err := shoot(demo.Training, seed, images)
	if err != nil {
		return err
	}
	testX, testLabels, err := shoot(demo.HeldOut, seed, 2000)
	if err != nil {
		return err
	}
	net := newNetwork(seed)
	t, err := newTrainer(net)
	if err != nil {
		return err
	}
	order := rand.New(rand.NewPCG(seed, 1))
	steps, done := epochs*(images/batchSize), 0
	for epoch := range epochs {
		perm := order.Perm(images)
		var loss float64
		correct := 0
		for b := 0; b+batchSize <= images; b += batchSize {
			in, want := gather(x, labels, perm[b:b+batchSize])
			l, c, gradients, err := t.pass(in, want, statisticsRate)
			if err != nil {
				return err
			}
			net.step(float32(0.05*(1+math.Cos(math.Pi*float64(done)/float64(steps)))), gradients)
			loss, correct, done = loss+l, correct+c, done+1
		}
		held, err := accuracy(net, testX, testLabels)
		if err != nil {
			return err
		}
		n := images / batchSize
		fmt.Fprintf(os.Stderr, "epoch %2d: loss %.4f, training %.2f %%, held out %.2f %%\n", epoch+1, loss/float64(n),
			100*float64(correct)/float64(n*batchSize), 100*held)
	}
	return writeModel(out, net, seed)
}

// shoot draws n images of a series.
func shoot(series demo.Series, seed uint64, n int) ([]float32, []int, error) {
	camera := demo.NewCamera()
	const pixels = demo.Size * demo.Size
	x, labels := make([]float32, n*pixels), make([]int, n)
	for i := range n {
		img, class := camera.Shot(series, seed, i)
		labels[i] = class
		copy(x[i*pixels:], img)
	}
	return x, labels, nil
}

func gather(x []float32, labels []int, indices []int) (*tensor.Tensor, []int) {
	const pixels = demo.Size * demo.Size
	in, want := tensor.New(tensor.Float32, len(indices), 1, demo.Size, demo.Size), make([]int, len(indices))
	for i, k := range indices {
		copy(in.F32()[i*pixels:][:pixels], x[k*pixels:])
		want[i] = labels[k]
	}
	return in, want
}

func accuracy(net *network, x []float32, labels []int) (float64, error) {
	g, err := inference(net)
	if err != nil {
		return 0, err
	}
	s, err := exec.New(g, exec.Options{Threads: runtime.GOMAXPROCS(0)})
	if err != nil {
		return 0, err
	}
	r, correct := s.NewRunner(), 0
	for lo := 0; lo < len(labels); lo += batchSize {
		indices := make([]int, min(batchSize, len(labels)-lo))
		for i := range indices {
			indices[i] = lo + i
		}
		in, want := gather(x, labels, indices)
		out, err := r.Run(context.Background(), map[string]*tensor.Tensor{"image": in}, nil)
		if err != nil {
			return 0, err
		}
		correct += right(out[0], want)
	}
	return float64(correct) / float64(len(labels)), nil
}
