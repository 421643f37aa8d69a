package espdl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// back reads a file that was written and says what it holds of the program: exponents of tensors by name, and steps by the node that
// computes their output. Weights come back into the layout of the model.
func back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	raw, err := fs.ReadFile(out.FS(), out.Name())
	if err != nil {
		return nil, err
	}
	m, err := Read(raw)
	if err != nil {
		return nil, err
	}
	at, _ := in.State.(*places)
	if at == nil {
		return nil, fmt.Errorf("espdl: nobody has written it")
	}
	r := &recoverer{m: m, p: in.Program, at: at, constants: map[string]*Tensor{}, producer: map[string]*Node{}, values: map[string]*Value{},
		held: &export.Recovered{Wants: wants}, plain: strings.HasSuffix(in.Target.Name, "_c")}
	r.held.Lacks = r.lacks
	if err := r.index(); err != nil {
		return nil, err
	}
	if err := r.tests(r.p.Inputs, m.TestInputs); err != nil {
		return nil, err
	}
	if err := r.tests(r.p.Outputs, m.TestOutputs); err != nil {
		return nil, err
	}
	for i := range r.p.Steps {
		if err := r.step(&r.p.Steps[i]); err != nil {
			return nil, fmt.Errorf("espdl: %q: %w", r.p.Name(lower.StepID(i)), err)
		}
	}
	return &export.Readback{Held: r.held}, nil
}

type recoverer struct {
	m         *Model
	p         *lower.Program
	at        *places
	held      *export.Recovered
	plain     bool // weights lie as chips without vectors read them
	constants map[string]*Tensor
	producer  map[string]*Node
	values    map[string]*Value
}

// lacks says what an .espdl file does not hold.
func (r *recoverer) lacks(it *export.Item) string {
	switch it.Kind {
	case export.Multipliers, export.Factors, export.Doubles:
		return "multipliers, which ESP-DL makes of exponents"
	case between:
		return "entries of tables between those of the file, which ESP-DL interpolates"
	}
	for i := range r.p.Tensors {
		if t := &r.p.Tensors[i]; t.Const != nil && it.At == export.TensorName(t.Name) && !r.reads(t.ID) {
			return "constants that no step reads"
		}
	}
	return ""
}

func (r *recoverer) reads(id lower.TensorID) bool {
	return slices.ContainsFunc(r.p.Steps, func(s lower.Step) bool { return slices.Contains(s.Inputs, id) })
}

// index finds constants, nodes and values by name, and adds what values say of tensors. Those in another layout, or of another grid before
// they are scaled or limited, say the same of it.
func (r *recoverer) index() error {
	of := map[string]lower.TensorID{}
	for id, name := range r.at.names {
		of[name] = id
	}
	for i := range r.m.Initializers {
		t := &r.m.Initializers[i]
		if r.constants[t.Name] != nil {
			return fmt.Errorf("espdl: two constants are called %q", t.Name)
		}
		r.constants[t.Name] = t
	}
	for _, list := range [][]Value{r.m.Inputs, r.m.Outputs, r.m.Values} {
		for i := range list {
			v := &list[i]
			r.values[v.Name] = v
			if id, ok := of[v.Name]; ok {
				r.grid(id, v)
			}
		}
	}
	for i := range r.m.Nodes {
		n := &r.m.Nodes[i]
		for _, name := range n.Outputs {
			r.producer[name] = n
		}
		if len(n.Inputs) == 0 || len(n.Outputs) == 0 {
			continue
		}
		from, known := of[n.Inputs[0]]
		v := r.values[n.Outputs[0]]
		if _, ok := of[n.Outputs[0]]; known && !ok && n.Op == "Transpose" && v != nil {
			r.grid(from, v)
		}
	}
	return nil
}

// tests adds test values of inputs or outputs.
func (r *recoverer) tests(ids []lower.TensorID, list []Tensor) error {
	if len(list) != len(ids) {
		return fmt.Errorf("espdl: %d test values for %d inputs or outputs", len(list), len(ids))
	}
	for i, id := range ids {
		if to, ok := r.at.same[id]; ok {
			id = to
		}
		t, it := &list[i], &export.Item{At: export.TensorName(r.p.Tensors[id].Name), Kind: tested}
		r.grid(id, &Value{Type: t.Type, Exponents: t.Exponents})
		x, err := t.integers()
		if err != nil {
			return err
		}
		if perm := r.at.perms[id]; len(perm) == len(t.Shape) {
			x = restored(x, t.Shape, perm)
		}
		if it.Wide = x; t.Type == float32Type {
			it.Wide, it.Floats = nil, floatsOf(x)
		}
		r.held.Add(it)
	}
	return nil
}

// ends are the codes of a type.
var ends = map[int][]int32{int8Type: {math.MinInt8, math.MaxInt8}, int16Type: {math.MinInt16, math.MaxInt16}}

// grid adds what a value says of a tensor of the program.
func (r *recoverer) grid(id lower.TensorID, v *Value) {
	t := &r.p.Tensors[id]
	if t.Encoding == nil || ends[v.Type] == nil {
		return // what is missing tells
	}
	at := export.TensorName(t.Name)
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: scalesOf(v.Exponents)})
	r.held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: []int32{0}}) // ESP-DL has no other
	r.held.Add(&export.Item{At: at, Kind: export.Grid, Ints: ends[v.Type]})
}

func scalesOf(exponents []int64) []float32 {
	list := []float32{}
	for _, e := range exponents {
		list = append(list, float32(math.Ldexp(1, int(max(-1000, min(1000, e))))))
	}
	return list
}

// name is what a tensor is called in the file.
func (r *recoverer) name(id lower.TensorID) string {
	if to, ok := r.at.same[id]; ok {
		id = to
	}
	return r.at.names[id]
}

// step adds what the file says of a step.
func (r *recoverer) step(s *lower.Step) error {
	if len(s.Outputs) == 0 || s.Outputs[0] == lower.NoTensor {
		return nil
	}
	n := r.producer[r.name(s.Outputs[0])]
	if n == nil {
		return nil // an input of the model that the file has as integers; else what is missing tells
	}
	r.sources(s)
	at := export.StepName(r.p, s)
	switch op := s.Op.(type) {
	case *lower.Quantize:
		return r.converts(n, s.Inputs[0], s.Outputs[0])
	case *lower.Dequantize:
		if err := r.converts(n, s.Outputs[0], s.Inputs[0]); err != nil {
			return err
		}
	case *lower.Requantize:
		if err := r.rescaled(n, s.Outputs[0]); err != nil {
			return err
		}
	case *lower.Island:
		return r.real(op)
	case *lower.Clamp:
		lo, hi, err := r.limits(n)
		r.held.Add(&export.Item{At: at, Kind: export.Clamp, Ints: []int32{lo, hi}})
		return err
	case *lower.Table:
		list, err := r.table(n)
		r.held.Add(&export.Item{At: at, Kind: export.Table, Ints: list})
		return err
	case *lower.Linear:
		main, err := r.limited(s, n)
		if err == nil && op.Weights != nil {
			r.window(s, main)
			err = r.linear(at, op, main, r.p.Graph.Node(s.Node))
		}
		if err != nil {
			return err
		}
		return r.read(s, main)
	case *lower.Concat:
		main, err := r.limited(s, n)
		if err != nil {
			return err
		}
		for _, name := range main.Inputs {
			if p := r.producer[name]; p != nil && p.Op == "RequantizeLinear" && strings.Contains(name, "_rescaled") {
				r.grid(s.Outputs[0], r.values[name])
				if err := r.rescaled(p, s.Outputs[0]); err != nil {
					return err
				}
			}
		}
		return r.read(s, main)
	case *lower.Sum, *lower.Product, *lower.Average:
		main, err := r.limited(s, n)
		if err != nil {
			return err
		}
		r.window(s, main)
		return r.read(s, main)
	case *lower.MaxPool:
		if v := r.values[n.Outputs[0]]; v != nil && ends[v.Type] != nil { // a window without input gives the lowest code of the type
			r.held.Add(&export.Item{At: at, Kind: export.Clamp, Ints: ends[v.Type][:1]})
		}
		r.window(s, n)
	}
	return r.read(s, n)
}

// real adds the operators in float, and their constants.
func (r *recoverer) real(op *lower.Island) (err error) {
	floatOperators(op, func(n *graph.Node, it *export.Item) {
		at := slices.IndexFunc(r.m.Nodes, func(o Node) bool { return o.Name == n.Name && o.text("lut") == "" })
		if at >= 0 { // else what is missing tells
			r.held.Add(said(it.At, r.m.Nodes[at].Op, r.m.Nodes[at].Attrs, nil))
		}
	})
	realNumbers(op, func(n *graph.Node, i int, _ *tensor.Tensor) {
		at := slices.IndexFunc(r.m.Nodes, func(o Node) bool { return o.Name == n.Name && o.Op == n.Op && o.text("lut") == "" })
		if at < 0 || i >= len(r.m.Nodes[at].Inputs) {
			return // what is missing tells
		}
		c := r.constants[r.m.Nodes[at].Inputs[i]]
		if c == nil || c.Type != float32Type {
			return
		}
		list, failed := c.floats()
		if err = errors.Join(err, failed); failed == nil {
			r.held.Add(&export.Item{At: export.SlotName(n.Name, i, 0), Kind: export.Numbers, Floats: list})
		}
	})
	return err
}

// converts adds the scale of a conversion between a real tensor and one of integers.
func (r *recoverer) converts(n *Node, real, of lower.TensorID) error {
	if _, ok := r.at.same[real]; ok {
		return nil // there is no such node
	}
	scale, err := r.number(n)
	if err != nil {
		return err
	}
	at := export.TensorName(r.p.Tensors[of].Name)
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: []float32{scale}})
	return nil
}

// rescaled adds the scale that a node brings codes to.
func (r *recoverer) rescaled(n *Node, to lower.TensorID) error {
	scale, err := r.number(n)
	if err != nil {
		return err
	}
	from := r.exponents(n.Inputs[0])
	if len(from) != 1 {
		return fmt.Errorf("what it scales, %q, has %d exponents", n.Inputs[0], len(from))
	}
	at := export.TensorName(r.p.Tensors[to].Name)
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: []float32{scalesOf(from)[0] * scale}})
	return nil
}

// exponents are those of a tensor of the file.
func (r *recoverer) exponents(name string) []int64 {
	if v := r.values[name]; v != nil {
		return v.Exponents
	}
	if t := r.constants[name]; t != nil {
		return t.Exponents
	}
	return nil
}

// number is the scale, input 1, of a conversion. Its zero point has to be 0.
func (r *recoverer) number(n *Node) (float32, error) {
	if len(n.Inputs) != 3 {
		return 0, fmt.Errorf("%s has %d inputs, not 3", n.Op, len(n.Inputs))
	}
	t, z := r.constants[n.Inputs[1]], r.constants[n.Inputs[2]]
	if t == nil || t.Type != float32Type || t.count() != 1 || len(t.Raw) < 4 || z == nil ||
		slices.ContainsFunc(z.Raw, func(b byte) bool { return b != 0 }) {
		return 0, fmt.Errorf("%s has no scale, or a zero point that is not 0", n.Op)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(t.Raw)), nil
}
