package workbench

import (
	"context"
	"slices"

	"qwb"
	"qwb/analysis"
	"qwb/analysis/tensors"
	"qwb/graph"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// TensorPair is one tensor in two plans, over one axis.
type TensorPair struct {
	Node string   `json:"node"`
	At   string   `json:"at"`
	Ats  []string `json:"ats"` // the inputs and outputs that there are to choose from
	// A and B have bins with the same edges; one is null where its plan has no such tensor.
	A *tensors.Tensor `json:"a"`
	B *tensors.Tensor `json:"b"`
	// From and To are the ends of the axis: of both data and both grids.
	From float64 `json:"from"`
	To   float64 `json:"to"`
	// Same says that both plans saw the same values: their bins are equal.
	Same bool `json:"same"`
}

// side opens a plan to be looked at beside another one.
func (b *Bench) side(file string) (*opened, error) {
	if !isPlan(file) {
		return nil, qwb.Usagef("%s is no plan: only plans have statistics and scales of their tensors", file)
	}
	p := b.project()
	p.Model, p.Plan, p.Stats = "", file, ""
	r, _, err := p.OpenPlan()
	if err != nil {
		return nil, err
	}
	return openedOf(p, r), nil
}

// tensorPair shows what two plans make of one tensor. at may be empty: the first whose scales differ.
func (b *Bench) tensorPair(_ context.Context, q struct {
	A    string `json:"a"`
	B    string `json:"b"`
	Node string `json:"node"`
	At   string `json:"at"`
}) (*TensorPair, error) {
	r := &TensorPair{Node: q.Node, At: q.At, Ats: []string{}}
	var sides [2]*opened
	var slots [2]map[string]tqc.SlotID
	differs := ""
	for i, file := range []string{q.A, q.B} {
		o, err := b.side(file)
		if err != nil {
			return nil, err
		}
		defer o.Close()
		sides[i], slots[i] = o, map[string]tqc.SlotID{}
	}
	ids, err := counterparts(sides, q.Node)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if id == graph.NoNode {
			continue
		}
		o := sides[i]
		for _, s := range slices.Concat(o.Set.Inputs(id), o.Set.Outputs(id)) {
			if s == tqc.NoSlot {
				continue
			}
			at := o.tensors.Name(s)[len(o.Graph.Node(id).Name)+1:]
			if slots[i][at] = s; o.Set.Slot(s).State() != tqc.FP32 && !slices.Contains(r.Ats, at) {
				r.Ats = append(r.Ats, at)
			}
		}
	}
	for _, at := range r.Ats {
		x, inA := slots[0][at]
		y, inB := slots[1][at]
		if differs == "" && (!inA || !inB || !sameScales(sides[0].Set, x, sides[1].Set, y)) {
			differs = at
		}
	}
	if r.At == "" && len(r.Ats) > 0 {
		if r.At = r.Ats[0]; differs != "" {
			r.At = differs
		}
	}
	var states [2]*observers.State
	for i, t := range []**tensors.Tensor{&r.A, &r.B} {
		if s, ok := slots[i][r.At]; ok {
			*t, states[i] = sides[i].tensors.Tensor(s)
		}
	}
	if r.A == nil && r.B == nil {
		return nil, qwb.Usagef("neither plan quantizes %s of operator %q", orAny(r.At), q.Node)
	}
	r.axis(states)
	return r, nil
}

// counterparts finds an operator, by the name that it has in the first plan or else in the second, in both.
func counterparts(sides [2]*opened, name string) (ids [2]graph.NodeID, err error) {
	m, err := analysis.Match(sides[0].Graph, sides[1].Graph)
	if err != nil {
		return ids, err
	}
	if id, ok := sides[0].Graph.LookupNode(name); ok {
		return [2]graph.NodeID{id, m.ToB[id]}, nil
	}
	if id, ok := sides[1].Graph.LookupNode(name); ok {
		return [2]graph.NodeID{m.ToA[id], id}, nil
	}
	return [2]graph.NodeID{graph.NoNode, graph.NoNode}, nil
}

func orAny(at string) string {
	if at == "" {
		return "any tensor"
	}
	return at
}

// structures says which operators two plans or models share.
func (b *Bench) structures(ctx context.Context, q struct {
	A string `json:"a"`
	B string `json:"b"`
}) (*qwb.StructuresResult, error) {
	r, _, err := b.project().Structures(ctx, qwb.DiffOptions{A: q.A, B: q.B})
	return r, err
}

// sameScales reports whether two slots are quantized alike.
func sameScales(a *tqc.Set, x tqc.SlotID, b *tqc.Set, y tqc.SlotID) bool {
	s, t, p, q := a.Slot(x), b.Slot(y), a.Params(x), b.Params(y)
	return s.State() == t.State() && (s.State() == tqc.FP32 || s.Config.SameScheme(t.Config) && slices.Equal(p.Scale, q.Scale) &&
		slices.Equal(p.ZeroPoint, q.ZeroPoint))
}

// axis finds the ends of the axis and counts the values of both sides between the same edges.
func (r *TensorPair) axis(states [2]*observers.State) {
	list := []*tensors.Tensor{r.A, r.B}
	first, lo, hi := true, 0.0, 0.0
	wide := func(a, b float64) {
		if first {
			r.From, r.To, first = a, b, false
		}
		r.From, r.To = min(r.From, a), max(r.To, b)
	}
	for i, t := range list {
		if states[i] != nil && states[i].Count() > 0 {
			wide(t.Min, t.Max)
		}
	}
	lo, hi = r.From, r.To
	for i, t := range list {
		if states[i] != nil && states[i].Count() > 0 {
			t.Bins = tensors.BinsOf(states[i], lo, hi)
		}
		if t != nil && len(t.Grid) > 0 {
			wide(t.Lo, t.Hi)
		}
	}
	r.Same = r.A != nil && r.B != nil && slices.Equal(r.A.Bins.Counts, r.B.Bins.Counts)
}
