package gpu

import (
	"context"
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
)

// island is a part of the graph in float.
type island struct {
	e  *engine
	op *lower.Island
}

// island makes a graph ready for inputs of given types, by name. It is for the host where some operator is.
func (e *engine) island(ctx context.Context, g *graph.Graph, types map[string]device.Type) (*device.Session, *device.Plan, error) {
	s, err := device.New(g, e.memory.dev, device.Options{Host: exec.Options{Threads: e.threads}, KeepLayout: true})
	if err != nil {
		return nil, nil, err
	}
	p, err := s.Prepare(ctx, types, nil)
	if err != nil { // where it is wrong, the reference says so too
		_ = s.Close()
		return nil, nil, hostUnless(err)
	}
	if host := p.OnHost(); len(host) > 0 {
		var why []string
		for _, h := range host {
			why = append(why, fmt.Sprintf("%s: %s", h.Op, h.Why))
		}
		_ = s.Close()
		return nil, nil, onlyHost(strings.Join(why, "; "))
	}
	return s, p, nil
}

func (c *island) prepare(ctx context.Context, s *step, in []*value) (*prepared, error) {
	g := c.op.Graph.Clone()
	p := &prepared{in: make([]layout, len(in)), out: make([]*output, len(g.Outputs))}
	number := map[string]int{} // of inputs that are not known, by name
	var inputs []graph.ValueID
	for k, v := range g.Inputs {
		if in[k].fixed && in[k].host != nil && !s.e.program.Tensors[s.Inputs[k]].Quantized() {
			g.SetConst(v, in[k].host)
			continue
		}
		inputs, number[g.Value(v).Name] = append(inputs, v), k
	}
	g.Inputs = inputs
	rest, err := c.known(ctx, p, g, in, number)
	if err != nil || len(rest) == 0 {
		return p, err
	}
	outputs := make([]graph.ValueID, len(rest))
	for i, k := range rest {
		outputs[i] = g.Outputs[k]
	}
	if g, err = graph.Extract(g, g.Inputs, outputs); err != nil {
		return p, err
	}
	types := map[string]device.Type{}
	var from []int // by input of g, which of the step
	for _, v := range g.Inputs {
		k := number[g.Value(v).Name]
		from = append(from, k)
		t := device.Type{DType: in[k].dtype, Shape: in[k].shape}
		if !s.shapeOnly[k] {
			p.in[k] = anyLayout
			if in[k].last && in[k].moved() {
				t.Layout = tensor.ChannelsLast
			}
		}
		types[g.Value(v).Name] = t
	}
	session, plan, err := c.e.island(ctx, g, types)
	if err != nil {
		return p, err
	}
	p.close = func() { _ = session.Close() }
	c.e.memory.keep(p)
	p.fault = plan.Fault
	for i, v := range plan.Outputs() {
		if v.Buffer.Ptr == 0 {
			return p, onlyHost("output " + g.Value(v.ID).Name + " is computed on the host")
		}
		p.out[rest[i]] = &output{dtype: v.DType, shape: v.Shape, last: v.Layout == tensor.ChannelsLast && len(v.Shape) > 2, alias: -1}
	}
	used, written := make([]cuda.Buffer, len(from)), make([]cuda.Buffer, len(rest))
	p.launch = func(st *cuda.Stream, in, out, _ []cuda.Buffer) error {
		for i, k := range from {
			used[i] = in[k]
		}
		for i, k := range rest {
			written[i] = out[k]
		}
		return plan.Launch(st, used, written)
	}
	return p, nil
}

// known computes the outputs that depend on nothing but constants and the shapes of inputs, and lists the others.
func (c *island) known(ctx context.Context, p *prepared, g *graph.Graph, in []*value, number map[string]int) (rest []int, err error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	fixed := map[graph.ValueID]bool{}
	for _, id := range order {
		n := g.Node(id)
		all := len(n.Subgraphs()) == 0
		for _, v := range n.Inputs {
			all = all && (v == graph.NoValue || fixed[v] || g.Const(v) != nil)
		}
		for _, v := range n.Outputs {
			fixed[v] = all || n.Op == "Shape" || n.Op == "Size"
		}
	}
	var outputs []graph.ValueID
	var at []int
	for k, v := range g.Outputs {
		if fixed[v] {
			outputs, at = append(outputs, v), append(at, k)
		} else {
			rest = append(rest, k)
		}
	}
	if len(outputs) == 0 {
		return rest, nil
	}
	part, err := graph.Extract(g, g.Inputs, outputs)
	if err != nil {
		return nil, err
	}
	session, err := exec.New(part, exec.Options{Context: ctx, Threads: c.e.threads})
	if err != nil {
		return nil, err
	}
	feeds := map[string]*tensor.Tensor{}
	for _, v := range part.Inputs {
		x := in[number[part.Value(v).Name]]
		feeds[part.Value(v).Name] = tensor.New(x.dtype, x.shape...)
	}
	out, err := session.NewRunner().Run(ctx, feeds, nil)
	if err != nil {
		return nil, err
	}
	for i, t := range out {
		p.out[at[i]] = &output{known: t.ToRowMajor(), alias: -1}
	}
	return rest, nil
}
