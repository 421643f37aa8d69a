package graph

import (
	"fmt"
	"strconv"

	"qwb/graph/tensor"
)

const (
	defaultOpset    = 17
	maxNesting      = 64      // subgraphs within subgraphs
	maxGenerated    = 1 << 27 // elements that generators of one text may make
	maxLiteralCount = 1 << 31 // elements of one written type; the literals themselves bound the memory
)

// Parse reads the text form described at Format. The result satisfies Check but for cycles. Errors are *ParseError.
func Parse(text string) (*Graph, error) { return parse(text, maxGenerated) }

func parse(text string, budget int) (*Graph, error) {
	p := &parser{lex: lexer{src: text, line: 1}, budget: budget}
	if err := p.advance(); err != nil {
		return nil, err
	}
	g := New("", defaultOpset)
	open, err := p.graph(g, tokEOF)
	if err != nil {
		return nil, err
	}
	if t, any := earliest(open); any {
		return nil, t.errorf("value %q is not defined", t.text)
	}
	return g, nil
}

type parser struct {
	lex    lexer
	tok    token
	nest   int // open brackets: line ends inside them are blanks
	depth  int
	budget int
}

// scope is one graph being parsed. open holds the names that are read but not defined so far, by their first use.
type scope struct {
	g      *Graph
	open   map[string]token
	opsets bool
}

func (p *parser) advance() error {
	for {
		t, err := p.lex.next()
		if err != nil {
			return err
		}
		if t.kind != tokEnd || p.nest == 0 {
			p.tok = t
			return nil
		}
	}
}

func (p *parser) is(punct string) bool { return p.tok.kind == tokPunct && p.tok.text == punct }

func (p *parser) isName() bool { return p.tok.kind == tokName || p.tok.kind == tokQuoted }

// accept consumes punct if it is next.
func (p *parser) accept(punct string) (bool, error) {
	if !p.is(punct) {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) expect(punct string) error {
	if !p.is(punct) {
		return p.tok.errorf("expected %q, found %s", punct, p.tok)
	}
	return p.advance()
}

func (p *parser) name(what string) (token, error) {
	if !p.isName() {
		return p.tok, p.tok.errorf("expected %s, found %s", what, p.tok)
	}
	t := p.tok
	return t, p.advance()
}

// sequence parses open, items separated by commas, close.
func (p *parser) sequence(open, close string, item func() error) error {
	if !p.is(open) {
		return p.tok.errorf("expected %q, found %s", open, p.tok)
	}
	p.nest++
	if err := p.advance(); err != nil {
		return err
	}
	for !p.is(close) {
		if err := item(); err != nil {
			return err
		}
		if !p.is(close) {
			if err := p.expect(","); err != nil {
				return err
			}
		}
	}
	p.nest--
	return p.advance()
}

// graph parses statements into g up to end (tokEOF, or tokPunct for a closing brace, which is left to the caller) and
// returns the names that g reads from outside.
func (p *parser) graph(g *Graph, end tokenKind) (map[string]token, error) {
	s := &scope{g: g, open: map[string]token{}}
	for first := true; ; {
		for p.tok.kind == tokEnd {
			if err := p.advance(); err != nil {
				return nil, err
			}
		}
		if p.tok.kind == tokEOF && end == tokEOF || end == tokPunct && p.is("}") {
			break
		}
		start := p.tok
		if err := p.statement(s, first && end == tokEOF); err != nil {
			return nil, err
		}
		first = false
		if p.tok.kind != tokEnd && p.tok.kind != tokEOF && !(end == tokPunct && p.is("}")) {
			return nil, p.tok.errorf("expected the end of the statement, found %s", p.tok)
		}
		if p.tok.kind == tokEOF && end == tokPunct {
			return nil, start.errorf("subgraph is not closed")
		}
	}
	return s.outside(), nil
}

// outside marks what nobody defines as captured and returns it, with what the subgraphs capture through this graph.
func (s *scope) outside() map[string]token {
	outer := map[string]token{}
	for name, t := range s.open {
		id, own := s.g.byName[name]
		if own && s.g.values[id].defined(s.g) {
			continue
		}
		if own {
			s.g.values[id].Outer = true
		}
		outer[name] = t
	}
	return outer
}

func (v *Value) defined(g *Graph) bool {
	return v.producer != NoNode || v.Const != nil || g.IsInput(v.ID)
}

func earliest(open map[string]token) (first token, any bool) {
	for _, t := range open {
		if !any || t.line < first.line || t.line == first.line && t.col < first.col {
			first, any = t, true
		}
	}
	return first, any
}

// use returns the value called t, which may be defined later or outside.
func (s *scope) use(t token) ValueID {
	if id, ok := s.g.byName[t.text]; ok {
		return id
	}
	if _, ok := s.open[t.text]; !ok {
		s.open[t.text] = t
	}
	id, _ := s.g.AddValue(Value{Name: t.text})
	return id
}

// def returns the value called t, which must not be defined yet.
func (s *scope) def(t token) (ValueID, error) {
	if id, ok := s.g.byName[t.text]; ok {
		if s.g.values[id].defined(s.g) {
			return id, t.errorf("value %q is defined twice", t.text)
		}
		return id, nil
	}
	if t.text == "" {
		return NoValue, t.errorf("a value needs a name")
	}
	return s.g.AddValue(Value{Name: t.text})
}

func (s *scope) setType(id ValueID, t token, d tensor.DType, shape Shape) error {
	v := &s.g.values[id]
	if v.DType == tensor.Undefined && v.Shape == nil {
		v.DType, v.Shape = d, shape
	} else if was, is := FormatType(v.DType, v.Shape), FormatType(d, shape); was != is {
		return t.errorf("value %q has type %s, not %s", v.Name, was, is)
	}
	return nil
}

func (p *parser) statement(s *scope, first bool) error {
	if p.tok.kind != tokName {
		return p.nodeStatement(s, token{})
	}
	word := p.tok
	if err := p.advance(); err != nil {
		return err
	}
	if !p.isName() && !(word.text == "opset" && p.tok.kind == tokNumber) {
		return p.nodeStatement(s, word)
	}
	switch word.text {
	case "graph":
		if !first {
			return word.errorf("the graph line must come first")
		}
		t, err := p.name("the graph's name")
		s.g.Name = t.text
		return err
	case "opset":
		return p.opset(s)
	case "input":
		return p.commaList(func() error { return p.input(s) })
	case "const":
		return p.constant(s)
	case "output":
		return p.commaList(func() error { return p.output(s) })
	}
	return p.tok.errorf("expected \"=\" or \",\" after %s, found %s", word, p.tok)
}

func (p *parser) commaList(item func() error) error {
	for {
		if err := item(); err != nil {
			return err
		}
		if more, err := p.accept(","); err != nil || !more {
			return err
		}
	}
}

func (p *parser) opset(s *scope) error {
	domain, at := "", p.tok
	if p.isName() {
		domain = p.tok.text
		if err := p.advance(); err != nil {
			return err
		}
	}
	version, err := strconv.ParseInt(p.tok.text, 10, 64)
	if p.tok.kind != tokNumber || err != nil {
		return p.tok.errorf("expected an opset version, found %s", p.tok)
	}
	if !s.opsets {
		s.g.Opsets, s.opsets = nil, true
	}
	for _, o := range s.g.Opsets {
		if o.Domain == domain {
			return at.errorf("opset of domain %q is stated twice", domain)
		}
	}
	s.g.Opsets = append(s.g.Opsets, Opset{domain, version})
	return p.advance()
}

func (p *parser) input(s *scope) error {
	t, err := p.name("an input's name")
	if err != nil {
		return err
	}
	id, err := s.def(t)
	if err != nil {
		return err
	}
	s.g.Inputs = append(s.g.Inputs, id)
	return p.typeAndData(s, t, id, false)
}

func (p *parser) constant(s *scope) error {
	t, err := p.name("a constant's name")
	if err != nil {
		return err
	}
	id, err := s.def(t)
	if err != nil {
		return err
	}
	return p.typeAndData(s, t, id, true)
}

// typeAndData parses [ ":" type ] [ "=" data ] of value id; must says that both are needed.
func (p *parser) typeAndData(s *scope, t token, id ValueID, must bool) error {
	if !p.is(":") {
		if must {
			return p.tok.errorf("expected the type of constant %q, found %s", t.text, p.tok)
		}
		return nil
	}
	d, shape, err := p.valueType(s, t, id)
	if err != nil || !must && !p.is("=") {
		return err
	}
	if err := p.expect("="); err != nil {
		return err
	}
	c, err := p.data(t, d, shape)
	if err == nil {
		s.g.SetConst(id, c)
	}
	return err
}

// valueType parses ":" type and records it for value id.
func (p *parser) valueType(s *scope, t token, id ValueID) (tensor.DType, Shape, error) {
	if err := p.expect(":"); err != nil {
		return 0, nil, err
	}
	d, shape, err := p.typ()
	if err != nil {
		return 0, nil, err
	}
	return d, shape, s.setType(id, t, d, shape)
}

func (p *parser) output(s *scope) error {
	t, err := p.name("an output's name")
	if err != nil {
		return err
	}
	id := s.use(t)
	s.g.Outputs = append(s.g.Outputs, id)
	if p.is(":") {
		_, _, err = p.valueType(s, t, id)
	}
	return err
}

// typ parses an element type and a shape.
func (p *parser) typ() (tensor.DType, Shape, error) {
	t := p.tok
	d, err := tensor.ParseDType(t.text)
	if t.kind != tokName || err != nil {
		return 0, nil, t.errorf("expected an element type, found %s", t)
	}
	if err := p.advance(); err != nil {
		return 0, nil, err
	}
	shape, unranked := Shape{}, false
	err = p.sequence("[", "]", func() error {
		dim := Dim{N: -1}
		switch {
		case p.is("..."):
			unranked = true
		case p.is("?"):
		case p.isName() && p.tok.text != "":
			dim.Symbol = p.tok.text
		case p.tok.kind == tokNumber:
			n, err := strconv.ParseInt(p.tok.text, 10, 64)
			if err != nil || n < 0 {
				return p.tok.errorf("expected a dimension, found %s", p.tok)
			}
			dim.N = n
		default:
			return p.tok.errorf("expected a dimension, found %s", p.tok)
		}
		shape = append(shape, dim)
		return p.advance()
	})
	if err != nil {
		return 0, nil, err
	}
	if unranked {
		if len(shape) != 1 {
			return 0, nil, t.errorf("\"...\" stands for all dimensions")
		}
		shape = nil
	}
	return d, shape, nil
}

// staticShape converts the shape of a constant.
func staticShape(t token, d tensor.DType, shape Shape, limit int64) ([]int, int, error) {
	dims := make([]int64, len(shape))
	for i, dim := range shape {
		dims[i] = dim.N
	}
	n, err := tensor.CheckedCount(dims, limit)
	if shape == nil || err != nil || d == tensor.Undefined {
		if err == nil || limit == maxLiteralCount {
			err = fmt.Errorf("a constant cannot have type %s", FormatType(d, shape))
		}
		return nil, 0, t.errorf("%w", err)
	}
	out, _ := shape.Ints()
	return out, n, nil
}
