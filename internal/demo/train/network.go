package main

import (
	"math"
	"math/rand/v2"

	"qwb/internal/demo"
)

// network is a small classifier with what quantizers meet in practice: a dense and a depthwise convolution, a residual
// Add, a Concat, ReLU6, HardSwish, pooling and Gemm.
type network struct {
	rng    *rand.Rand
	params []*parameter
	norms  map[string]*norm
	convs  map[string]*parameter
	fc, fb *parameter
}

func newNetwork(seed uint64) *network {
	return &network{rng: rand.New(rand.NewPCG(seed, 0)), norms: map[string]*norm{}, convs: map[string]*parameter{}}
}

// weight returns the parameter called name, made on first use with He's initialization (He et al. 2015).
func (n *network) weight(name string, size, fanIn int) *parameter {
	if p, ok := n.convs[name]; ok {
		return p
	}
	p := newParameter(size, true)
	for i := range p.x {
		p.x[i] = float32(n.rng.NormFloat64() * math.Sqrt(2/float64(fanIn)))
	}
	n.convs[name] = p
	n.params = append(n.params, p)
	return p
}

func (n *network) bn(t *tape, name string, x *batch) *batch {
	b, ok := n.norms[name]
	if !ok {
		b = &norm{gamma: newParameter(x.c, false), beta: newParameter(x.c, false), mean: make([]float32, x.c), vari: make([]float32, x.c)}
		// Channels of one layer start with very different gains, as those of large mobile networks end up: scales per channel
		// have something to do.
		for i := range b.gamma.x {
			b.gamma.x[i], b.vari[i] = float32(math.Exp(n.rng.NormFloat64())), 1
		}
		n.norms[name] = b
		n.params = append(n.params, b.gamma, b.beta)
	}
	return t.norm(x, b)
}

func (n *network) conv(t *tape, name string, x *batch, m, k int) *batch {
	return n.bn(t, name, t.conv(x, n.weight(name, m*x.c*k*k, x.c*k*k), m, k))
}

func (n *network) depthwise(t *tape, name string, x *batch, stride int) *batch {
	return n.bn(t, name, t.depthwise(x, n.weight(name, x.c*9, 9), stride))
}

// forward maps images to class scores. writeModel in onnx.go has the same structure.
func (n *network) forward(t *tape, x *batch) *batch {
	x = t.relu6(n.conv(t, "stem", x, 16, 3))
	x = t.relu6(n.depthwise(t, "down_dw", x, 2))
	x = t.relu6(n.conv(t, "down_pw", x, 32, 1))

	y := t.relu6(n.depthwise(t, "res_dw", x, 1))
	x = t.add(x, n.conv(t, "res_pw", y, 32, 1))

	s := t.relu6(n.conv(t, "squeeze", x, 16, 1))
	x = t.concat(t.relu6(n.conv(t, "expand1", s, 24, 1)), t.relu6(n.conv(t, "expand3", s, 24, 3)))
	x = t.maxPool(x)

	x = t.hardSwish(n.conv(t, "mix", x, 64, 3))
	x = t.maxPool(x)
	x = t.hardSwish(n.depthwise(t, "last_dw", x, 1))
	x = t.hardSwish(n.conv(t, "last_pw", x, 96, 1))
	x = t.meanPool(x)

	classes := len(demo.Alphabet)
	if n.fc == nil {
		n.fc = n.weight("fc", classes*x.c, x.c)
		n.fb = newParameter(classes, false)
		n.params = append(n.params, n.fb)
	}
	return t.linear(x, n.fc, n.fb, classes)
}

// step is stochastic gradient descent with Nesterov momentum and weight decay; gradients are cleared.
func (n *network) step(rate float32) {
	const momentum, decay = 0.9, 1e-4
	for _, p := range n.params {
		for i := range p.x {
			g := p.g[i]
			if p.decay {
				g += decay * p.x[i]
			}
			p.v[i] = momentum*p.v[i] + g
			p.x[i] -= rate * (g + momentum*p.v[i])
			p.g[i] = 0
		}
	}
}
