package passes

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// substitute is a function of single elements that others can be replaced by.
type substitute struct {
	name string
	// build adds nodes that compute y from x to the patch.
	build func(p *Patch, g *graph.Graph, x, y graph.ValueID, name string)
}

// substitutes are what integer kernels have where they lack the original, and the originals.
var substitutes = []substitute{
	{"Relu", func(p *Patch, _ *graph.Graph, x, y graph.ValueID, name string) { p.one("Relu", name, y, x) }},
	{"Relu6", func(p *Patch, g *graph.Graph, x, y graph.ValueID, name string) { p.clip(g, x, y, name, 0, 6) }},
	{"HardTanh", func(p *Patch, g *graph.Graph, x, y graph.ValueID, name string) { p.clip(g, x, y, name, -1, 1) }},
	{"HardSigmoid", func(p *Patch, _ *graph.Graph, x, y graph.ValueID, name string) { p.hardSigmoid(x, y, name) }},
	{"HardSwish", func(p *Patch, g *graph.Graph, x, y graph.ValueID, name string) {
		if g.Opset("") >= 14 {
			p.one("HardSwish", name, y, x)
			return
		}
		h := p.Temp(name+"_gate", x)
		p.hardSigmoid(x, h, name+"_gate")
		p.one("Mul", name, y, x, h)
	}},
	{"Sigmoid", func(p *Patch, _ *graph.Graph, x, y graph.ValueID, name string) { p.one("Sigmoid", name, y, x) }},
	{"Tanh", func(p *Patch, _ *graph.Graph, x, y graph.ValueID, name string) { p.one("Tanh", name, y, x) }},
	{"Swish", func(p *Patch, _ *graph.Graph, x, y graph.ValueID, name string) {
		s := p.Temp(name+"_gate", x)
		p.one("Sigmoid", name+"_gate", s, x)
		p.one("Mul", name, y, x, s)
	}},
}

func (p *Patch) one(op, name string, y graph.ValueID, in ...graph.ValueID) {
	p.Add(graph.Node{Op: op, Name: name, Inputs: in, Outputs: []graph.ValueID{y}})
}

// hardSigmoid is relu6(x + 3) / 6, the form that belongs to HardSwish.
func (p *Patch) hardSigmoid(x, y graph.ValueID, name string) {
	p.Add(graph.Node{Op: "HardSigmoid", Name: name, Inputs: []graph.ValueID{x}, Outputs: []graph.ValueID{y},
		Attrs: []graph.Attr{graph.Float("alpha", 1.0/6), graph.Float("beta", 0.5)}})
}

func (p *Patch) clip(g *graph.Graph, x, y graph.ValueID, name string, lo, hi float32) {
	if g.Opset("") < 11 {
		p.Add(graph.Node{Op: "Clip", Name: name, Inputs: []graph.ValueID{x}, Outputs: []graph.ValueID{y},
			Attrs: []graph.Attr{graph.Float("min", lo), graph.Float("max", hi)}})
		return
	}
	p.one("Clip", name, y, x, p.Const(name+"_min", tensor.FromF32([]float32{lo})), p.Const(name+"_max", tensor.FromF32([]float32{hi})))
}

// replaceable are the functions that can be replaced, whatever they are written as. SiLU is Swish.
var replaceable = append([]*pattern.Family{pattern.Gelu, pattern.HardSwish, pattern.Mish, pattern.Swish}, pattern.Activations...)

// ReplaceableActivations and SubstituteActivations are the names that ReplaceActivation takes.
func ReplaceableActivations() []string {
	names := []string{"SiLU"}
	for _, f := range replaceable {
		names = append(names, f.Name)
	}
	return names
}

// SubstituteActivations are the names that activations can be replaced by.
func SubstituteActivations() []string {
	var names []string
	for i := range substitutes {
		names = append(names, substitutes[i].name)
	}
	return names
}

// ReplaceActivation replaces every activation called from, in whatever form it is written, by the one called to, among those for whose last
// node wanted holds (nil: all), and returns the names of the nodes that compute the results now. The graph computes another
// function afterwards. A Swish with a factor on its gate, and a Clip with other bounds than Relu6, are not meant. What is part of a larger
// activation (the Sigmoid of a Swish) stays. Names that are not among ReplaceableActivations and SubstituteActivations are errors.
func ReplaceActivation(g *graph.Graph, from, to string, wanted func(graph.NodeID) bool) ([]string, error) {
	if from == "SiLU" {
		from = pattern.Swish.Name
	}
	if to == "SiLU" {
		to = pattern.Swish.Name
	}
	known := false
	for _, f := range replaceable {
		known = known || f.Name == from
	}
	if !known {
		return nil, fmt.Errorf("no activation %q that could be replaced: one of %s", from, strings.Join(ReplaceableActivations(), ", "))
	}
	var by *substitute
	for i := range substitutes {
		if substitutes[i].name == to {
			by = &substitutes[i]
		}
	}
	if by == nil {
		return nil, fmt.Errorf("no activation %q to replace others by: one of %s", to, strings.Join(SubstituteActivations(), ", "))
	}
	if from == to {
		return nil, fmt.Errorf("%s is to be replaced by itself", from)
	}
	c := &Context{G: g, pass: "replace-activation", log: &Log{}}
	var names []string
	for _, f := range pattern.Cover(g, replaceable...) {
		if f.Family.Name != from || f.Value("beta") != graph.NoValue || wanted != nil && !wanted(f.Root) {
			continue
		}
		name, y := g.Node(f.Root).Name, g.Node(f.Root).Outputs[0]
		p := &Patch{What: from + " becomes " + to}
		p.Drop(f.Nodes...)
		by.build(p, g, f.Value("x"), y, name)
		if err := c.apply(p); err != nil {
			return nil, g.ErrorAt("replace", f.Root, err)
		}
		names = append(names, g.Node(g.Producer(y)).Name)
	}
	return names, nil
}
