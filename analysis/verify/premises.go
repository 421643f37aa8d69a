package verify

import (
	"slices"

	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// premises are what every step is derived from: the graph, its configs and the profile. The program is read as data.
type premises struct {
	g       *graph.Graph
	set     *tqc.Set
	profile qmath.Profile
	program *lower.Program

	own    []*qmath.Grid  // by value: that of the output slot, nil for real values
	wanted [][]qmath.Grid // by value: the grids on which it is read, NoValue's missing
	known  []bool         // by value: wanted is filled
	grids  []*qmath.Grid  // by tensor: the grid that the plan gives it, or the program's own where it gives none
	wrong  []bool         // by tensor: the program's grid is not one of the plan's
}

func newPremises(set *tqc.Set, p *lower.Program) *premises {
	g := p.Graph
	r := &premises{g: g, set: set, profile: p.Profile, program: p, own: make([]*qmath.Grid, g.NumValues()),
		wanted: make([][]qmath.Grid, g.NumValues()), known: make([]bool, g.NumValues()),
		grids: make([]*qmath.Grid, len(p.Tensors)), wrong: make([]bool, len(p.Tensors))}
	for _, id := range g.Nodes() {
		for i, v := range g.Node(id).Outputs {
			if v != graph.NoValue {
				r.own[v] = r.slotGrid(set.Output(id, i))
			}
		}
	}
	for i := range p.Tensors {
		r.place(&p.Tensors[i])
	}
	return r
}

// grid is the plan's grid of a tensor.
func (p *premises) grid(id lower.TensorID) *qmath.Grid { return p.grids[id] }

// place finds the plan's grid of a tensor: the one of its value that the program says it has, or, where none is that, the nearest
// the plan knows.
func (p *premises) place(t *lower.Tensor) {
	e := t.Encoding
	if e == nil {
		return
	}
	has := qmath.Grid{Scale: e.Scale, ZeroPoint: e.ZeroPoint, QMin: e.QMin, QMax: e.QMax, Rounding: e.Rounding}
	p.grids[t.ID] = &has
	if int(t.Value) >= len(p.own) || t.Value < 0 {
		p.wrong[t.ID] = true
		return
	}
	choices := p.readAs(t.Value)
	if own := p.own[t.Value]; own != nil {
		choices = append(slices.Clone(choices), *own)
	}
	choices = append(choices, p.passed(t.Value)...)
	if slices.Contains(choices, has) {
		return
	}
	p.wrong[t.ID] = true
	if own := p.own[t.Value]; own != nil {
		p.grids[t.ID] = own
	} else if len(choices) > 0 {
		p.grids[t.ID] = &choices[0]
	}
}

// seen returns the grid on which input i of a node is read, nil for a real one.
func (p *premises) seen(id graph.NodeID, i int) *qmath.Grid {
	if g := p.slotGrid(p.set.Input(id, i)); g != nil {
		return g
	}
	if v := p.g.Node(id).Input(i); v != graph.NoValue {
		return p.own[v]
	}
	return nil
}

// readAs lists the grids on which the readers of a value want it, those behind operators that pass grids on included.
func (p *premises) readAs(v graph.ValueID) []qmath.Grid {
	if p.known[v] {
		return p.wanted[v]
	}
	p.known[v] = true
	var list []qmath.Grid
	for _, u := range p.g.Uses(v) {
		if g := p.slotGrid(p.set.Input(u.Node, u.Index)); g != nil { // of states too, which are no data elsewhere
			list = append(list, *g)
			continue
		}
		if !target.DataInput(p.g, u.Node, u.Index) {
			continue
		}
		if p.own[v] == nil && p.set.Domains[u.Node] == tqc.DomainInt {
			for _, out := range p.g.Node(u.Node).Outputs {
				if out == graph.NoValue {
					continue
				}
				if own := p.own[out]; own != nil {
					list = append(list, *own)
				} else {
					list = append(list, p.readAs(out)...)
				}
			}
		}
	}
	p.wanted[v] = list
	return list
}

// passed lists the grids of the first input of the operator that computes v and passes its grid on: the grid of v in front of the
// step that brings it to its own.
func (p *premises) passed(v graph.ValueID) []qmath.Grid {
	id := p.g.Producer(v)
	if id == graph.NoNode || p.set.Domains[id] != tqc.DomainInt || len(p.g.Node(id).Inputs) == 0 {
		return nil
	}
	if g := p.seen(id, 0); g != nil {
		return []qmath.Grid{*g}
	}
	return nil
}
