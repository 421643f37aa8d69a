package verify

import (
	"context"
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// computer runs graphs of the second computation. Several goroutines may use one.
type computer struct {
	ctx     context.Context
	threads int
	step    *prepared // what samples of one step share; nil: there is one sample
}

// runner prepares a graph. wide asks for sums in float64.
func (c *computer) runner(g *graph.Graph, wide bool) (*exec.Runner, error) {
	session, err := exec.New(g, exec.Options{Threads: c.threads, Float64: wide})
	if err != nil {
		return nil, err
	}
	return session.NewRunner(), nil
}

// alone returns a graph of one node with the attributes that keep holds, for inputs of the given shapes; a constant one is given by
// its tensor. Inputs are named by their index.
func alone(from *graph.Graph, n *graph.Node, inputs []*tensor.Tensor, constant []bool, keep func(name string) bool) (*graph.Graph, error) {
	g := graph.New(n.Name, from.Opset(""))
	g.Opsets = append([]graph.Opset(nil), from.Opsets...)
	node := graph.Node{Name: n.Name, Op: n.Op, Domain: n.Domain}
	for _, a := range n.Attrs {
		if keep == nil || keep(a.Name) {
			node.Attrs = append(node.Attrs, a)
		}
	}
	for i, t := range inputs {
		switch {
		case t == nil:
			node.Inputs = append(node.Inputs, graph.NoValue)
		case constant[i]:
			node.Inputs = append(node.Inputs, g.AddConst(fmt.Sprint(i), t))
		default:
			v, err := g.AddValue(graph.Value{Name: fmt.Sprint(i), DType: t.DType, Shape: graph.Static(t.Shape...)})
			if err != nil {
				return nil, err
			}
			g.Inputs, node.Inputs = append(g.Inputs, v), append(node.Inputs, v)
		}
	}
	for k, v := range n.Outputs {
		if v == graph.NoValue {
			node.Outputs = append(node.Outputs, v)
			continue
		}
		out, err := g.AddValue(graph.Value{Name: fmt.Sprintf("out%d", k), DType: from.Value(v).DType})
		if err != nil {
			return nil, err
		}
		g.Outputs, node.Outputs = append(g.Outputs, out), append(node.Outputs, out)
	}
	_, err := g.AddNode(node)
	return g, err
}

// sums are exact accumulators: that of channel c, at i within it, is acc[(o*channels+c)*inner+i].
type sums struct {
	acc   []float64
	shape []int
	inner int
	// off is how far an accumulator may be off, relative to it: 0 but for sums of too many terms.
	off float64
}

// accumulate computes the sums of products of a step, without bias.
func (l *linear) accumulate(c *computer, in []*tensor.Tensor) (*sums, error) {
	p := c.step
	var rightShape []int
	if l.weights != nil {
		if rightShape = l.weights.shape; p == nil || p.weights != l.weights {
			p = &prepared{}
			p.cut(l)
		}
	} else {
		right := in[1].Integers()
		rightShape = in[1].Shape
		for i := range right {
			right[i] -= l.w.ZeroPoint
		}
		terms := float64(l.terms(in[0].Shape))
		reach := int32(0)
		eachBlock(in[0], func(_ int, codes []int32) {
			for _, q := range codes {
				reach = max(reach, q-l.x.ZeroPoint, l.x.ZeroPoint-q)
			}
		})
		p = &prepared{}
		p.digits(reach, right, func(d *digit) float64 { return d.largest() * terms })
	}
	s, err := l.multiply(c, p, cutCodes(in[0], l.x.ZeroPoint, p.wide), in[0].Shape, rightShape)
	if err == nil && !p.exact {
		s.off = 0x1p-23
	}
	return s, err
}

// terms is how many products are added in a product of two tensors.
func (l *linear) terms(left []int) int {
	axis := len(left) - 1
	if l.node.Gemm().TransA {
		axis = 0
	}
	if axis < 0 {
		return 1
	}
	return left[axis]
}

// multiply runs the node alone on every pair of digits.
func (l *linear) multiply(c *computer, p *prepared, a []digit, left, right []int) (*sums, error) {
	var s *sums
	for j := range p.right {
		run, err := p.runner(c, l, j, left, right)
		if err != nil {
			return nil, err
		}
		for i := range a {
			feeds := map[string]*tensor.Tensor{"0": tensor.FromF32(a[i].values, left...)}
			if l.weights == nil {
				feeds["1"] = tensor.FromF32(p.right[j].values, right...)
			}
			out, err := run.Run(c.ctx, feeds, nil)
			if err != nil {
				return nil, err
			}
			if s == nil {
				s = &sums{acc: make([]float64, out[0].Len()), shape: out[0].Shape, inner: 1}
			}
			unit := float64(int64(1) << (a[i].shift + p.right[j].shift))
			for k, v := range out[0].F32() {
				s.acc[k] += unit * float64(v)
			}
		}
		p.giveBack(j, left, run)
	}
	if graph.Slides(l.node.Op) {
		for _, n := range s.shape[2:] {
			s.inner *= n
		}
	}
	return s, nil
}

// runs calls f with the bounds of every run of accumulators of one output channel, in the tables of l.
func (s *sums) runs(l *linear, f func(channel, from, to int)) {
	of, channels := s.of(l), l.channels()
	for from := 0; from < len(s.acc); from += s.inner {
		f(from/s.inner%of%channels, from, from+s.inner)
	}
}

// of is how many channels the output has.
func (s *sums) of(l *linear) int {
	switch {
	case graph.Slides(l.node.Op):
		return s.shape[1]
	case len(l.node.Inputs) > 1 && len(l.g.Value(l.node.Inputs[1]).Shape) == 1: // a column: one channel
		return 1
	}
	return s.shape[len(s.shape)-1]
}

// channel returns the output channel of an accumulator, in the tables of l.
func (s *sums) channel(l *linear) func(i int) int {
	of, channels := s.of(l), l.channels()
	return func(i int) int { return i / s.inner % of % channels }
}

// exact computes what the step should write.
func (l *linear) exact(c *computer, in []*tensor.Tensor) ([]*exact, error) {
	s, err := l.accumulate(c, in)
	if err != nil {
		return nil, err
	}
	channel := s.channel(l)
	real := make([]float64, len(s.acc))
	factor, bias := make([]float64, l.channels()), make([]float64, l.channels())
	for k := range factor {
		factor[k] = float64(l.x.Scale) * float64(l.factor(k))
		if l.float != nil {
			bias[k] = float64(l.float[k])
		}
	}
	s.runs(l, func(k, from, to int) {
		acc, real := s.acc[from:to], real[from:to]
		if l.bias != nil {
			for i := range acc {
				acc[i] += float64(l.bias[k])
			}
		}
		for i, a := range acc {
			real[i] = float64(a*factor[k]) + bias[k]
		}
	})
	residual := func(int) float64 { return 0 }
	if l.skip != nil {
		codes := in[len(in)-1].Integers()
		if len(codes) != len(real) {
			return nil, fmt.Errorf("a residual of %d elements for %d", len(codes), len(real))
		}
		residual = func(i int) float64 { return float64(codes[i]-l.skip.ZeroPoint) * float64(l.skip.Scale) }
		for i := range real {
			real[i] += residual(i)
		}
	}
	size := func(i int) float64 { // the magnitudes that were added
		k := channel(i)
		return math.Abs(s.acc[i]*factor[k]) + math.Abs(bias[k]) + math.Abs(residual(i))
	}
	return l.finish(c, s, real, size, channel)
}
