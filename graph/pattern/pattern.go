package pattern

import (
	"fmt"

	"qwb/graph"
)

// Pattern is a parsed pattern. It is immutable and safe for concurrent use.
//
//	pattern   = statement { ( newline | ";" ) statement }          "#" starts a comment; the last statement is the root
//	statement = name { "," name } "=" op { "|" op } "(" [ arg { "," arg } [ "," "..." ] ] ")" [ "{" cond { "," cond } "}" ]
//	op        = [ domain "::" ] op_type                             one of several; ai.onnx without domain
//	arg       = name [ "?" ]                                        "?": the input may be absent
//	          | number                                              a constant of one element equal to it
//	          | "const" name [ "?" ] [ relation number ]            a constant; the relation holds for all elements
//	          | "scalar" name [ "?" ] [ relation number ]           a constant of one element, of any rank
//	          | "_"                                                 an absent input
//	relation  = "==" | "!=" | "<" | "<=" | ">" | ">="
//	cond      = attr "=" value | attr "?=" value                    "?=": or the attribute is absent
//	value     = number | "text" | "[" [ number { "," number } ] "]"
//
// A name stands for the same value wherever it occurs; a name that no statement defines is any value. Inputs beyond the
// arguments must be absent unless "..." ends them. Operators that commute (Add, Mul, Sum, Max, Min, Mean, And, Or, Xor,
// Equal) with two arguments match in both orders. Equality of numbers is relative: |a-b| <= 1e-4 * |b|, which admits
// constants an exporter wrote with five digits; 0 equals 0 only, and no NaN satisfies any relation. A statement names its
// node by its first result. Outputs of a node that the statement does not name must be unused unless it is the root.
type Pattern struct {
	text  string
	stmts []statement
	vars  []variable
	names map[string]int // of variables
}

type statement struct {
	ops       []opName
	outs      []int // variables
	args      []int // variables, absent for "_"
	variadic  bool
	commutes  bool
	conds     []attrCond
	firstName string
}

const absent = -1

type opName struct{ domain, op string }

type variable struct {
	name     string
	stmt     int // the statement that computes it, -1 for a free one
	optional bool
	kind     constKind
	rel      relation // relNone: any element
	num      float64
}

type constKind uint8

const (
	anyValue constKind = iota
	constant
	scalar
)

// String returns the text the pattern was parsed from.
func (p *Pattern) String() string { return p.text }

// RootOps lists the operators the root may be, without domains.
func (p *Pattern) RootOps() []string {
	var ops []string
	for _, o := range p.root().ops {
		ops = append(ops, o.op)
	}
	return ops
}

func (p *Pattern) root() *statement { return &p.stmts[len(p.stmts)-1] }

// Has reports whether the pattern uses name.
func (p *Pattern) Has(name string) bool { _, ok := p.names[name]; return ok }

// Match is one place where a pattern holds.
type Match struct {
	Pattern *Pattern
	Root    graph.NodeID
	// Nodes are the matched nodes in the order of the pattern's statements; the root is the last.
	Nodes []graph.NodeID
	// values by variable
	values []graph.ValueID
}

// Node returns the node whose statement defines name as its first result, NoNode if there is no such statement.
func (m *Match) Node(name string) graph.NodeID {
	for i := range m.Pattern.stmts {
		if m.Pattern.stmts[i].firstName == name {
			return m.Nodes[i]
		}
	}
	return graph.NoNode
}

// Value returns the value bound to name, NoValue if the name is unknown or an absent optional input.
func (m *Match) Value(name string) graph.ValueID {
	if i, ok := m.Pattern.names[name]; ok {
		return m.values[i]
	}
	return graph.NoValue
}

// Inner returns the values computed by the matched nodes other than the root's, in the order of the statements.
func (m *Match) Inner() []graph.ValueID {
	var inner []graph.ValueID
	for i := range m.Pattern.stmts[:len(m.Pattern.stmts)-1] {
		for _, v := range m.Pattern.stmts[i].outs {
			if m.values[v] != graph.NoValue {
				inner = append(inner, m.values[v])
			}
		}
	}
	return inner
}

// Captures lists the names of free variables and the values bound to them, in order of first mention.
func (m *Match) Captures() (names []string, values []graph.ValueID) {
	for i, v := range m.Pattern.vars {
		if v.stmt < 0 && v.name != "" {
			names, values = append(names, v.name), append(values, m.values[i])
		}
	}
	return names, values
}

// Match matches p with root as its last statement.
func (p *Pattern) Match(g *graph.Graph, root graph.NodeID) (*Match, bool) {
	return p.search(g, root, true)
}

// Blocked explains why there is no match at root although operators, constants and attributes are as the pattern wants
// them: the error names the inner value that something else needs. It is nil if there is a match or no likeness at all.
func (p *Pattern) Blocked(g *graph.Graph, root graph.NodeID) error {
	if _, ok := p.search(g, root, true); ok {
		return nil
	}
	m, ok := p.search(g, root, false)
	if !ok {
		return nil
	}
	return m.exclusive(g)
}

// FindAll returns the matches of p, at most one per root, in the order of g.Order. Matches may overlap: see Cover. A graph with a
// cycle has none.
func (p *Pattern) FindAll(g *graph.Graph) []Match {
	order, err := g.Order()
	if err != nil {
		return nil
	}
	var found []Match
	for _, id := range order {
		if m, ok := p.Match(g, id); ok {
			found = append(found, *m)
		}
	}
	return found
}

// exclusive returns an error that names the first inner value that is needed outside of the match.
func (m *Match) exclusive(g *graph.Graph) error {
	for i, id := range m.Nodes[:len(m.Nodes)-1] {
		stmt := &m.Pattern.stmts[i]
		for k, v := range g.Node(id).Outputs {
			if v == graph.NoValue {
				continue
			}
			name := g.Value(v).Name
			if g.IsOutput(v) {
				return fmt.Errorf("%q is a graph output", name)
			}
			if k >= len(stmt.outs) && len(g.Uses(v)) > 0 {
				return fmt.Errorf("%q, another output of node %q, is in use", name, g.Node(id).Name)
			}
			for _, u := range g.Uses(v) {
				if !m.has(u.Node) {
					return fmt.Errorf("%q is also read by node %q (%s)", name, g.Node(u.Node).Name, g.Node(u.Node).Op)
				}
			}
			if g.Captured(v) {
				return fmt.Errorf("%q is read inside a subgraph", name)
			}
		}
	}
	return nil
}

func (m *Match) has(id graph.NodeID) bool {
	for _, n := range m.Nodes {
		if n == id {
			return true
		}
	}
	return false
}
