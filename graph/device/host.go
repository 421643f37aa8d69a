package device

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

// hostStep is a node that package exec computes, as a graph of its own.
type hostStep struct {
	node   graph.NodeID
	why    string
	runner *exec.Runner
	in     []graph.ValueID // inputs of the graph: those of the node that are not known, and what its subgraphs read
	out    []graph.ValueID // its outputs
	upload []bool          // by output: somebody on the device reads it
}

// single returns the graph of one node. What is known is a constant in it.
func (p *Plan) single(id graph.NodeID) (*hostStep, error) {
	g := p.s.g
	n := g.Node(id)
	h := &hostStep{node: id}
	var in []graph.ValueID
	for _, v := range n.Inputs {
		if v != graph.NoValue && !slices.Contains(in, v) {
			in = append(in, v)
		}
	}
	for _, name := range n.CapturedNames() {
		if v, ok := g.Lookup(name); ok && !slices.Contains(in, v) {
			in = append(in, v)
		}
	}
	for _, v := range n.Outputs {
		if v != graph.NoValue {
			h.out = append(h.out, v)
		}
	}
	sub, err := graph.Extract(g, in, h.out)
	if err != nil {
		return nil, err
	}
	for i, v := range slices.Clone(sub.Inputs) {
		held := &p.vals[in[i]]
		if held.known != nil {
			sub.Inputs = slices.DeleteFunc(sub.Inputs, func(w graph.ValueID) bool { return w == v })
			sub.SetConst(v, held.known)
			continue
		}
		h.in = append(h.in, in[i])
		sub.Value(v).DType, sub.Value(v).Shape = held.dtype, graph.Static(held.shape...)
	}
	s, err := exec.New(sub, p.s.opt.Host)
	if err != nil {
		return nil, err
	}
	h.runner = s.NewRunner()
	h.upload = make([]bool, len(h.out))
	return h, nil
}

// once computes a node whose inputs are all known, and returns all its outputs, absent ones too.
func (s *Session) once(p *Plan, id graph.NodeID) ([]*tensor.Tensor, error) {
	h, err := p.single(id)
	if err != nil {
		return nil, err
	}
	got, err := h.runner.Run(p.ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	n := s.g.Node(id)
	out := make([]*tensor.Tensor, len(n.Outputs))
	for i, v := range n.Outputs {
		if k := slices.Index(h.out, v); v != graph.NoValue && k >= 0 {
			out[i] = got[k]
		}
	}
	return out, nil
}

// run computes the node: inputs that are not on the host are copied there, outputs that the device reads are copied back.
func (h *hostStep) run(ctx context.Context, p *Plan, s *cuda.Stream, m *ports, onHost []*tensor.Tensor) error {
	g := p.s.g
	feeds, wait := map[string]*tensor.Tensor{}, false
	for _, v := range h.in {
		if onHost[v] == nil {
			held := &p.vals[v]
			t := &tensor.Tensor{DType: held.dtype, Layout: held.layout, Shape: held.shape,
				Data: tensor.MakeData(held.dtype, tensor.Count(held.shape))}
			if err := s.Download(bytesOf(t.Data), m.at(held.loc)); err != nil {
				return err
			}
			onHost[v], wait = t, true
		}
	}
	if wait {
		if err := s.Synchronize(); err != nil {
			return err
		}
	}
	for _, v := range h.in {
		onHost[v] = onHost[v].ToRowMajor()
		feeds[g.Value(v).Name] = onHost[v]
	}
	out, err := h.runner.Run(ctx, feeds, nil)
	if err != nil {
		return err
	}
	for i, v := range h.out {
		held := &p.vals[v]
		if out[i].DType != held.dtype || !slices.Equal(out[i].Shape, held.shape) {
			return g.ErrorAt("execute", h.node, fmt.Errorf("output %q is %s, not %s", g.Value(v).Name, out[i].Type(),
				tensor.TypeString(held.dtype, held.shape)))
		}
		onHost[v] = out[i]
		if h.upload[i] {
			if err := s.Upload(m.at(held.loc), bytesOf(out[i].Data)); err != nil {
				return err
			}
		}
	}
	return nil
}
