package emulate

import (
	"fmt"
	"strings"
)

type parser struct {
	tokens []token
	at     int
	all    string
	lines  []string
	first  int // the number of the first line
}

// parse reads PTX text.
func parse(text string) (*source, error) {
	tokens, err := lex(text, 1)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, all: text, lines: strings.Split(text, "\n"), first: 1}
	src := &source{}
	for p.peek().kind != tokEnd {
		if err := p.module(src); err != nil {
			return nil, err
		}
	}
	if src.version == "" {
		return nil, fmt.Errorf("no .version: this is not PTX")
	}
	return src, nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokEnd {
		p.at++
	}
	return t
}

// accept takes the punctuation if it comes next.
func (p *parser) accept(punct string) bool {
	if p.peek().is(punct) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(punct string) error {
	if t := p.next(); !t.is(punct) {
		return fmt.Errorf("line %d: expected %q, found %v", t.line, punct, t)
	}
	return nil
}

func (p *parser) word() (string, error) {
	t := p.next()
	if t.kind != tokWord {
		return "", fmt.Errorf("line %d: expected a name, found %v", t.line, t)
	}
	return t.text, nil
}

// skipLine skips what is left of a line: .loc and .file end so.
func (p *parser) skipLine(line int) {
	for t := p.peek(); t.kind != tokEnd && t.line == line; t = p.peek() {
		p.at++
	}
}

func (p *parser) module(src *source) error {
	t := p.next()
	if t.kind != tokWord {
		return fmt.Errorf("line %d: expected a directive, found %v", t.line, t)
	}
	switch t.text {
	case ".version":
		src.version = p.next().text
	case ".target":
		src.target = p.next().text
		for p.accept(",") {
			p.next()
		}
	case ".address_size":
		if n := p.next(); n.text != "64" {
			return fmt.Errorf("line %d: only 64-bit addresses are supported", n.line)
		}
	case ".file", ".loc":
		p.skipLine(t.line)
	case ".pragma":
		p.next()
		return p.expect(";")
	case ".section":
		p.next()
		return p.skipBraces()
	case ".visible", ".weak", ".common":
		return nil // linkage of what follows
	case ".extern":
		at := p.at
		if err := p.module(src); err != nil {
			return err
		}
		if n := len(src.vars); n > 0 && src.vars[n-1].line == p.tokens[at].line {
			src.vars[n-1].extern = true
		}
	case ".global", ".const", ".shared":
		vars, err := p.variables(t)
		src.vars = append(src.vars, vars...)
		return err
	case ".entry", ".func":
		return p.function(src, t)
	default:
		return fmt.Errorf("line %d: directive %s is not supported: %s", t.line, t.text, p.text(t.line))
	}
	return nil
}

// statements parses the body of a function. It is not kept: as text it takes a fraction of the memory.
func (f *function) statements() (*scope, error) {
	tokens, err := lex(f.body, f.bodyLine)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, all: f.body, lines: strings.Split(f.body, "\n"), first: f.bodyLine}
	return p.scope(0)
}

func (p *parser) skipBraces() error {
	if err := p.expect("{"); err != nil {
		return err
	}
	return p.skipBody()
}

// skipBody skips what is left of a block.
func (p *parser) skipBody() error {
	for depth := 1; depth > 0; {
		switch t := p.next(); {
		case t.kind == tokEnd:
			return fmt.Errorf("line %d: a block has no end", t.line)
		case t.is("{"):
			depth++
		case t.is("}"):
			depth--
		}
	}
	return nil
}

func (p *parser) text(line int) string {
	if line < p.first || line-p.first >= len(p.lines) {
		return ""
	}
	text, _, _ := strings.Cut(p.lines[line-p.first], "//")
	return strings.Join(strings.Fields(text), " ")
}

// variables parses what follows a state space: alignment, type, and one or more names with lengths and initialisers.
func (p *parser) variables(space token) ([]*variable, error) {
	var out []*variable
	for {
		v, err := p.declaration(space)
		if err != nil {
			return nil, err
		}
		if p.accept("=") {
			if v.init, err = p.initialiser(0); err != nil {
				return nil, err
			}
			if len(v.init)*v.element > v.bytes {
				return nil, fmt.Errorf("line %d: %s has more initial values than elements", space.line, v.name)
			}
		}
		out = append(out, v)
		if !p.accept(",") {
			return out, p.expect(";")
		}
		if !strings.HasPrefix(p.peek().text, ".") { // the next name has the same type
			return nil, fmt.Errorf("line %d: one declaration of several variables is not supported", space.line)
		}
	}
}

const maxVariable = 1 << 30

// declaration parses .align 4 .b8 name[16].
func (p *parser) declaration(space token) (*variable, error) {
	v := &variable{space: strings.TrimPrefix(space.text, "."), line: space.line}
	vector := 1
	for {
		t := p.next()
		if t.kind != tokWord {
			return nil, fmt.Errorf("line %d: expected a type or a name, found %v", t.line, t)
		}
		switch {
		case t.text == ".align":
			n, err := p.integer()
			if err != nil {
				return nil, err
			}
			if n < 1 || n > 1<<16 || n&(n-1) != 0 {
				return nil, fmt.Errorf("line %d: alignment %d is not a power of two", t.line, n)
			}
			v.align = int(n)
		case t.text == ".v2":
			vector = 2
		case t.text == ".v4":
			vector = 4
		case t.text == ".ptr" || t.text == ".global" || t.text == ".const" || t.text == ".local" || t.text == ".shared":
			// attributes of a parameter that is a pointer
		case t.text[0] == '.':
			typ, ok := parseType(t.text[1:])
			if !ok || typ.bits < 8 {
				return nil, fmt.Errorf("line %d: type %s is not supported: %s", t.line, t.text, p.text(t.line))
			}
			v.element, v.float = typ.bits/8, typ.kind == kindFloat
		default:
			v.name = t.text
		}
		if v.name != "" {
			break
		}
	}
	if v.element == 0 {
		return nil, fmt.Errorf("line %d: %s has no type", v.line, v.name)
	}
	if v.align == 0 {
		v.align = v.element * vector
	}
	v.bytes = v.element * vector
	for p.accept("[") {
		if p.accept("]") {
			if v.bytes != v.element*vector || v.dynamic {
				return nil, fmt.Errorf("line %d: %s has two dimensions without a length", v.line, v.name)
			}
			v.dynamic, v.bytes = true, 0
			continue
		}
		n, err := p.integer()
		if err != nil {
			return nil, err
		}
		if n < 0 || n > maxVariable || int(n)*v.bytes > maxVariable {
			return nil, fmt.Errorf("line %d: %s is too large", v.line, v.name)
		}
		v.bytes *= int(n)
		if err := p.expect("]"); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (p *parser) function(src *source, t token) error {
	f := &function{entry: t.text == ".entry", line: t.line}
	var err error
	if !f.entry && p.peek().is("(") {
		if f.returns, err = p.parameters(); err != nil {
			return err
		}
	}
	if f.name, err = p.word(); err != nil {
		return err
	}
	if p.peek().is("(") {
		if f.params, err = p.parameters(); err != nil {
			return err
		}
	}
	for {
		switch t := p.next(); {
		case t.text == ".maxntid" || t.text == ".reqntid":
			f.required = t.text == ".reqntid"
			f.threads = [3]int{1, 1, 1}
			for i := 0; i == 0 || i < 3 && p.accept(","); i++ {
				n, err := p.integer()
				if err != nil {
					return err
				}
				f.threads[i] = int(n)
			}
		case t.text == ".minnctapersm" || t.text == ".maxnctapersm" || t.text == ".maxnreg":
			if _, err := p.integer(); err != nil {
				return err
			}
		case t.text == ".pragma":
			p.next()
			if err := p.expect(";"); err != nil {
				return err
			}
		case t.text == ".noreturn":
		case t.is(";"):
			src.funcs = append(src.funcs, f)
			return nil
		case t.is("{"):
			from := p.peek()
			if err := p.skipBody(); err != nil {
				return err
			}
			f.body, f.bodyLine = p.all[from.from:p.tokens[p.at-1].from+1], from.line
			src.funcs = append(src.funcs, f)
			return nil
		default:
			return fmt.Errorf("line %d: %v is not supported in the head of a function: %s", t.line, t, p.text(t.line))
		}
	}
}

func (p *parser) parameters() ([]*variable, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var out []*variable
	for !p.accept(")") {
		t := p.next()
		if t.text != ".param" {
			return nil, fmt.Errorf("line %d: only parameters in .param are supported: %s", t.line, p.text(t.line))
		}
		v, err := p.declaration(t)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if !p.peek().is(")") {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

const maxNesting = 64

// scope parses statements up to the closing brace.
func (p *parser) scope(depth int) (*scope, error) {
	s := &scope{}
	if depth > maxNesting {
		return nil, fmt.Errorf("line %d: blocks are nested too deeply", p.peek().line)
	}
	for {
		t := p.peek()
		switch {
		case t.kind == tokEnd:
			return nil, fmt.Errorf("line %d: a block has no end", t.line)
		case p.accept("}"):
			return s, nil
		case p.accept(";"):
		case p.accept("{"):
			inner, err := p.scope(depth + 1)
			if err != nil {
				return nil, err
			}
			s.body = append(s.body, statement{inner: inner})
		case t.kind == tokWord && t.text[0] == '.':
			if err := p.directive(s); err != nil {
				return nil, err
			}
		case t.kind == tokWord && p.tokens[p.at+1].is(":"):
			p.at += 2
			if p.peek().text == ".branchtargets" {
				list, err := p.branchTargets(t.text)
				if err != nil {
					return nil, err
				}
				s.body = append(s.body, statement{targets: list})
				continue
			}
			s.body = append(s.body, statement{label: t.text})
		default:
			op, err := p.operation()
			if err != nil {
				return nil, err
			}
			s.body = append(s.body, statement{op: op})
		}
	}
}

func (p *parser) branchTargets(name string) (*targets, error) {
	p.next()
	list := &targets{name: name}
	for {
		label, err := p.word()
		if err != nil {
			return nil, err
		}
		list.labels = append(list.labels, label)
		if !p.accept(",") {
			return list, p.expect(";")
		}
	}
}

// directive parses a directive of a function's body.
func (p *parser) directive(s *scope) error {
	t := p.next()
	switch t.text {
	case ".loc", ".file":
		p.skipLine(t.line)
	case ".pragma":
		p.next()
		return p.expect(";")
	case ".reg":
		return p.registers(s, t.line)
	case ".local", ".shared", ".param", ".global", ".const":
		vars, err := p.variables(t)
		for _, v := range vars {
			s.body = append(s.body, statement{v: v})
		}
		return err
	default:
		return fmt.Errorf("line %d: directive %s is not supported: %s", t.line, t.text, p.text(t.line))
	}
	return nil
}

const maxRegisters = 1 << 17

func (p *parser) registers(s *scope, line int) error {
	name, err := p.word()
	if err != nil {
		return err
	}
	typ, ok := parseType(strings.TrimPrefix(name, "."))
	if !ok || name[0] != '.' {
		return fmt.Errorf("line %d: registers of type %s are not supported: %s", line, name, p.text(line))
	}
	for {
		r := &registers{typ: typ, line: line}
		if r.name, err = p.word(); err != nil {
			return err
		}
		if p.accept("<") {
			n, err := p.integer()
			if err != nil {
				return err
			}
			if n < 1 || n > maxRegisters {
				return fmt.Errorf("line %d: %d registers", line, n)
			}
			r.count = int(n)
			if err := p.expect(">"); err != nil {
				return err
			}
		}
		s.body = append(s.body, statement{reg: r})
		if !p.accept(",") {
			return p.expect(";")
		}
	}
}
