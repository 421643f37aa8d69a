package graph

import (
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// nodeStatement parses outputs = op(inputs) {attributes} "name". word, if not empty, is the first output's name, already read.
func (p *parser) nodeStatement(s *scope, word token) error {
	var n Node
	at := word
	if word.kind == tokEOF {
		at = p.tok
	}
	for first := true; first || p.is(","); first = false {
		if !first {
			if err := p.advance(); err != nil {
				return err
			}
		}
		t := word
		if !first || word.kind == tokEOF {
			var err error
			if t, err = p.name("a value's name"); err != nil {
				return err
			}
		}
		id, err := p.outputOf(s, t)
		if err != nil {
			return err
		}
		n.Outputs = append(n.Outputs, id)
	}
	if err := p.expect("="); err != nil {
		return err
	}
	if err := p.op(&n); err != nil {
		return err
	}
	err := p.sequence("(", ")", func() error {
		t, err := p.name("an input's name")
		if err != nil {
			return err
		}
		if t.kind == tokName && t.text == "_" {
			n.Inputs = append(n.Inputs, NoValue)
			return nil
		}
		if t.text == "" {
			return t.errorf("a value needs a name")
		}
		n.Inputs = append(n.Inputs, s.use(t))
		return nil
	})
	if err != nil {
		return err
	}
	if p.is("{") {
		err := p.sequence("{", "}", func() error {
			a, err := p.attr(s)
			if err == nil {
				n.Attrs = append(n.Attrs, a)
			}
			return err
		})
		if err != nil {
			return err
		}
		if dup := repeatedAttr(n.Attrs); dup != "" {
			return at.errorf("attribute %q is given twice", dup)
		}
	}
	if p.tok.kind == tokQuoted {
		n.Name, at = p.tok.text, p.tok
		if err := p.advance(); err != nil {
			return err
		}
	} else if n.Name = defaultNodeName(s.g, &n); n.Name == "" {
		n.Name = s.g.FreshName(n.Op)
	}
	if _, taken := s.g.LookupNode(n.Name); taken || n.Name == "" {
		return at.errorf("node name %q is empty or taken", n.Name)
	}
	if _, err := s.g.AddNode(n); err != nil {
		return at.errorf("%w", err)
	}
	return nil
}

func (p *parser) outputOf(s *scope, t token) (ValueID, error) {
	if t.kind == tokName && t.text == "_" {
		return NoValue, nil
	}
	id, err := s.def(t)
	if err == nil && p.is(":") {
		_, _, err = p.valueType(s, t, id)
	}
	return id, err
}

// op parses [ domain "::" ] op_type [ "@" overload ].
func (p *parser) op(n *Node) error {
	t, err := p.name("an operator")
	if err != nil {
		return err
	}
	if more, err := p.accept("::"); err != nil {
		return err
	} else if more {
		n.Domain = t.text
		if t, err = p.name("an operator"); err != nil {
			return err
		}
	}
	n.Op = t.text
	if more, err := p.accept("@"); err != nil || !more {
		return err
	}
	t, err = p.name("an overload")
	n.Overload = t.text
	return err
}

func repeatedAttr(attrs []Attr) string {
	seen := make(map[string]bool, len(attrs))
	for i := range attrs {
		if seen[attrs[i].Name] {
			return attrs[i].Name
		}
		seen[attrs[i].Name] = true
	}
	return ""
}

func (p *parser) attr(s *scope) (Attr, error) {
	t, err := p.name("an attribute's name")
	if err != nil {
		return Attr{}, err
	}
	if err := p.expect("="); err != nil {
		return Attr{}, err
	}
	var a Attr
	if p.is("[") {
		a, err = p.attrList(s)
	} else {
		a, err = p.attrValue(s)
	}
	a.Name = t.text
	return a, err
}

// attrValue parses a value that is not a list in brackets.
func (p *parser) attrValue(s *scope) (Attr, error) {
	t := p.tok
	switch {
	case t.kind == tokQuoted:
		return Attr{Kind: AttrString, S: t.text}, p.advance()
	case t.kind == tokNumber || t.kind == tokName && (t.text == "inf" || t.text == "nan"):
		a, err := number(t)
		if err != nil {
			return a, err
		}
		return a, p.advance()
	case t.kind != tokName:
		return Attr{}, t.errorf("expected an attribute's value, found %s", t)
	}
	switch t.text {
	case "graph":
		g, err := p.subgraph(s)
		return Attr{Kind: AttrGraph, G: g}, err
	case "ref", "raw":
		return p.special(t)
	case "floats", "strings", "tensors", "graphs":
		if err := p.advance(); err != nil {
			return Attr{}, err
		}
		a := Attr{Kind: kindOf(t.text)}
		return a, p.sequence("[", "]", func() error { return p.tok.errorf("only an empty list is written with its kind") })
	}
	d, shape, err := p.typ()
	if err != nil {
		return Attr{}, err
	}
	c, err := p.data(t, d, shape)
	return Attr{Kind: AttrTensor, T: c}, err
}

func kindOf(name string) AttrKind {
	for k, s := range attrKinds {
		if s == name && s != "" {
			return AttrKind(k)
		}
	}
	return 0
}

// special parses ref(kind, name) and raw("bytes").
func (p *parser) special(t token) (Attr, error) {
	if err := p.advance(); err != nil {
		return Attr{}, err
	}
	var args []token
	err := p.sequence("(", ")", func() error {
		arg, err := p.name("an argument")
		args = append(args, arg)
		return err
	})
	switch {
	case err != nil:
		return Attr{}, err
	case t.text == "raw" && len(args) == 1:
		return Attr{Kind: AttrOpaque, Raw: []byte(args[0].text)}, nil
	case t.text == "ref" && len(args) == 2 && args[1].text != "" && kindOf(args[0].text) != 0:
		return Attr{Kind: kindOf(args[0].text), RefAttr: args[1].text}, nil
	}
	return Attr{}, t.errorf("expected ref(kind, name) or raw(\"bytes\")")
}

func number(t token) (Attr, error) {
	if !strings.HasPrefix(t.text, "0x") && strings.ContainsAny(t.text, ".eEn") {
		v, err := parseF32(t.text)
		if err != nil {
			return Attr{}, t.errorf("%q: %w", t.text, reason(err))
		}
		return Attr{Kind: AttrFloat, F: v}, nil
	}
	v, err := strconv.ParseInt(t.text, base(t.text), 64)
	if err != nil {
		return Attr{}, t.errorf("%q: %w", t.text, reason(err))
	}
	return Attr{Kind: AttrInt, I: v}, nil
}

// attrList parses a list in brackets. Its kind follows from the elements; a float among ints makes them floats.
func (p *parser) attrList(s *scope) (Attr, error) {
	at := p.tok
	a := Attr{Kind: AttrInts, Ints: []int64{}}
	kind := AttrKind(0)
	err := p.sequence("[", "]", func() error {
		t := p.tok
		e, err := p.attrValue(s)
		if err != nil {
			return err
		}
		switch {
		case kind == 0 || kind == AttrInt && e.Kind == AttrFloat:
			kind = e.Kind
		case kind != e.Kind && !(kind == AttrFloat && e.Kind == AttrInt):
			return t.errorf("list mixes %s and %s", attrKinds[kind], t)
		}
		switch e.Kind {
		case AttrInt:
			a.Ints = append(a.Ints, e.I)
			a.Floats = append(a.Floats, float32(e.I))
		case AttrFloat:
			a.Floats = append(a.Floats, e.F)
		case AttrString:
			a.Strings = append(a.Strings, e.S)
		case AttrTensor:
			a.Tensors = append(a.Tensors, e.T)
		case AttrGraph:
			a.Graphs = append(a.Graphs, e.G)
		default:
			return t.errorf("%s cannot stand in a list", t)
		}
		return nil
	})
	switch kind {
	case 0, AttrInt:
		a.Floats = nil
	case AttrFloat:
		a.Kind, a.Ints = AttrFloats, nil
	case AttrString:
		a.Kind, a.Ints = AttrStrings, nil
	case AttrTensor:
		a.Kind, a.Ints = AttrTensors, nil
	case AttrGraph:
		a.Kind, a.Ints = AttrGraphs, nil
	}
	if err == nil && kind != 0 && int(kind) >= len(attrKinds) {
		err = at.errorf("a list cannot hold opaque attributes")
	}
	return a, err
}

// subgraph parses graph [ name ] { statements }.
func (p *parser) subgraph(s *scope) (*Graph, error) {
	at := p.tok
	if p.depth++; p.depth > maxNesting {
		return nil, at.errorf("more than %d subgraphs within each other", maxNesting)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	g := New("", 0)
	g.Opsets = append([]Opset(nil), s.g.Opsets...)
	if p.isName() {
		g.Name = p.tok.text
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	if !p.is("{") {
		return nil, p.tok.errorf("expected \"{\", found %s", p.tok)
	}
	nest := p.nest
	p.nest = 0
	if err := p.advance(); err != nil {
		return nil, err
	}
	outer, err := p.graph(g, tokPunct)
	if err != nil {
		return nil, err
	}
	for name, t := range outer {
		if old, ok := s.open[name]; !ok || t.line < old.line || t.line == old.line && t.col < old.col {
			s.open[name] = t
		}
	}
	p.nest, p.depth = nest, p.depth-1
	return g, p.advance()
}

// data parses the elements of a constant of the given type; at is where errors about the type point to.
func (p *parser) data(at token, d tensor.DType, shape Shape) (*tensor.Tensor, error) {
	if gen := generatorOf(p.tok); gen != nil {
		return p.generated(at, gen, d, shape)
	}
	dims, n, err := staticShape(at, d, shape, maxLiteralCount)
	if err != nil {
		return nil, err
	}
	var lits []string
	var toks []token
	element := func() error {
		if p.tok.kind == tokPunct && p.tok.text == "..." {
			return p.tok.errorf("the data of this constant were left out when the text was written")
		}
		if (p.tok.kind == tokQuoted) != (d == tensor.String) || p.tok.kind != tokQuoted && p.tok.kind != tokNumber && p.tok.kind != tokName {
			return p.tok.errorf("expected a value of type %s, found %s", d, p.tok)
		}
		toks, lits = append(toks, p.tok), append(lits, p.tok.text)
		return p.advance()
	}
	at = p.tok
	if p.is("[") {
		err = p.sequence("[", "]", element)
	} else {
		err = element()
	}
	if err != nil {
		return nil, err
	}
	var data any = lits
	if d != tensor.String {
		var bad int
		if data, bad, err = parseElements(d, n, lits); err != nil {
			if len(lits) > bad && bad > 0 {
				at = toks[bad]
			}
			return nil, at.errorf("%w", err)
		}
	} else if len(lits) != n {
		return nil, at.errorf("%d values where %s needs %d", len(lits), d, n)
	} else if lits == nil {
		data = []string{}
	}
	return &tensor.Tensor{DType: d, Shape: dims, Data: data}, nil
}
