package device

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
)

// chain is a run of elementwise operators, each of which alone reads what the one before computes: one kernel takes every element through
// them. The arithmetic is that of the single operators.
type chain struct {
	e      *emission
	x      operand // of the result's shape and layout
	links  []cuda.FloatLink
	others []*loc // by link, nil for functions of one number
}

func (e *emission) chainOf(x operand) *chain { return &chain{e: e, x: x} }

// one adds a function of one number.
func (c *chain) one(f function) {
	c.links, c.others = append(c.links, cuda.FloatLink{Function: f.f, A: f.a, B: f.b}), append(c.others, nil)
}

// two adds a function of the chain's number and another operand; left says that this is the left one.
func (c *chain) two(op cuda.FloatOperation, other operand, left bool) {
	_, steps := inMemory(c.x.shape, c.x.layout, aligned(other.shape, other.layout, len(c.x.shape), -1))
	c.links = append(c.links, cuda.FloatLink{Binary: true, Operation: op, Left: left, Step: steps[0]})
	c.others = append(c.others, other.loc)
}

// operations are the functions of two numbers that a chain goes on with.
var operations = map[string]cuda.FloatOperation{"Add": cuda.FloatAdd, "Sub": cuda.FloatSub, "Mul": cuda.FloatMul, "Div": cuda.FloatDiv}

// follow adds the nodes that follow, and returns the value that comes out.
func (c *chain) follow() valueID {
	e, p := c.e, c.e.p
	v := e.n.Outputs[0]
	for len(c.links) < cuda.FloatChainLinks && !p.s.opt.Unfused && !p.watched[v] && p.s.g.Opset("") >= 7 {
		use, sole := p.s.g.SoleUse(v)
		if !sole {
			break
		}
		n := p.s.g.Node(use.Node)
		if !n.IsONNX() || len(n.Outputs) != 1 || n.Outputs[0] == graph.NoValue {
			break
		}
		op, two := operations[n.Op]
		if two && len(n.Inputs) == 2 {
			w := n.Inputs[1-use.Index]
			if h := &p.vals[w]; !h.ready || h.dtype != tensor.Float32 || !tensor.Stretches(h.shape, c.x.shape) {
				break
			}
			c.two(op, e.operand(w, len(c.x.shape), c.x.layout), use.Index == 1)
		} else if f, ok := p.functionOf(n); ok && use.Index == 0 {
			c.one(f)
		} else {
			break
		}
		p.absorbed[use.Node] = true
		v = n.Outputs[0]
	}
	return v
}

// emit emits the chain with what follows it.
func (c *chain) emit() {
	result := c.follow()
	e, x := c.e, c.x
	dst := e.makeAs(result, tensor.Float32, x.shape, x.layout)
	if l := c.links[0]; len(c.links) == 1 && !l.Binary {
		e.launch(func(s *cuda.Stream, m *ports) error {
			return cuda.FloatUnary(s, l.Function, m.ptr(dst), m.ptr(x.loc), dst.bytes/4, l.A, l.B)
		}, dst, x.loc)
		return
	}
	sizes, _ := inMemory(x.shape, x.layout)
	f := cuda.FloatChain{Sizes: sizes, Links: c.links}
	e.launch(func(s *cuda.Stream, m *ports) error {
		others := make([]driver.Ptr, len(c.others))
		for k, l := range c.others {
			others[k] = m.ptr(l)
		}
		return f.Launch(s, m.ptr(dst), m.ptr(x.loc), others)
	}, slices.Concat([]*loc{dst, x.loc}, c.others)...)
}
