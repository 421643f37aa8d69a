package onnx

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
)

const (
	// maxExpansion bounds the nodes and values that a model has once its functions are inlined.
	maxExpansion = 1 << 19
	// maxCalls bounds how deep functions may call functions.
	maxCalls = 64
)

// inliner replaces calls of model-local functions by what the functions consist of.
type inliner struct {
	opsets   []graph.Opset // of the model, with the domains that only functions import
	list     []*callee
	byID     map[functionID]*callee
	warnings []graph.Warning
}

// functionID is what a call names; "ai.onnx" is "".
type functionID struct{ domain, name, overload string }

func idOf(domain, name, overload string) functionID {
	if domain == "ai.onnx" {
		domain = ""
	}
	return functionID{domain, name, overload}
}

// callee is a function as it is inlined.
type callee struct {
	*Function
	state   int          // of measure
	size    int          // nodes and values once expanded
	depth   int          // of the calls in it
	foreign string       // why it is not inlined, empty if it is
	body    *graph.Graph // without calls, nil until asked for
}

// inline replaces the calls in g and its subgraphs. Functions that call themselves, and expansions beyond all measure, are
// errors. A function whose operators mean something else in the model's operator sets is left as it is, with a warning.
func inline(g *graph.Graph, functions []Function) ([]graph.Warning, error) {
	if len(functions) == 0 {
		return nil, nil
	}
	in := &inliner{opsets: slices.Clone(g.Opsets), byID: make(map[functionID]*callee, len(functions))}
	for i := range functions {
		f := &functions[i]
		id := idOf(f.Domain, f.Name, f.Overload)
		if in.byID[id] != nil {
			return nil, fmt.Errorf("function %s is defined twice", f.id())
		}
		in.byID[id] = &callee{Function: f}
		in.list = append(in.list, in.byID[id])
	}
	in.imports(g)
	for _, f := range in.list {
		f.foreign = in.unlike(f.Graph)
	}
	size, _, err := in.measure(g, 0)
	if err != nil {
		return nil, err
	}
	if size > maxExpansion {
		return nil, fmt.Errorf("with its functions inlined the model has more than %d nodes and values", maxExpansion)
	}
	if err := in.expand(g, newPrefixes(g)); err != nil {
		return nil, err
	}
	setOpsets(g, in.opsets)
	return in.warnings, g.Check()
}

// id is how messages name a function.
func (f *Function) id() string {
	name := f.Domain + "::" + f.Name
	if f.Overload != "" {
		name += ":" + f.Overload
	}
	return fmt.Sprintf("%q", strings.TrimPrefix(name, "::"))
}

// imports adds the domains that only functions import, in the highest of their versions.
func (in *inliner) imports(g *graph.Graph) {
	for _, f := range in.list {
		for _, o := range f.Graph.Opsets {
			if o.Domain == "ai.onnx" {
				o.Domain = ""
			}
			if g.Opset(o.Domain) > 0 {
				continue
			}
			i := slices.IndexFunc(in.opsets, func(k graph.Opset) bool { return k.Domain == o.Domain })
			if i < 0 {
				in.opsets = append(in.opsets, o)
				continue
			}
			in.opsets[i].Version = max(in.opsets[i].Version, o.Version)
		}
	}
}

// setOpsets gives a graph and all in it the same operator sets.
func setOpsets(g *graph.Graph, opsets []graph.Opset) {
	g.Opsets = opsets
	for _, id := range g.Nodes() {
		for _, sub := range g.Node(id).Subgraphs() {
			setOpsets(sub, opsets)
		}
	}
}

// unlike says which operator of a function means something else in the model's operator sets, "" if none does.
func (in *inliner) unlike(g *graph.Graph) string {
	model := &graph.Graph{Opsets: in.opsets}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		if in.byID[idOf(n.Domain, n.Op, n.Overload)] == nil && idOf(n.Domain, "", "").domain == "" {
			if own, of := g.Opset(""), model.Opset(""); own > 0 && !sameMeaning(n.Op, own, of) {
				return fmt.Sprintf("its %s is that of opset %d and means something else in opset %d, which the model imports", n.Op, own, of)
			}
		}
		for _, sub := range n.Subgraphs() {
			if why := in.unlike(sub); why != "" {
				return why
			}
		}
	}
	return ""
}

// callee returns the function that a node calls and that can be inlined, nil if there is none.
func (in *inliner) callee(n *graph.Node) *callee {
	if f := in.byID[idOf(n.Domain, n.Op, n.Overload)]; f != nil && f.foreign == "" {
		return f
	}
	return nil
}

const (
	unmeasured = iota
	measuring
	measured
)

// measure returns how many nodes and values a graph has once it is expanded, maxExpansion+1 for more than that, and how deep
// calls go in it.
func (in *inliner) measure(g *graph.Graph, depth int) (size, calls int, err error) {
	if depth > maxCalls {
		return 0, 0, fmt.Errorf("functions call functions more than %d deep", maxCalls)
	}
	size = len(g.Values())
	for _, id := range g.Nodes() {
		n := g.Node(id)
		size++
		for _, sub := range n.Subgraphs() {
			more, deep, err := in.measure(sub, depth)
			if err != nil {
				return 0, 0, err
			}
			size, calls = min(size+more, maxExpansion+1), max(calls, deep)
		}
		f := in.callee(n)
		if f == nil {
			continue
		}
		switch f.state {
		case measuring:
			return 0, 0, fmt.Errorf("function %s calls itself", f.id())
		case unmeasured:
			f.state = measuring
			if f.size, f.depth, err = in.measure(f.Graph, depth+1); err != nil {
				return 0, 0, err
			}
			f.state = measured
		}
		if calls = max(calls, f.depth+1); depth+calls > maxCalls {
			return 0, 0, fmt.Errorf("functions call functions more than %d deep", maxCalls)
		}
		size = min(size+f.size, maxExpansion+1)
	}
	return size, calls, nil
}

// expand replaces the calls in g and its subgraphs.
func (in *inliner) expand(g *graph.Graph, names *prefixes) error {
	for _, id := range g.Nodes() {
		n := g.Node(id)
		for _, sub := range n.Subgraphs() {
			if err := in.expand(sub, names); err != nil {
				return err
			}
		}
		if f := in.byID[idOf(n.Domain, n.Op, n.Overload)]; f != nil && f.foreign != "" {
			in.warnings = append(in.warnings, graph.Warning{Node: n.Name, Text: fmt.Sprintf("function %s is not inlined: %s", f.id(), f.foreign)})
		} else if f != nil {
			if err := in.replace(g, id, f, names); err != nil {
				return g.ErrorAt("", id, fmt.Errorf("function %s: %w", f.id(), err))
			}
		}
	}
	return nil
}

// replace puts the body of f in the place of call id.
func (in *inliner) replace(g *graph.Graph, id graph.NodeID, f *callee, names *prefixes) error {
	if f.body == nil {
		f.body = f.Graph.Clone()
		if err := in.expand(f.body, newPrefixes(f.body)); err != nil {
			return err
		}
	}
	call := *g.Node(id)
	call.Inputs, call.Outputs = slices.Clone(call.Inputs), slices.Clone(call.Outputs)
	if len(call.Inputs) > len(f.body.Inputs) || len(call.Outputs) > len(f.body.Outputs) {
		return fmt.Errorf("%d inputs and %d outputs for a function of %d and %d", len(call.Inputs), len(call.Outputs),
			len(f.body.Inputs), len(f.body.Outputs))
	}
	for _, v := range call.Outputs { // kept, though its producer goes and perhaps nobody reads it
		if v != graph.NoValue {
			g.Outputs = append(g.Outputs, v)
		}
	}
	kept := g.Outputs
	g.RemoveNode(id)
	c := &copier{to: g, prefix: names.fresh(call.Name), attrs: f.arguments(&call), names: map[string]graph.ValueID{}}
	for i, v := range f.body.Inputs {
		c.names[f.body.Value(v).Name] = call.Input(i)
	}
	var direct []int // outputs that are inputs, or stand twice in the list
	for i, v := range f.body.Outputs {
		name := f.body.Value(v).Name
		if _, known := c.names[name]; known {
			direct = append(direct, i)
		} else if out := call.Output(i); out != graph.NoValue {
			c.names[name] = out
		}
	}
	if err := c.body(f.body); err != nil {
		return err
	}
	g.Outputs = kept[:len(kept)-present(call.Outputs)]
	for _, i := range direct {
		out, from := call.Output(i), c.names[f.body.Value(f.body.Outputs[i]).Name]
		if out == graph.NoValue {
			continue
		}
		if from == graph.NoValue {
			return fmt.Errorf("output %d is an input that the call leaves out", i)
		}
		if _, err := g.AddNode(graph.Node{Name: c.prefix + "output", Op: "Identity", Inputs: []graph.ValueID{from},
			Outputs: []graph.ValueID{out}}); err != nil {
			return err
		}
	}
	return nil
}

func present(list []graph.ValueID) int {
	n := 0
	for _, v := range list {
		if v != graph.NoValue {
			n++
		}
	}
	return n
}

// arguments returns the attributes that a call gives a function, defaults included.
func (f *callee) arguments(call *graph.Node) map[string]*graph.Attr {
	args := make(map[string]*graph.Attr, len(f.Attributes))
	for i := range f.Defaults {
		args[f.Defaults[i].Name] = &f.Defaults[i]
	}
	for i := range call.Attrs {
		args[call.Attrs[i].Name] = &call.Attrs[i]
	}
	return args
}

// prefixes tells which beginnings of names are free in a graph.
type prefixes struct {
	names []string // of the graph and all in it, sorted
	taken map[string]bool
}

func newPrefixes(g *graph.Graph) *prefixes {
	p := &prefixes{taken: map[string]bool{}}
	p.collect(g)
	slices.Sort(p.names)
	return p
}

func (p *prefixes) collect(g *graph.Graph) {
	for _, v := range g.Values() {
		p.names = append(p.names, g.Value(v).Name)
	}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		p.names = append(p.names, n.Name)
		for _, sub := range n.Subgraphs() {
			p.collect(sub)
		}
	}
}

// fresh returns a prefix that no name has: that of a call's name where it is free.
func (p *prefixes) fresh(call string) string {
	prefix := call + "/"
	for i := 1; p.taken[prefix] || p.used(prefix); i++ {
		prefix = fmt.Sprintf("%s_%d/", call, i)
	}
	p.taken[prefix] = true
	return prefix
}

func (p *prefixes) used(prefix string) bool {
	i, _ := slices.BinarySearch(p.names, prefix)
	return i < len(p.names) && strings.HasPrefix(p.names[i], prefix)
}

var errNoOutput = errors.New("an output of a nested graph is an input that the call leaves out")

// calls reports whether a node of g, or of a graph in it, calls one of the functions.
func calls(g *graph.Graph, functions []Function) bool {
	for _, id := range g.Nodes() {
		n := g.Node(id)
		if slices.ContainsFunc(functions, func(f Function) bool {
			return idOf(f.Domain, f.Name, f.Overload) == idOf(n.Domain, n.Op, n.Overload)
		}) || slices.ContainsFunc(n.Subgraphs(), func(sub *graph.Graph) bool { return calls(sub, functions) }) {
			return true
		}
	}
	return false
}
