package tensors

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Plan is a plan as far as figures of its tensors need it.
type Plan struct {
	Plan   *plan.Plan
	Graph  *graph.Graph // that Set is of, with what was tuned
	Set    *tqc.Set
	Target *target.Target
	// Observed are the statistics that the scales of activations follow from, or why there are none. It is asked for each tensor.
	Observed func() (Observed, error)
}

// Observed is what calibration saw of tensors, and what its methods make of that.
type Observed interface {
	Samples() int
	// State is what was seen of the tensor of a name, nil where nothing was.
	State(tensor string) *observers.State
	// Shared is what was seen of all tensors that have the scale of a slot, which is the root of its group.
	Shared(g *graph.Graph, set *tqc.Set, root tqc.SlotID) (*observers.State, error)
	// Try is the scale that a method chooses for a state under a config.
	Try(st *observers.State, c tqc.Config, method tqc.Observer) (tqc.Params, error)
	// Methods lists the methods there are.
	Methods() []tqc.Observer
}

// Refusal says that what was asked for makes no sense: there is no such slot, or it has no scale to choose.
type Refusal struct{ Err error }

func (r Refusal) Error() string { return r.Err.Error() }

// Unwrap returns Err.
func (r Refusal) Unwrap() error { return r.Err }

func refuse(format string, args ...any) error { return Refusal{fmt.Errorf(format, args...)} }

// Slot finds a slot by its name: conv1:in0, conv1:weight. There being none is a Refusal.
func (p *Plan) Slot(name string) (tqc.SlotID, error) {
	i := strings.LastIndexByte(name, ':')
	if i < 0 {
		return 0, refuse("%q is no slot: conv1:in0, conv1:weight, conv1:out0", name)
	}
	id, ok := p.Graph.LookupNode(name[:i])
	if !ok {
		return 0, refuse("there is no operator %q", name[:i])
	}
	slot := tqc.NoSlot
	switch at := name[i+1:]; at {
	case "bias":
		slot = p.Set.Input(id, graph.BiasInput)
	case "weight":
		slot = p.Weight(id)
	default:
		kind, n, ok := decision.ParseAt(at)
		if list := p.Set.Inputs(id); ok && kind == tqc.Input && n < len(list) {
			slot = list[n]
		} else if list := p.Set.Outputs(id); ok && kind == tqc.Output && n < len(list) {
			slot = list[n]
		}
	}
	if slot == tqc.NoSlot {
		return 0, refuse("operator %q has no %q", name[:i], name[i+1:])
	}
	return slot, nil
}

// Weight is the slot of a constant that an operator multiplies by, NoSlot where there is none.
func (p *Plan) Weight(id graph.NodeID) tqc.SlotID {
	for i, s := range p.Set.Inputs(id) {
		if s == tqc.NoSlot || i == graph.BiasInput || i == 0 {
			continue
		}
		if t := p.Graph.Const(p.Set.Slot(s).Value); t != nil && len(t.Shape) > 1 {
			return s
		}
	}
	return tqc.NoSlot
}

// Name is the name by which Slot finds a slot.
func (p *Plan) Name(s tqc.SlotID) string {
	sl := p.Set.Slot(s)
	return p.Graph.Node(sl.Node).Name + ":" + decision.At(sl.Kind, sl.Index)
}

// shared are the names of the other slots that have the scale of one.
func (p *Plan) shared(id tqc.SlotID) []string {
	list := []string{}
	for _, other := range p.Set.Group(id) {
		if other != id && p.Set.Slot(other).State() != tqc.FP32 {
			list = append(list, p.Name(other))
		}
	}
	return list
}

// state is what was observed of a tensor, by itself, and the statistics, nil for a constant.
func (p *Plan) state(v graph.ValueID) (*observers.State, Observed, error) {
	if t := p.Graph.Const(v); t != nil {
		st := observers.New()
		_, err := st.Observe(t, -1)
		return st, nil, err
	}
	seen, err := p.Observed()
	if err != nil {
		return nil, nil, err
	}
	st := seen.State(p.Graph.Value(v).Name)
	if st == nil {
		return nil, nil, fmt.Errorf("the statistics have nothing on %q", p.Graph.Value(v).Name)
	}
	return st, seen, nil
}

// Figures are those of a slot that has one scale, or is of a constant; others are a Refusal.
func (p *Plan) Figures(id tqc.SlotID) (Figures, error) {
	st, _, err := p.state(p.Set.Slot(id).Value)
	if err != nil {
		return Figures{}, err
	}
	return p.figures(id, st)
}

// figures are Figures for values that were observed under another plan of the model.
func (p *Plan) figures(id tqc.SlotID, st *observers.State) (f Figures, err error) {
	sl, params := p.Set.Slot(id), p.Set.Params(id)
	switch held := p.Graph.Const(sl.Value); {
	case sl.State() == tqc.FP32 || !params.Ready():
		return f, refuse("%s has no scale: it stays float, or its scale is computed at run time", p.Name(id))
	case held != nil:
		return OfConstant(held, &sl.Config, params)
	case len(params.Scale) > 1:
		return f, refuse("%s has a scale for each channel", p.Name(id))
	}
	return OfState(st, sl.Config, params.Scale[0], params.ZeroPoint[0])
}
