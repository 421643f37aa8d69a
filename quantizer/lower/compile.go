package lower

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

const stage = "lower"

// Compile lowers g, configured by set for t, to a program that computes as profile says. Every slot of set that quantizes must
// have its scale. What has no integer form, on this target or under this profile, is an error that names the node: nothing that
// set quantizes is computed in float. On a target without float, neither is anything else but shapes and indices, and the conversions
// at the graph's ends, which are the caller's.
func Compile(g *graph.Graph, set *tqc.Set, t *target.Target, profile qmath.Profile) (*Program, error) {
	return CompileBy(g, set, t, profile, Options{})
}

// Options are how CompileBy compiles. The zero value is Compile's.
type Options struct {
	// Context ends it with its error; nil: nothing does.
	Context context.Context
	// Partial makes parts without an integer form steps of type Simulated instead of an error.
	Partial bool
	// Codes are those that quantizing a constant gives, by value, as has been found out. They become the program's. The others are made.
	Codes map[graph.ValueID]*tensor.Tensor
}

// CompileBy is Compile by options.
func CompileBy(g *graph.Graph, set *tqc.Set, t *target.Target, profile qmath.Profile, o Options) (*Program, error) {
	if o.Context == nil {
		o.Context = context.Background()
	}
	var refusals map[graph.NodeID]string
	for {
		p, err := compile(g, set, t, profile, o, refusals)
		more, ok := again(refusals, err)
		if !ok || !o.Partial {
			return p, err
		}
		refusals = more
	}
}

// compile makes a program; refusals say, by the first node of a unit, why it is simulated.
func compile(g *graph.Graph, set *tqc.Set, t *target.Target, profile qmath.Profile, o Options,
	refusals map[graph.NodeID]string) (*Program, error) {
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	if len(set.Domains) != g.NumNodes() {
		return nil, fmt.Errorf("%s: configs of %d nodes for a graph of %d", stage, len(set.Domains), g.NumNodes())
	}
	c := &compiler{g: g, set: set, profile: profile, order: order, Options: o, refusals: refusals, tables: t.Tables,
		program: &Program{Graph: g, Target: t.Name, Float: t.Float, Profile: profile},
		base:    make([]*Encoding, g.NumValues()), wanted: make([][]form, g.NumValues()), owner: make([]*unit, g.NumNodes()),
		tensors: map[formOf]TensorID{}, encodings: make([]int, g.NumValues())}
	for id := range set.NumSlots() {
		s := set.Slot(tqc.SlotID(id))
		c.runTimes = c.runTimes || s.State().Quantizes() && s.Config.RunTime()
	}
	for _, pass := range []func() error{c.encode, c.group, c.simulate, c.demand, c.needFloat, c.emit} {
		if err := pass(); err != nil {
			return nil, err
		}
	}
	c.narrowFloat()
	return c.program, nil
}

// narrowFloat warns of islands that the plan computes with factors of TF32, which programs do not.
func (c *compiler) narrowFloat() {
	first, n := graph.NoNode, 0
	for _, id := range c.order {
		if c.set.Domains[id] == tqc.DomainTF32 {
			if n++; n == 1 {
				first = id
			}
		}
	}
	if n > 0 {
		c.warn(first, "float operators in tf32 (%d in the plan, of which this is the first) are computed in float32", n)
	}
}

// compiler is the state of one Compile. The passes run in this order: encode fills base, group units, simulate finds units without an
// integer form, demand fills wanted, needFloat looks for what is left in float, emit writes the program.
type compiler struct {
	g       *graph.Graph
	set     *tqc.Set
	profile qmath.Profile
	order   []graph.NodeID
	program *Program
	Options
	// runTimes: some slot has scales of run time.
	runTimes bool
	tables   int // bits of the index of the target's tables, 0 where it says nothing of them
	// refusals are units that this profile has no form for, by their first nodes.
	refusals map[graph.NodeID]string

	base   []*Encoding // by value: what its output slot gives it, nil for real values
	units  []*unit     // in an order of execution
	owner  []*unit     // by node
	wanted [][]form    // by value: the forms in which it is read, first reader first

	tensors map[formOf]TensorID
	// encodings counts, by value, the tensors of integers.
	encodings []int
	island    []graph.NodeID // float nodes that are not emitted yet
}

// form is one way in which a value is stored: real (in the graph's own type), or as integers.
type form struct {
	real bool
	enc  Encoding // of integers
}

type formOf struct {
	value graph.ValueID
	form  form
}

var realForm = form{real: true}

func integer(e Encoding) form { return form{enc: e} }

// fail wraps an error with the node that it concerns.
func (c *compiler) fail(id graph.NodeID, format string, args ...any) error {
	return c.g.ErrorAt(stage, id, fmt.Errorf(format, args...))
}

// encode finds the values that have integers of their own.
func (c *compiler) encode() error {
	for _, id := range c.order {
		for i, v := range c.g.Node(id).Outputs {
			slot := c.set.Output(id, i)
			if v == graph.NoValue || slot == tqc.NoSlot || !c.set.Slot(slot).State().Quantizes() || c.slotFormless(slot) != "" {
				continue
			}
			e, err := c.slotEncoding(slot)
			if err != nil {
				return c.fail(id, "output %d: %w", i, err)
			}
			c.base[v] = &e
		}
	}
	return nil
}

func (c *compiler) slotEncoding(slot tqc.SlotID) (Encoding, error) {
	s := c.set.Slot(slot)
	p := c.set.Params(slot)
	if why := formless(&s.Config); why != "" {
		return Encoding{}, errors.New(why)
	}
	if !p.Ready() {
		return Encoding{}, fmt.Errorf("%s without a scale", s.State())
	}
	return encodingOf(&s.Config, p)
}

// seen returns the integers as which input i of a node is read, and false where it is read as a real value.
func (c *compiler) seen(id graph.NodeID, i int) (Encoding, bool, error) {
	slot := c.set.Input(id, i)
	if slot != tqc.NoSlot && c.set.Slot(slot).State().Quantizes() && c.slotFormless(slot) == "" {
		e, err := c.slotEncoding(slot)
		if err != nil {
			return e, false, c.fail(id, "input %d: %w", i, err)
		}
		return e, true, nil
	}
	if v := c.g.Node(id).Input(i); v != graph.NoValue && c.base[v] != nil {
		return *c.base[v], true, nil
	}
	return Encoding{}, false, nil
}

// operand is seen for inputs that have to be integers.
func (c *compiler) operand(id graph.NodeID, i int) (Encoding, error) {
	e, ok, err := c.seen(id, i)
	if err == nil && !ok {
		err = c.fail(id, "input %d is not quantized", i)
	}
	return e, err
}

// want records that v is read in a form.
func (c *compiler) want(v graph.ValueID, f form) {
	if !slices.Contains(c.wanted[v], f) {
		c.wanted[v] = append(c.wanted[v], f)
	}
}

// forms returns how v is written by the step that computes it: its own integers, or what its readers want of a real value.
func (c *compiler) forms(v graph.ValueID) []form {
	if c.base[v] != nil {
		return []form{integer(*c.base[v])}
	}
	return c.wanted[v]
}

// isFloat reports whether v holds numbers that quantization is about.
func (c *compiler) isFloat(v graph.ValueID) bool { return target.IsFloat(c.g, v) }

// dtype is the type of v in a form.
func (c *compiler) dtype(v graph.ValueID, f form) tensor.DType {
	switch {
	case !f.real:
		return f.enc.DType()
	case c.isFloat(v):
		return tensor.Float32
	}
	return c.g.Value(v).DType
}
