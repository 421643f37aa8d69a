package device

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

// onHost is the reason why a node is computed on the host: emitters return it before they have emitted anything.
type onHost string

func (r onHost) Error() string { return string(r) }

// plan makes the plan for inputs of the given types.
func (s *Session) plan(ctx context.Context, types []Type, watched []bool) (p *Plan, err error) {
	p = &Plan{s: s, ctx: ctx, types: slices.Clone(types), watched: watched, vals: make([]held, s.g.NumValues()),
		absorbed: make([]bool, s.g.NumNodes())}
	made := p // what is returned is nil by then
	defer func() {
		if err != nil {
			made.free()
		}
	}()
	whole := bound(s.g, types)
	if err := p.begin(); err != nil {
		return nil, err
	}
	for _, id := range s.order {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.node(id, whole); err != nil {
			var at *graph.NodeError
			if !errors.As(err, &at) {
				err = p.fail(id, err)
			}
			return nil, err
		}
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	p.ctx = nil
	return p, nil
}

// fail wraps err with the node and the types of its inputs in this plan.
func (p *Plan) fail(id graph.NodeID, err error) error {
	n := p.s.g.Node(id)
	e := &graph.NodeError{Stage: "prepare", Node: n.Name, Op: n.Op, Err: err}
	for _, v := range n.Inputs {
		if v == graph.NoValue {
			e.Types = append(e.Types, "absent")
			continue
		}
		e.Types = append(e.Types, tensor.TypeString(p.vals[v].dtype, p.vals[v].shape))
	}
	return e
}

// begin puts constants and inputs in place.
func (p *Plan) begin() error {
	g := p.s.g
	for _, v := range g.Values() {
		if t := g.Const(v); t != nil {
			p.vals[v] = held{dtype: t.DType, shape: t.Shape, known: t.ToRowMajor(), ready: true}
			p.s.stable[p.vals[v].known] = true
		}
	}
	p.ports.in, p.ports.out = make([]cuda.Buffer, len(g.Inputs)), make([]cuda.Buffer, len(g.Outputs))
	for i, v := range g.Inputs {
		t := p.types[i]
		if t.Shape == nil && g.Const(v) != nil { // a constant that was left out
			continue
		}
		if slices.ContainsFunc(t.Shape, func(n int) bool { return n < 0 }) {
			return fmt.Errorf("input %q of shape %v", g.Value(v).Name, t.Shape)
		}
		shape := append([]int{}, t.Shape...)
		p.vals[v] = held{dtype: t.DType, shape: shape, host: true, ready: true}
		if !sameOrder(shape) {
			p.vals[v].layout = t.Layout
		}
		size := sizeOf(t.DType)
		if size == 0 {
			continue
		}
		bytes := size * tensor.Count(shape)
		p.vals[v].loc = &loc{place: asInput, port: i, bytes: bytes}
		var err error
		if p.ports.in[i], err = p.alloc(bytes); err != nil {
			return err
		}
		p.look(v)
	}
	return nil
}

func (p *Plan) alloc(bytes int) (cuda.Buffer, error) {
	p.bytes += bytes
	return p.s.dev.Alloc(max(bytes, 1))
}

// look adds the step in which a tap sees v, if one does.
func (p *Plan) look(v graph.ValueID) {
	if h := &p.vals[v]; p.watched[v] && sizeOf(h.dtype) > 0 {
		l := p.onDevice(v)
		p.uses(l)
		p.steps = append(p.steps, step{tap: v})
	}
}

// node emits one node.
func (p *Plan) node(id graph.NodeID, whole *graph.Graph) error {
	n := p.s.g.Node(id)
	if p.absorbed[id] {
		if v := n.Outputs[0]; p.vals[v].ready {
			p.look(v)
		}
		return nil
	}
	known, err := p.known(id)
	if err != nil {
		return err
	}
	if known != nil {
		for i, v := range n.Outputs {
			if v != graph.NoValue {
				t := known[i]
				p.vals[v] = held{dtype: t.DType, shape: t.Shape, known: t, ready: true}
				p.look(v)
			}
		}
		return nil
	}
	types, err := p.outputs(n, whole)
	if err != nil {
		return err
	}
	e := &emission{p: p, n: n, id: id, out: types, opset: p.s.g.Opset(n.Domain)}
	before := len(p.steps)
	err = e.emit()
	var why onHost
	if errors.As(err, &why) {
		if len(p.steps) != before {
			return fmt.Errorf("emitted work and then refused: %w", err)
		}
		return p.hostNode(id, string(why), types)
	}
	if err != nil {
		return err
	}
	for _, v := range n.Outputs {
		if v != graph.NoValue && p.vals[v].ready { // what is not was computed together with what follows
			p.look(v)
		}
	}
	return nil
}

// hostNode lets the host compute a node.
func (p *Plan) hostNode(id graph.NodeID, why string, types []outType) error {
	h, err := p.single(id)
	if err != nil {
		return err
	}
	h.why = why
	for _, v := range h.in {
		held := &p.vals[v]
		if held.host {
			continue
		}
		if held.loc == nil {
			return fmt.Errorf("value %q is not on the device", p.s.g.Value(v).Name)
		}
		held.loc.death = len(p.steps)
		held.host = true
	}
	at := 0
	for i, v := range p.s.g.Node(id).Outputs {
		if v != graph.NoValue {
			p.vals[v] = held{dtype: types[i].dtype, shape: types[i].shape, host: true, maker: h, index: at, ready: true}
			at++
		}
	}
	p.hosts = append(p.hosts, h)
	p.steps = append(p.steps, step{node: id, host: h})
	for _, v := range h.out {
		if p.watched[v] {
			p.look(v)
		}
	}
	return nil
}

// onDevice returns where v lies on the device, in its own layout; a value that is on the host is copied there by the step that made it.
func (p *Plan) onDevice(v graph.ValueID) *loc {
	h := &p.vals[v]
	switch {
	case h.loc != nil:
	case h.known != nil:
		h.loc = p.constant(h.known, rowMajor)
	case h.maker != nil && sizeOf(h.dtype) > 0:
		h.loc = p.temp(sizeOf(h.dtype) * tensor.Count(h.shape))
		h.loc.birth = slices.IndexFunc(p.steps, func(st step) bool { return st.host == h.maker })
		h.maker.upload[h.index] = true
	}
	return h.loc
}

// temp returns new memory in the arena that is in use from the next step on.
func (p *Plan) temp(bytes int) *loc {
	l := &loc{bytes: bytes, birth: len(p.steps), death: -1}
	p.locs = append(p.locs, l)
	return l
}

// uses says that the next step reads or writes what lies there.
func (p *Plan) uses(list ...*loc) {
	for _, l := range list {
		if l != nil {
			l.death = max(l.death, len(p.steps))
		}
	}
}

// constKey names what was uploaded: a tensor, and what was made of it before.
type constKey struct {
	t    *tensor.Tensor
	form string
}

// form makes bytes of a constant.
type form struct {
	name  string
	bytes func(t *tensor.Tensor) []byte
}

var rowMajor = form{"", func(t *tensor.Tensor) []byte { return bytesOf(t.Data) }}

// constant uploads a constant in some form, once for all plans of the session unless it follows from shapes. A failure shows as a nil
// loc and in p.failed.
func (p *Plan) constant(t *tensor.Tensor, f form) *loc {
	if !p.s.stable[t] {
		return p.table(f.bytes(t))
	}
	key := constKey{t, f.name}
	b, ok := p.s.constants[key]
	if !ok {
		data := f.bytes(t)
		var err error
		if b, err = p.upload(data); err != nil {
			p.failed = errors.Join(p.failed, err)
			return nil
		}
		p.s.constants[key] = b
	}
	return &loc{place: constant, at: b, bytes: b.Bytes}
}

// table uploads numbers that belong to this plan.
func (p *Plan) table(data []byte) *loc {
	b, err := p.upload(data)
	if err != nil {
		p.failed = errors.Join(p.failed, err)
		return nil
	}
	p.tables = append(p.tables, b)
	p.bytes += len(data)
	return &loc{place: constant, at: b, bytes: len(data)}
}

func (p *Plan) upload(data []byte) (cuda.Buffer, error) {
	b, err := p.s.dev.Alloc(max(len(data), 1))
	if err != nil {
		return b, err
	}
	if err := p.s.stream.Upload(b, data); err != nil {
		p.s.dev.Free(b)
		return b, err
	}
	return b, p.s.stream.Synchronize()
}

// finish brings the outputs to their places, and the arena into being.
func (p *Plan) finish() error {
	g := p.s.g
	for i, v := range g.Outputs {
		h := &p.vals[v]
		if !h.ready {
			return fmt.Errorf("output %q is not computed", g.Value(v).Name)
		}
		if h.known != nil || h.maker != nil || sizeOf(h.dtype) == 0 {
			continue
		}
		bytes := sizeOf(h.dtype) * tensor.Count(h.shape)
		var err error
		if p.ports.out[i], err = p.alloc(bytes); err != nil {
			return err
		}
		e := &emission{p: p, id: g.Producer(v)}
		src := e.laidOut(v, p.outLayout(v))
		if src.place == inArena && src.bytes == bytes {
			src.place, src.port = asOutput, i
			continue
		}
		dst := &loc{place: asOutput, port: i, bytes: bytes}
		e.copy(dst, src, bytes)
	}
	if p.failed != nil {
		return p.failed
	}
	size := p.arrange()
	var err error
	p.arena, err = p.alloc(size)
	return err
}
