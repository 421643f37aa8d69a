package decision

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/quantizer/tqc"
)

// Selector says what a decision is about: operators, or inputs and outputs of operators. Selectors look at the normal form of the model
// and at nothing that is derived from it.
type Selector struct {
	text  string
	terms []term
}

// term is one part of a selector. A text that is the name of an operator is that operator whatever else it could mean; so the terms
// of a whole text are kept beside it.
type term struct {
	whole string // if an operator has this name, it is what is meant
	parts []part
}

// part is what stands between commas.
type part struct {
	text    string // for messages
	exclude bool
	name    string // if an operator has this name, it is what is meant, without a slot
	slot    *at    // what was cut off at the end
	base    string // the name that is left
	pick    func(g *graph.Graph, order []graph.NodeID) []graph.NodeID
	values  *value
}

// at is a slot of an operator.
type at struct {
	kind    tqc.Kind
	index   int
	weights bool // the constants that the operator multiplies by
}

// value is a tensor by its name, or all inputs or outputs of the graph ("*").
type value struct {
	kind tqc.Kind // Input: where it is read, Output: where it is computed
	name string
}

// ParseSelector reads selectors and joins them. Each is
//
//	conv1           the operator of that name; name:conv1 where the name could be something else
//	/^layer1/       operators whose names match a regular expression (RE2)
//	type:Softmax    operators of a type
//	pattern:swish   operators that are part of an idiom: attention, layernorm, rmsnorm, gelu, hardswish, mish, swish
//	first, last     the first and the last operator that multiplies by weights
//	depthwise       convolutions with one input channel per group
//	*               all
//
// A trailing :in0, :out0 (any number), :weight or :bias means that slot of the operators. input:x means wherever a tensor is read and
// output:x where it is computed, input:* and output:* the inputs and outputs of the graph. Commas join, \, is a comma that does not,
// ! excludes. Blanks around selectors are ignored; empty ones are errors.
func ParseSelector(texts ...string) (*Selector, error) {
	s := &Selector{text: strings.Join(texts, ",")}
	for _, text := range texts {
		t := term{whole: text}
		for _, piece := range split(text) {
			p, err := parsePart(piece)
			if err != nil {
				return nil, err
			}
			t.parts = append(t.parts, p)
		}
		s.terms = append(s.terms, t)
	}
	return s, nil
}

// String returns the text that the selector was parsed from.
func (s *Selector) String() string { return s.text }

// split cuts at commas that no backslash precedes.
func split(text string) []string {
	parts := []string{""}
	for i := 0; i < len(text); i++ {
		last := &parts[len(parts)-1]
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == ',':
			*last += ","
			i++
		case text[i] == ',':
			parts = append(parts, "")
		default:
			*last += text[i : i+1]
		}
	}
	return parts
}

func parsePart(text string) (part, error) {
	p := part{text: strings.Trim(text, " \t\r\n")} // other blanks may be a name
	rest, exclude := strings.CutPrefix(p.text, "!")
	p.exclude, p.name = exclude, rest
	p.slot, p.base = cutSlot(rest)
	return p, p.parseBase()
}

// cutSlot cuts :inN, :outN, :weight or :bias off.
func cutSlot(text string) (*at, string) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return nil, text
	}
	switch word := text[i+1:]; word {
	case "weight":
		return &at{weights: true}, text[:i]
	case "bias":
		return &at{index: graph.BiasInput}, text[:i]
	default:
		if kind, n, ok := ParseAt(word); ok {
			return &at{kind: kind, index: n}, text[:i]
		}
	}
	return nil, text
}

// ParseAt reads a slot's place at its operator: in0, out1. At is its inverse.
func ParseAt(s string) (kind tqc.Kind, index int, ok bool) {
	for _, k := range []tqc.Kind{tqc.Input, tqc.Output} {
		digits, found := strings.CutPrefix(s, k.String())
		n, err := strconv.Atoi(digits)
		if found && err == nil && n >= 0 && At(k, n) == s {
			return k, n, true
		}
	}
	return 0, 0, false
}

// At names the place of a slot at its operator.
func At(k tqc.Kind, index int) string { return k.String() + strconv.Itoa(index) }

func (p *part) parseBase() error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("selector %q: %s", p.text, fmt.Sprintf(format, a...))
	}
	word, rest, colon := strings.Cut(p.base, ":")
	switch {
	case p.base == "" || p.base == "//":
		return fmt.Errorf("selector %q is empty", p.text)
	case len(p.base) >= 2 && p.base[0] == '/' && p.base[len(p.base)-1] == '/':
		re, err := regexp.Compile(p.base[1 : len(p.base)-1])
		if err != nil {
			return fail("%v", err)
		}
		p.pick = where(func(_ *graph.Graph, n *graph.Node) bool { return re.MatchString(n.Name) })
	case colon && word == "type":
		op := strings.TrimSpace(rest)
		if op == "" {
			return fmt.Errorf("selector %q names no operator type", p.text)
		}
		p.pick = where(func(_ *graph.Graph, n *graph.Node) bool { return n.Op == op })
	case colon && word == "pattern":
		i := slices.IndexFunc(pattern.Families, func(f *pattern.Family) bool { return strings.EqualFold(f.Name, strings.TrimSpace(rest)) })
		if i < 0 {
			return fail("there is no pattern %q: one of %s", rest, families())
		}
		p.pick = func(g *graph.Graph, order []graph.NodeID) []graph.NodeID {
			return inFamily(g, order, pattern.Families[i])
		}
	case colon && (word == "input" || word == "output") && rest != "":
		if p.slot != nil {
			return fail("a tensor has no slots")
		}
		p.values = &value{kind: tqc.Input, name: rest}
		if word == "output" {
			p.values.kind = tqc.Output
		}
	case colon && word == "name" && rest != "":
		p.pick = where(func(_ *graph.Graph, n *graph.Node) bool { return n.Name == rest })
	case picks[p.base] != nil:
		p.pick = picks[p.base]
	default:
		base := p.base
		p.pick = where(func(_ *graph.Graph, n *graph.Node) bool { return n.Name == base })
	}
	return nil
}

func families() string {
	var list []string
	for _, f := range pattern.Families {
		list = append(list, strings.ToLower(f.Name))
	}
	return strings.Join(list, ", ")
}

func where(holds func(*graph.Graph, *graph.Node) bool) func(*graph.Graph, []graph.NodeID) []graph.NodeID {
	return func(g *graph.Graph, order []graph.NodeID) []graph.NodeID {
		var list []graph.NodeID
		for _, id := range order {
			if holds(g, g.Node(id)) {
				list = append(list, id)
			}
		}
		return list
	}
}

// picks are the selectors that are a word.
var picks = map[string]func(*graph.Graph, []graph.NodeID) []graph.NodeID{
	"*": where(func(*graph.Graph, *graph.Node) bool { return true }),
	"first": func(g *graph.Graph, order []graph.NodeID) []graph.NodeID {
		list := where(multiplies)(g, order)
		return list[:min(1, len(list))]
	},
	"last": func(g *graph.Graph, order []graph.NodeID) []graph.NodeID {
		list := where(multiplies)(g, order)
		return list[max(0, len(list)-1):]
	},
	"depthwise": where(depthwise),
}

// isWeight reports whether input i of a node is a constant that the operator multiplies by.
func isWeight(g *graph.Graph, n *graph.Node, i int) bool {
	spec := n.Spec()
	weights := spec != nil && spec.Kind == graph.KindComputing && i != graph.BiasInput || graph.IsRecurrent(n) && (i == graph.WeightInput ||
		i == graph.RecurrenceInput)
	return weights && g.Const(n.Input(i)) != nil
}

func multiplies(g *graph.Graph, n *graph.Node) bool {
	for i := range n.Inputs {
		if isWeight(g, n, i) {
			return true
		}
	}
	return false
}

// depthwise reports whether each output channel of a convolution reads one input channel, of several.
func depthwise(g *graph.Graph, n *graph.Node) bool {
	if n.Op != "Conv" || n.Input(1) == graph.NoValue {
		return false
	}
	w := g.Value(n.Input(1)).Shape
	return len(w) > 1 && w[1].Known() && w[1].N == 1 && n.Conv().Group > 1
}

func inFamily(g *graph.Graph, order []graph.NodeID, f *pattern.Family) []graph.NodeID {
	in := map[graph.NodeID]bool{}
	for _, found := range pattern.Cover(g, f) {
		for _, id := range found.Nodes {
			in[id] = true
		}
	}
	return where(func(_ *graph.Graph, n *graph.Node) bool { return in[n.ID] })(g, order)
}

// Match is what a selector means in a graph.
type Match struct {
	Nodes []graph.NodeID // selected as a whole, in g.Order
	// Slots are selected by themselves, ascending; Except are slots of Nodes that were excluded.
	Slots, Except []tqc.SlotID
}

// Match returns what is selected in g, whose slots are numbered as in set, any set of g. A part that matches nothing is an error: a
// misspelt name must not pass silently.
func (s *Selector) Match(g *graph.Graph, set *tqc.Set) (*Match, error) {
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("select: %w", err)
	}
	m := &matcher{g: g, set: set, order: order, nodes: map[graph.NodeID]bool{}, slots: map[tqc.SlotID]bool{}, except: map[tqc.SlotID]bool{}}
	includes := false
	for _, exclude := range []bool{false, true} {
		for _, t := range s.terms {
			if id, ok := g.LookupNode(t.whole); ok {
				if !exclude {
					includes = true
					m.node(id, false)
				}
				continue
			}
			for i := range t.parts {
				if p := &t.parts[i]; p.exclude == exclude {
					includes = includes || !exclude
					if err := m.part(p); err != nil {
						return nil, err
					}
				}
			}
		}
		if !exclude && !includes { // everything but what is excluded
			for _, id := range order {
				m.node(id, false)
			}
		}
	}
	out := &Match{}
	for _, id := range order {
		if m.nodes[id] {
			out.Nodes = append(out.Nodes, id)
		}
	}
	for id := range tqc.SlotID(set.NumSlots()) {
		if m.slots[id] {
			out.Slots = append(out.Slots, id)
		}
		if m.except[id] && m.nodes[set.Slot(id).Node] {
			out.Except = append(out.Except, id)
		}
	}
	if len(out.Nodes)+len(out.Slots) == 0 {
		return nil, fmt.Errorf("selector %q excludes all that it selects", s.text)
	}
	return out, nil
}

// Nodes returns the operators of g that selectors mean, in g.Order. Tensors among them are an error.
func Nodes(g *graph.Graph, texts ...string) ([]graph.NodeID, error) {
	s, err := ParseSelector(texts...)
	if err != nil {
		return nil, err
	}
	m, err := s.Match(g, tqc.NewSet(g))
	if err != nil {
		return nil, err
	}
	if len(m.Slots)+len(m.Except) > 0 {
		return nil, fmt.Errorf("selector %q means tensors, not operators", s.text)
	}
	return m.Nodes, nil
}

type matcher struct {
	g      *graph.Graph
	set    *tqc.Set
	order  []graph.NodeID
	nodes  map[graph.NodeID]bool
	slots  map[tqc.SlotID]bool
	except map[tqc.SlotID]bool
}

func (m *matcher) node(id graph.NodeID, exclude bool) {
	m.nodes[id] = !exclude
	if exclude {
		for _, list := range [][]tqc.SlotID{m.set.Inputs(id), m.set.Outputs(id)} {
			for _, s := range list {
				delete(m.slots, s)
			}
		}
	}
}

func (m *matcher) slot(id tqc.SlotID, exclude bool) {
	if exclude {
		delete(m.slots, id)
		m.except[id] = true
		return
	}
	m.slots[id] = true
}

func (m *matcher) part(p *part) error {
	if id, ok := m.g.LookupNode(p.name); ok {
		m.node(id, p.exclude)
		return nil
	}
	if p.values != nil {
		return m.tensors(p)
	}
	var nodes []graph.NodeID
	if id, ok := m.g.LookupNode(p.base); ok {
		nodes = []graph.NodeID{id}
	} else {
		nodes = p.pick(m.g, m.order)
	}
	if len(nodes) == 0 {
		return fmt.Errorf("selector %q matches no node%s", p.text, m.hint(p))
	}
	if p.slot == nil {
		for _, id := range nodes {
			m.node(id, p.exclude)
		}
		return nil
	}
	found := false
	for _, id := range nodes {
		for _, s := range m.at(id, p.slot) {
			m.slot(s, p.exclude)
			found = true
		}
	}
	if !found {
		return fmt.Errorf("selector %q matches no input or output: %q has none such", p.text, m.g.Node(nodes[0]).Name)
	}
	return nil
}

// at lists the slots of a node that a slot part means.
func (m *matcher) at(id graph.NodeID, where *at) []tqc.SlotID {
	var list []tqc.SlotID
	switch {
	case where.weights:
		for i, s := range m.set.Inputs(id) {
			if s != tqc.NoSlot && isWeight(m.g, m.g.Node(id), i) {
				list = append(list, s)
			}
		}
		return list
	case where.kind == tqc.Input:
		list = append(list, m.set.Input(id, where.index))
	default:
		list = append(list, m.set.Output(id, where.index))
	}
	if list[0] == tqc.NoSlot {
		return nil
	}
	return list
}

// tensors selects the slots that read or compute a tensor.
func (m *matcher) tensors(p *part) error {
	found := false
	for id := range tqc.SlotID(m.set.NumSlots()) {
		sl := m.set.Slot(id)
		name := m.g.Value(sl.Value).Name
		hit := name == p.values.name
		if p.values.name == "*" {
			hit = p.values.kind == tqc.Input && m.g.IsInput(sl.Value) || p.values.kind == tqc.Output && m.g.IsOutput(sl.Value)
		}
		if sl.Kind == p.values.kind && hit {
			m.slot(id, p.exclude)
			found = true
		}
	}
	if !found {
		verb := "reads"
		if p.values.kind == tqc.Output {
			verb = "computes"
		}
		return fmt.Errorf("selector %q: no operator %s a tensor %q", p.text, verb, p.values.name)
	}
	return nil
}

// hint names a node whose name differs in case only, or contains the selector's name, or is spelled nearly so; of a type the nearest that
// the graph has.
func (m *matcher) hint(p *part) string {
	if kind, ok := strings.CutPrefix(p.base, "type:"); ok {
		return m.nearest("type:", kind, func(n *graph.Node) string { return n.Op })
	}
	if strings.ContainsAny(p.base, ":*/") && p.base[0] != '/' || picks[p.base] != nil {
		return ""
	}
	i := slices.IndexFunc(m.order, func(id graph.NodeID) bool {
		return strings.Contains(strings.ToLower(m.g.Node(id).Name), strings.ToLower(p.base))
	})
	if i < 0 {
		return m.nearest("", p.base, func(n *graph.Node) string { return n.Name })
	}
	return fmt.Sprintf("; did you mean %q?", m.g.Node(m.order[i]).Name)
}

// nearest names what is spelled most like a word, with at most a third of its letters otherwise (two of a short one); the first in graph
// order.
func (m *matcher) nearest(prefix, word string, of func(n *graph.Node) string) string {
	best, least := "", max(len(word)/3, min(2, len(word)/2))+1
	for _, id := range m.order {
		if s := of(m.g.Node(id)); s != best && s != "" {
			if d := edits(strings.ToLower(word), strings.ToLower(s), least); d < least {
				best, least = s, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", prefix+best)
}

// edits is how many letters have to be changed, added or left out to make b of a (Levenshtein); at least most where it is that many.
func edits(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before, row[j+1] = row[j+1], min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
