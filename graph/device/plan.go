package device

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
)

// Plan is a graph for one set of input shapes: a list of steps, most of them launches of kernels, and the places of all values.
type Plan struct {
	s       *Session
	ctx     context.Context // while the plan is made
	types   []Type
	watched []bool // by value
	steps   []step
	vals    []held // by value
	// absorbed marks nodes that an earlier one computes as well.
	absorbed []bool
	locs     []*loc
	ports    ports // own memory of inputs and outputs
	arena    cuda.Buffer
	bytes    int
	faults   *loc // a word that kernels set when an index was outside of its axis
	hosts    []*hostStep
	tables   []cuda.Buffer // constants of the plan's own
	failed   error         // the first upload that failed
}

// step is one thing that happens in a run: exactly one of its fields is set.
type step struct {
	node   graph.NodeID
	launch func(s *cuda.Stream, m *ports) error
	host   *hostStep
	tap    graph.ValueID // where neither is set
}

// place says where a value lies.
type place uint8

const (
	inArena place = iota
	constant
	asInput  // the plan's buffer of a graph input, or the caller's
	asOutput // the same of an output
)

// loc is a range of device memory that becomes an address when a plan is launched.
type loc struct {
	place        place
	bytes        int
	at           cuda.Buffer // of a constant
	port         int         // of an input or output
	offset       int         // in the arena
	birth, death int         // the first and last step that uses it
}

// ports is the memory of a run: arena, inputs, outputs.
type ports struct {
	arena   cuda.Buffer
	in, out []cuda.Buffer
}

// at returns where l lies in a run.
func (m *ports) at(l *loc) cuda.Buffer {
	switch l.place {
	case constant:
		return l.at
	case asInput:
		return m.in[l.port].Slice(0, l.bytes)
	case asOutput:
		return m.out[l.port].Slice(0, l.bytes)
	}
	return m.arena.Slice(l.offset, l.bytes)
}

// ptr is the address of l, 0 of nil.
func (m *ports) ptr(l *loc) driver.Ptr {
	if l == nil {
		return 0
	}
	return m.at(l).Ptr
}

// held is what a plan knows of a value.
type held struct {
	dtype tensor.DType
	shape []int
	// known holds the elements of what follows from constants and shapes, row-major.
	known  *tensor.Tensor
	layout tensor.Layout
	loc    *loc // nil where it is not on the device
	alt    *loc // the same elements in the other layout
	host   bool // there is a copy on the host in a run, row-major: a graph input, or what a host step computed
	maker  *hostStep
	index  int // among the outputs of maker
	ready  bool
}

// HostOp is an operator of a plan that is computed on the host.
type HostOp struct {
	Domain string   `json:"domain,omitempty"`
	Op     string   `json:"op"`
	Why    string   `json:"why"`
	Nodes  []string `json:"nodes"`
}

// OnHost lists the operators that are computed on the host, with the reasons, in the order of their first nodes.
func (p *Plan) OnHost() []HostOp {
	var list []HostOp
	for _, h := range p.hosts {
		n := p.s.g.Node(h.node)
		i := slices.IndexFunc(list, func(o HostOp) bool { return o.Op == n.Op && o.Domain == n.Domain && o.Why == h.why })
		if i < 0 {
			i = len(list)
			list = append(list, HostOp{Domain: n.Domain, Op: n.Op, Why: h.why})
		}
		list[i].Nodes = append(list[i].Nodes, n.Name)
	}
	return list
}

// Bytes is the device memory of the plan: activations and its own inputs and outputs. Constants belong to the session.
func (p *Plan) Bytes() int { return p.bytes }

// Steps is how many steps a run has.
func (p *Plan) Steps() int { return len(p.steps) }

// outLayout is how graph output v lies.
func (p *Plan) outLayout(v graph.ValueID) tensor.Layout {
	if p.s.opt.KeepLayout {
		return p.vals[v].layout
	}
	return tensor.RowMajor
}

// Inputs returns the graph inputs, in the graph's order and laid out as their types say, where the plan keeps them. An input that is a
// constant and was left out of the types, and one that is not on the device, have no buffer.
func (p *Plan) Inputs() []Value {
	list := make([]Value, len(p.s.g.Inputs))
	for i, v := range p.s.g.Inputs {
		list[i] = Value{ID: v, DType: p.vals[v].dtype, Shape: p.vals[v].shape, Layout: p.vals[v].layout, Buffer: p.ports.in[i]}
	}
	return list
}

// Outputs returns the graph outputs, in the graph's order and row-major unless layouts are kept, where the plan puts them. One that is
// computed on the host has no buffer.
func (p *Plan) Outputs() []Value {
	list := make([]Value, len(p.s.g.Outputs))
	for i, v := range p.s.g.Outputs {
		list[i] = Value{ID: v, DType: p.vals[v].dtype, Shape: p.vals[v].shape, Layout: p.outLayout(v), Buffer: p.ports.out[i]}
	}
	return list
}

// Launch puts a run on a stream: nothing is allocated, copied from or to the host or waited for, so that it can be captured in a graph.
// in and out are the buffers of inputs and outputs in the order of the graph; an empty one, or a list that is nil, stands for the
// plan's own. All operators have to be on the device. Runs of one plan share its arena: the next may only start after this one.
//
// An index outside of its axis (Gather) reads another element and is reported by Fault.
func (p *Plan) Launch(s *cuda.Stream, in, out []cuda.Buffer) error {
	if len(p.hosts) > 0 {
		n := p.s.g.Node(p.hosts[0].node)
		return fmt.Errorf("device: node %q (%s) is computed on the host: %s", n.Name, n.Op, p.hosts[0].why)
	}
	m, err := p.bind(in, out)
	if err != nil {
		return err
	}
	if err := p.clearFault(s, m); err != nil {
		return err
	}
	for i := range p.steps {
		if st := &p.steps[i]; st.launch != nil {
			if err := st.launch(s, m); err != nil {
				return p.s.g.ErrorAt("execute", st.node, err)
			}
		}
	}
	return nil
}

// bind returns the memory of a run on the caller's buffers.
func (p *Plan) bind(in, out []cuda.Buffer) (*ports, error) {
	m := &ports{arena: p.arena, in: slices.Clone(p.ports.in), out: slices.Clone(p.ports.out)}
	for _, side := range []struct {
		name      string
		own, from []cuda.Buffer
		ids       []graph.ValueID
	}{{"input", m.in, in, p.s.g.Inputs}, {"output", m.out, out, p.s.g.Outputs}} {
		if side.from != nil && len(side.from) != len(side.own) {
			return nil, fmt.Errorf("device: %d buffers for %d %ss", len(side.from), len(side.own), side.name)
		}
		for i, b := range side.from {
			if b.Ptr == 0 {
				continue
			}
			v := &p.vals[side.ids[i]]
			if n := tensor.Count(v.shape) * sizeOf(v.dtype); b.Bytes < n {
				return nil, fmt.Errorf("device: a buffer of %d bytes for %s %q of %d", b.Bytes, side.name, p.s.g.Value(side.ids[i]).Name, n)
			}
			side.own[i] = b
		}
	}
	return m, nil
}

func (p *Plan) clearFault(s *cuda.Stream, m *ports) error {
	if p.faults == nil {
		return nil
	}
	return s.Fill(m.at(p.faults), 0)
}

// Fault reports whether an index was outside of its axis in the run that s has done last. It waits for s.
func (p *Plan) Fault(s *cuda.Stream) error {
	if p.faults == nil {
		return s.Synchronize()
	}
	var word [4]byte
	if err := s.Download(word[:], (&ports{arena: p.arena}).at(p.faults)); err != nil {
		return err
	}
	if err := s.Synchronize(); err != nil {
		return err
	}
	if word != [4]byte{} {
		return errors.New("device: an index is outside of its axis")
	}
	return nil
}

func (p *Plan) free() {
	for _, b := range append(append([]cuda.Buffer{p.arena}, p.ports.in...), p.ports.out...) {
		if b.Ptr != 0 {
			p.s.dev.Free(b)
		}
	}
	for _, b := range p.tables {
		p.s.dev.Free(b)
	}
	p.arena, p.ports, p.tables = cuda.Buffer{}, ports{}, nil
}

// run is Session.Run.
func (p *Plan) run(ctx context.Context, feeds map[string]*tensor.Tensor, taps *Taps) ([]*tensor.Tensor, error) {
	outs, err := p.runOn(ctx, p.s.stream, feeds, taps)
	if err != nil { // what is under way reads memory of the caller
		return nil, errors.Join(err, p.s.stream.Synchronize())
	}
	return outs, nil
}

func (p *Plan) runOn(ctx context.Context, s *cuda.Stream, feeds map[string]*tensor.Tensor, taps *Taps) ([]*tensor.Tensor, error) {
	g := p.s.g
	m := &ports{arena: p.arena, in: p.ports.in, out: p.ports.out}
	onHost := make([]*tensor.Tensor, g.NumValues())
	for i, v := range g.Inputs {
		t := feeds[g.Value(v).Name]
		if t == nil {
			continue
		}
		onHost[v] = t.ToRowMajor()
		if b := p.ports.in[i]; b.Ptr != 0 {
			if err := s.Upload(b, bytesOf(onHost[v].Data)); err != nil {
				return nil, fmt.Errorf("input %q: %w", g.Value(v).Name, err)
			}
		}
	}
	if err := p.clearFault(s, m); err != nil {
		return nil, err
	}
	for i := range p.steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		st := &p.steps[i]
		switch {
		case st.launch != nil:
			if err := st.launch(s, m); err != nil {
				return nil, g.ErrorAt("execute", st.node, err)
			}
		case st.host != nil:
			if err := st.host.run(ctx, p, s, m, onHost); err != nil {
				return nil, err
			}
		default:
			if err := taps.Tap(s, p.value(st.tap, m)); err != nil {
				return nil, err
			}
		}
	}
	outs := make([]*tensor.Tensor, len(g.Outputs))
	for i, v := range g.Outputs {
		h := &p.vals[v]
		switch {
		case h.known != nil:
			outs[i] = h.known.Clone()
		case onHost[v] != nil:
			outs[i] = onHost[v].Clone()
		default:
			outs[i] = tensor.New(h.dtype, slices.Clone(h.shape)...)
			if err := s.Download(bytesOf(outs[i].Data), m.out[i]); err != nil {
				return nil, err
			}
		}
	}
	return outs, p.Fault(s)
}

// value returns v as a tap sees it.
func (p *Plan) value(v graph.ValueID, m *ports) Value {
	h := &p.vals[v]
	return Value{ID: v, DType: h.dtype, Shape: h.shape, Layout: h.layout, Buffer: m.at(h.loc)}
}

// align is where buffers begin.
const align = 256

// arrange gives every range of the arena its offset: the largest first, each at the lowest offset where it is free from birth to death.
func (p *Plan) arrange() int {
	var list []*loc
	for _, l := range p.locs {
		if l.place == inArena && l.death >= 0 {
			list = append(list, l)
		}
	}
	arrange.Stable(list, func(a, b *loc) int { return b.bytes - a.bytes })
	padded := func(l *loc) int { return (max(l.bytes, 1) + align - 1) / align * align }
	var placed []*loc // by offset
	size := 0
	for _, l := range list {
		at := 0
		for _, o := range placed {
			if o.death < l.birth || l.death < o.birth {
				continue
			}
			if at+padded(l) <= o.offset {
				break
			}
			at = max(at, o.offset+padded(o))
		}
		l.offset = at
		k, _ := slices.BinarySearchFunc(placed, at, func(o *loc, at int) int { return o.offset - at })
		placed = slices.Insert(placed, k, l)
		size = max(size, at+padded(l))
	}
	return size
}
