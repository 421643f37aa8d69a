// Command train makes the model of `qwb demo`: it draws glyphs, trains a small network on them and writes it as ONNX.
//
//	go run ./internal/demo/train -o internal/demo/glyphs.onnx
//
// The same flags give the same file on the same kind of machine, whatever the number of cores.
package main

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

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

const batchSize = 64

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
	order := rand.New(rand.NewPCG(seed, 1))
	steps, done := epochs*(images/batchSize), 0
	for epoch := range epochs {
		perm := order.Perm(images)
		var loss float64
		correct := 0
		for b := 0; b+batchSize <= images; b += batchSize {
			in, want := gather(x, labels, perm[b:b+batchSize])
			t := &tape{train: true}
			logits := net.forward(t, in)
			l, c := crossEntropy(logits, want)
			t.back()
			net.step(float32(0.05 * (1 + math.Cos(math.Pi*float64(done)/float64(steps)))))
			loss, correct, done = loss+l, correct+c, done+1
		}
		n := images / batchSize
		fmt.Fprintf(os.Stderr, "epoch %2d: loss %.4f, training %.2f %%, held out %.2f %%\n", epoch+1, loss/float64(n),
			100*float64(correct)/float64(n*batchSize), 100*accuracy(net, testX, testLabels))
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

func gather(x []float32, labels []int, indices []int) (*batch, []int) {
	in, want := newBatch(len(indices), 1, demo.Size, demo.Size), make([]int, len(indices))
	for i, k := range indices {
		copy(in.sample(in.x, i), in.sample(x, k))
		want[i] = labels[k]
	}
	return in, want
}

func accuracy(net *network, x []float32, labels []int) float64 {
	correct := 0
	for lo := 0; lo < len(labels); lo += batchSize {
		indices := make([]int, min(batchSize, len(labels)-lo))
		for i := range indices {
			indices[i] = lo + i
		}
		in, want := gather(x, labels, indices)
		_, c := crossEntropy(net.forward(&tape{}, in), want)
		correct += c
	}
	return float64(correct) / float64(len(labels))
}
