package lower

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Simulated is a part of the graph that the plan quantizes and that has no integer form: an operator that no family lowers, weights
// of more than 8 bits or in groups, numbers that do not lie evenly, scales of run time. It reads and writes the integers that the plan
// says; between them it computes in float, as the simulation does. Nothing that holds for integer arithmetic holds for it, so that it is
// listed and never compared. Only programs of CompilePartial have such steps.
type Simulated struct {
	// Graph holds the operators. Its inputs and outputs are those of the step, in order, as real numbers; constants are already what
	// their grids leave of them.
	Graph *graph.Graph
	// In and Out have an entry for each input and output: what the plan makes of numbers that integers do not stand for, nil elsewhere.
	In, Out []*Fake
	Why     string
}

// Fake is a format in which a real tensor is quantized and dequantized at once, as package sim does it.
type Fake struct {
	Config tqc.Config
	Params tqc.Params // without scales where they are computed at run time
}

// Name implements Op.
func (*Simulated) Name() string { return "Simulated" }

func (o *Simulated) describe() string { return operators(o.Graph) + ": " + o.Why }

// CompilePartial is Compile for plans of which parts have no integer form: these become steps of type Simulated instead of an error.
// Where there are none the program is that of Compile.
func CompilePartial(g *graph.Graph, set *tqc.Set, t *target.Target, profile qmath.Profile) (*Program, error) {
	return CompileBy(g, set, t, profile, Options{Partial: true})
}

var simulatedFamily = family{name: "simulated", emit: emitSimulated}

// simulate moves units without an integer form to the family that computes them in float.
func (c *compiler) simulate() error {
	for _, u := range c.units {
		if u.family == nil || u.why != "" {
			continue
		}
		if c.refusals[u.head()] == "" && c.atRunTime(u) {
			u.family = &runTimeFamily
			continue
		}
		if u.family == &recurrentFamily && c.refusals[u.head()] == "" && (c.recurrentAtRunTime(u.head()) || c.recurrentOfPlan(u.head())) {
			continue
		}
		if !c.Partial {
			continue
		}
		why, err := c.refused(u)
		if err != nil {
			return err
		}
		if why != "" {
			u.family, u.why = &simulatedFamily, why
		}
	}
	return nil
}

// refused says why a unit has no integer form; nothing where it has one, or where the plan is wrong, which emit reports.
func (c *compiler) refused(u *unit) (string, error) {
	id := u.head()
	n := c.g.Node(id)
	if why := c.refusals[id]; why != "" {
		return why, nil
	}
	if why := c.formlessUnit(u); why != "" {
		return why, nil
	}
	if u.family == &linearFamily {
		if slot := c.set.Input(id, 1); slot != tqc.NoSlot && c.g.Const(n.Input(1)) != nil && c.set.Slot(slot).State().Quantizes() {
			bits := 8
			if x := c.set.Input(id, 0); x != tqc.NoSlot {
				bits = c.set.Slot(x).Config.Bits
			}
			if err := weightForm(&c.set.Slot(slot).Config, bits); err != nil {
				return err.Error(), nil
			}
		}
	}
	if u.family.passes {
		return "", nil
	}
	for _, in := range c.inputs(u) {
		_, quantized, err := c.seen(in.node, in.index)
		if err != nil {
			return "", err
		}
		if p := c.g.Producer(in.value); !quantized && p != graph.NoNode && c.owner[p].why != "" {
			return fmt.Sprintf("it reads real numbers of %q, which has no integer form", c.g.Node(p).Name), nil
		}
	}
	if v := c.g.Node(u.last()).Outputs[0]; u.family != &linearFamily && c.isFloat(v) && c.base[v] == nil &&
		(len(c.g.Uses(v)) > 0 || c.g.IsOutput(v)) {
		return "it computes real numbers", nil
	}
	return "", nil
}

// demandSimulated asks for integers where a unit reads them, and for real numbers elsewhere.
func (c *compiler) demandSimulated(u *unit) error {
	for _, id := range u.nodes {
		for i, v := range c.g.Node(id).Inputs {
			f, ok, err := c.simulatedInput(u, id, i)
			if err != nil {
				return err
			}
			if ok {
				c.want(v, f)
			}
		}
	}
	return nil
}

// simulatedInput returns the form in which input i of a node is read, and false where that is not a tensor from outside the unit.
func (c *compiler) simulatedInput(u *unit, id graph.NodeID, i int) (form, bool, error) {
	v := c.g.Node(id).Inputs[i]
	if v == graph.NoValue || c.g.Const(v) != nil || u.has(c.g, v) {
		return form{}, false, nil
	}
	if !c.isFloat(v) {
		return realForm, true, nil
	}
	e, quantized, err := c.seen(id, i)
	if err != nil || !quantized {
		return realForm, true, err
	}
	return integer(e), true, nil
}

// emitSimulated writes the step of a unit without an integer form.
func emitSimulated(c *compiler, u *unit) error {
	g := c.g.Clone()
	var inputs []graph.ValueID
	var in, out []TensorID
	op := &Simulated{Why: u.why}
	for _, id := range u.nodes {
		for i := range c.g.Node(id).Inputs {
			if err := c.fake(g, id, i); err != nil {
				return c.fail(id, "input %d: %w", i, err)
			}
			f, ok, err := c.simulatedInput(u, id, i)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			v := c.g.Node(id).Inputs[i]
			t, err := c.read(v, f)
			if err != nil {
				return c.fail(id, "input %d: %w", i, err)
			}
			at, fake := slices.Index(in, t), c.fakeOf(c.set.Input(id, i))
			if at < 0 || fake != nil || op.In[at] != nil {
				at = len(in)
				op.In = append(op.In, fake)
				added, err := g.AddValue(graph.Value{Name: g.FreshName(c.g.Value(v).Name), DType: c.dtype(v, realForm), Shape: c.g.Value(v).Shape})
				if err != nil {
					return c.fail(id, "%w", err)
				}
				in, inputs = append(in, t), append(inputs, added)
			}
			g.SetInput(id, i, inputs[at])
		}
	}
	var outputs []graph.ValueID
	for i, v := range c.g.Node(u.last()).Outputs {
		switch {
		case v == graph.NoValue:
			continue
		case c.base[v] != nil:
			out = append(out, c.define(v, integer(*c.base[v])))
		case len(c.wanted[v]) > 0:
			out = append(out, c.define(v, realForm))
		default:
			continue // nobody reads it
		}
		outputs, op.Out = append(outputs, v), append(op.Out, c.fakeOf(c.set.Output(u.last(), i)))
	}
	if len(outputs) == 0 {
		return nil
	}
	part, err := graph.Extract(g, inputs, outputs)
	if err != nil {
		return c.fail(u.head(), "%w", err)
	}
	op.Graph = part
	at := c.unitStep(u, in, out, op)
	for _, id := range out {
		if t := &c.program.Tensors[id]; !t.Quantized() && c.isFloat(t.Value) {
			c.cross(at, id, tensor.Undefined, true)
		}
	}
	return nil
}

// fake replaces constant input i of a node of g, a clone, by what its grid leaves of it.
func (c *compiler) fake(g *graph.Graph, id graph.NodeID, i int) error {
	t, slot := c.g.Const(c.g.Node(id).Inputs[i]), c.set.Input(id, i)
	if t == nil || slot == tqc.NoSlot || !c.set.Slot(slot).State().Quantizes() {
		return nil
	}
	t = t.ToRowMajor()
	out := tensor.New(tensor.Float32, t.Shape...)
	if t.DType != tensor.Float32 {
		return fmt.Errorf("a constant of type %s cannot be quantized", t.Type())
	}
	if err := sim.Apply(out, t, &c.set.Slot(slot).Config, c.set.Params(slot), sim.Quantize); err != nil {
		return err
	}
	g.SetInput(id, i, g.AddConst(g.FreshName(c.g.Value(c.g.Node(id).Inputs[i]).Name), out))
	return nil
}
