package recipe

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Kinds of recipes of other tools, and of those that come with the program, by what stands before the colon.
var recipeKinds = []struct {
	name string
	read func(j *open.Job, name string) (Source, error)
}{
	{"preset", func(_ *open.Job, name string) (Source, error) {
		r, err := decision.FindPreset(name)
		if err != nil {
			return Source{}, fault.UsageError{Err: err}
		}
		return Source{Recipe: r, forms: func(_ *open.Model, t *target.Target) (*decision.Recipe, error) {
			fitPreset(r, t)
			return r, nil
		}}, nil
	}},
	{"nncf", readNNCF},
	{"ort", readORT},
	{"trt", readTRT},
	{"modelopt", readModelOpt},
	{"quark", readQuark},
}

// fitPreset leaves out of a preset what a target has no need of: a reduced range where there is none, operators in float whose scales it
// does not prescribe. Schemes become those of the target with the same numbers and as many bits: int16 powers of two, or with zero points.
func fitPreset(r *decision.Recipe, t *target.Target) {
	r.Steps = slices.DeleteFunc(r.Steps, func(s decision.Step) bool {
		return s.Decision.Domain == decision.FP32 && !slices.ContainsFunc(t.Ops, func(o target.Op) bool {
			return o.FixedScale != 0 && s.Decision.Select.String() == "type:"+o.Type
		})
	})
	own := t.Defaults()
	for i := range r.Steps {
		d := &r.Steps[i].Decision
		if t.ReducedWeight[0] == t.ReducedWeight[1] {
			d.ReduceRange = nil
		}
		d.Activations, d.Weights = nearest(own.Activation, d.Activations), nearest(own.Weight, d.Weights)
	}
}

// nearest is a scheme of a list that stands for s: s itself where there is none.
func nearest(list []tqc.Scheme, s tqc.Scheme) tqc.Scheme {
	same := func(l tqc.Scheme) bool { return l.Type == s.Type && l.Bits == s.Bits && l.Dynamic == s.Dynamic }
	if i := slices.IndexFunc(list, same); i >= 0 && !slices.Contains(list, s) {
		return list[i]
	}
	return s
}

// foreign is a file of another tool and the model that it is about.
type foreign struct {
	*open.Job
	file string
	m    *open.Model
	a    *dispatch.Assignment // of the normal form, with nothing decided
	r    *decision.Recipe
	left []leftInFloat
}

// leftInFloat are operators of the model as it was loaded that one rule of a file leaves in float.
type leftInFloat struct {
	goal string
	ids  map[graph.NodeID]bool
}

func readForeign(j *open.Job, file string, m *open.Model, t *target.Target) (*foreign, error) {
	a, err := dispatch.Assign(m.Graph, t, dispatch.Options{})
	if err != nil {
		return nil, err
	}
	return &foreign{Job: j, file: file, m: m, a: a, r: &decision.Recipe{File: file}}, nil
}

func (f *foreign) fail(format string, args ...any) error {
	return fmt.Errorf("%s: %s", f.file, fmt.Sprintf(format, args...))
}

// decide adds a decision; nothing is made of one that decides nothing.
func (f *foreign) decide(goal string, sel decision.Select, p decision.Properties) {
	if !p.Empty() {
		f.r.Steps = append(f.r.Steps, decision.Step{Decision: decision.Decision{By: decision.ByRecipe, Goal: goal, Select: sel, Properties: p}})
	}
}

// float decides what was left in float, a decision for each rule, by the names of the normal form. An operator that is no operator of its
// own there, or is computed together with one that stays quantized, is left out, and a note says so.
func (f *foreign) float() {
	all := map[graph.NodeID]bool{}
	in := make([]map[graph.NodeID]bool, len(f.left))
	for i, l := range f.left {
		in[i] = map[graph.NodeID]bool{}
		var gone []string
		for _, id := range f.m.Loaded.Nodes() {
			n := f.m.Loaded.Node(id)
			now, ok := f.m.Graph.LookupNode(n.Name)
			switch {
			case !l.ids[id]:
			case ok:
				in[i][now], all[now] = true, true
			case n.Op != "Constant":
				gone = append(gone, n.Name)
			}
		}
		if len(gone) > 0 {
			f.Note("%s: %s: %s of the model are part of others in the normal form, first %q", f.file, l.goal,
				plain.Count(len(gone), "operator"), gone[0])
		}
	}
	for i, l := range f.left {
		f.floatBy(l.goal, in[i], all)
	}
}

func (f *foreign) floatBy(goal string, in, all map[graph.NodeID]bool) {
	g := f.m.Graph
	var fused, names []string
	for _, id := range g.Nodes() {
		switch head := f.a.Fused[id]; {
		case !in[id] || f.a.Domains[id] == tqc.DomainSOI:
		case head != graph.NoNode && !all[head]:
			fused = append(fused, g.Node(id).Name)
		default:
			names = append(names, g.Node(id).Name)
		}
	}
	if len(fused) > 0 {
		f.Note("%s: %s: %s are computed together with an operator that stays quantized, and stay with it, first %q", f.file, goal,
			plain.Count(len(fused), "operator"), fused[0])
	}
	if len(names) > 0 {
		f.decide(goal, f.selected(names), decision.Properties{Domain: decision.FP32})
	}
}

// selected is a selector of operators of the normal form: by their type where those are all, else by name.
func (f *foreign) selected(names []string) decision.Select {
	g := f.m.Graph
	left := map[string]int{}
	for _, id := range g.Nodes() {
		left[g.Node(id).Op]++
	}
	op := func(name string) string { id, _ := g.LookupNode(name); return g.Node(id).Op }
	for _, name := range names {
		left[op(name)]--
	}
	var sel decision.Select
	for _, name := range names {
		text := name
		if left[op(name)] == 0 {
			text = "type:" + op(name)
		}
		if !slices.Contains(sel, text) {
			sel = append(sel, text)
		}
	}
	return sel
}
