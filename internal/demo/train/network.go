package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/grad"
	"qwb/graph/tensor"
	"qwb/internal/demo"
)

// network is what is learnt: parameters in the order in which they were made, and by norm the running mean and variance of its channels.
type network struct {
	rng    *rand.Rand
	params []*parameter
	named  map[string]*parameter
	stats  map[string]*statistics
}

// parameter is a trained tensor and its momentum.
type parameter struct {
	x     *tensor.Tensor
	v     []float32
	decay bool
}

type statistics struct{ mean, variance []float32 }

func newNetwork(seed uint64) *network {
	return &network{rng: rand.New(rand.NewPCG(seed, 0)), named: map[string]*parameter{}, stats: map[string]*statistics{}}
}

// parameter returns the parameter of a name, made on first use.
func (n *network) parameter(name string, decay bool, initial func() float64, shape ...int) *parameter {
	if p, ok := n.named[name]; ok {
		return p
	}
	p := &parameter{x: tensor.New(tensor.Float32, shape...), decay: decay}
	p.v = make([]float32, p.x.Len())
	for i := range p.v {
		p.x.F32()[i] = float32(initial())
	}
	n.named[name] = p
	n.params = append(n.params, p)
	return p
}

// of returns the running statistics of a norm of c channels.
func (n *network) of(name string, c int) *statistics {
	if n.stats[name] == nil {
		n.stats[name] = &statistics{make([]float32, c), make([]float32, c)}
		for i := range c {
			n.stats[name].variance[i] = 1
		}
	}
	return n.stats[name]
}

// step is stochastic gradient descent with Nesterov momentum and weight decay.
func (n *network) step(rate float32, gradients []*tensor.Tensor) {
	const momentum, decay = 0.9, 1e-4
	for k, p := range n.params {
		for i, g := range gradients[k].F32() {
			x := p.x.F32()
			if p.decay {
				g += decay * x[i]
			}
			p.v[i] = momentum*p.v[i] + g
			x[i] -= rate * (g + momentum*p.v[i])
		}
	}
}

// forward writes what maps images to class scores: what quantizers meet in practice, a dense and a depthwise convolution, a residual Add,
// a Concat, ReLU6, HardSwish, pooling and Gemm.
func (b *builder) forward(x graph.ValueID) graph.ValueID {
	x = b.relu6("stem_relu6", b.conv("stem", x, 1, 16, 3, 1, 1))
	x = b.relu6("down_dw_relu6", b.conv("down_dw", x, 16, 16, 3, 16, 2))
	x = b.relu6("down_pw_relu6", b.conv("down_pw", x, 16, 32, 1, 1, 1))

	y := b.relu6("res_dw_relu6", b.conv("res_dw", x, 32, 32, 3, 32, 1))
	x = b.node("Add", "res_add", nil, x, b.conv("res_pw", y, 32, 32, 1, 1, 1))

	s := b.relu6("squeeze_relu6", b.conv("squeeze", x, 32, 16, 1, 1, 1))
	e1 := b.relu6("expand1_relu6", b.conv("expand1", s, 16, 24, 1, 1, 1))
	e3 := b.relu6("expand3_relu6", b.conv("expand3", s, 16, 24, 3, 1, 1))
	x = b.node("Concat", "concat", []graph.Attr{graph.Int("axis", 1)}, e1, e3)
	x = b.maxPool("pool1", x)

	x = b.node("HardSwish", "mix_swish", nil, b.conv("mix", x, 48, 64, 3, 1, 1))
	x = b.maxPool("pool2", x)
	x = b.node("HardSwish", "last_dw_swish", nil, b.conv("last_dw", x, 64, 64, 3, 64, 1))
	x = b.node("HardSwish", "last_pw_swish", nil, b.conv("last_pw", x, 64, 96, 1, 1, 1))
	x = b.node("GlobalAveragePool", "mean", nil, x)
	x = b.node("Flatten", "flatten", []graph.Attr{graph.Int("axis", 1)}, x)

	classes := len(demo.Alphabet)
	w := b.parameter("fc_weight", true, b.he(96), classes, 96)
	bias := b.parameter("fc_bias", false, func() float64 { return 0 }, classes)
	return b.node("Gemm", "fc", []graph.Attr{graph.Int("transB", 1)}, x, w, bias)
}

// trainer computes gradients of the mean cross-entropy of a batch.
type trainer struct {
	net     *network
	runner  *exec.Runner
	inputs  []string // names of the parameters
	norms   []string
	classes *tensor.Tensor
}

// newTrainer makes the graph that a step runs: forward with the statistics of the batch, the loss, and what package grad writes.
func newTrainer(net *network) (*trainer, error) {
	b := &builder{g: graph.New("train", 14), net: net, trains: true}
	x := b.input("image", batchSize, 1, demo.Size, demo.Size)
	target := b.input("target", batchSize, len(demo.Alphabet))
	scores := b.forward(x)
	log := b.node("LogSoftmax", "log", []graph.Attr{graph.Int("axis", 1)}, scores)
	sum := b.node("ReduceSum", "sum", []graph.Attr{graph.Int("keepdims", 0)}, b.node("Mul", "picked", nil, log, target))
	loss := b.node("Mul", "loss", nil, sum, b.constant("share", tensor.FromF32([]float32{-1.0 / batchSize})))
	if b.err != nil {
		return nil, b.err
	}
	if errs := graph.InferShapes(b.g); len(errs) > 0 {
		return nil, errs[0]
	}
	one := b.constant("one", tensor.FromF32([]float32{1}))
	gradients, err := grad.Add(b.g, map[graph.ValueID]graph.ValueID{loss: one}, b.learnt)
	if err != nil {
		return nil, err
	}
	b.g.Outputs = append(append([]graph.ValueID{loss, scores}, b.moments...), gradients...)
	t := &trainer{net: net, norms: b.norms, classes: tensor.New(tensor.Float32, batchSize, len(demo.Alphabet))}
	for _, v := range b.learnt {
		t.inputs = append(t.inputs, b.g.Value(v).Name)
	}
	s, err := exec.New(b.g, exec.Options{Threads: runtime.GOMAXPROCS(0)})
	if err != nil {
		return nil, err
	}
	t.runner = s.NewRunner()
	return t, nil
}

// pass computes the loss of a batch, how many scores are right, and the gradients of the parameters; the running statistics follow the
// batch's at a rate.
func (t *trainer) pass(images *tensor.Tensor, labels []int, rate float32) (loss float64, correct int, gradients []*tensor.Tensor,
	err error) {
	clear(t.classes.F32())
	for i, label := range labels {
		t.classes.F32()[i*t.classes.Shape[1]+label] = 1
	}
	feeds := map[string]*tensor.Tensor{"image": images, "target": t.classes}
	for i, name := range t.inputs {
		feeds[name] = t.net.params[i].x
	}
	out, err := t.runner.Run(context.Background(), feeds, nil)
	if err != nil {
		return 0, 0, nil, err
	}
	for i, name := range t.norms {
		s := t.net.of(name, 0)
		for k, to := range [2][]float32{s.mean, s.variance} {
			for c, v := range out[2+2*i+k].F32() {
				to[c] += rate * (v - to[c])
			}
		}
	}
	if loss = float64(out[0].F32()[0]); math.IsNaN(loss) {
		return 0, 0, nil, fmt.Errorf("the loss is not a number")
	}
	return loss, right(out[1], labels), out[2+2*len(t.norms):], nil
}

// right counts the samples whose largest score is that of their label.
func right(scores *tensor.Tensor, labels []int) (n int) {
	classes := scores.Shape[1]
	for i, label := range labels {
		x, best := scores.F32()[i*classes:][:classes], 0
		for c := range x {
			if x[c] > x[best] {
				best = c
			}
		}
		if best == label {
			n++
		}
	}
	return n
}
