package pattern

import (
	"fmt"
	"strconv"

	"qwb/graph"
)

// MustParse is Parse for patterns in the program's text; it panics on an error.
func MustParse(text string) *Pattern {
	p, err := Parse(text)
	if err != nil {
		panic(fmt.Sprintf("pattern: %v\n%s", err, text))
	}
	return p
}

// Parse parses a pattern; errors are *graph.ParseError. Every statement but the last must be used by a later one.
func Parse(text string) (*Pattern, error) {
	p := &parser{lexer: lexer{src: text, line: 1}, pat: &Pattern{text: text, names: map[string]int{}}}
	if err := p.advance(); err != nil {
		return nil, err
	}
	for {
		for p.tok.kind == tokEnd {
			if err := p.advance(); err != nil {
				return nil, err
			}
		}
		if p.tok.kind == tokEOF {
			break
		}
		if err := p.statement(); err != nil {
			return nil, err
		}
	}
	return p.finish()
}

type parser struct {
	lexer
	tok  token
	pat  *Pattern
	used []bool // by variable: read as an argument
}

func (p *parser) errorf(format string, args ...any) error {
	return &graph.ParseError{Line: p.tok.line, Col: p.tok.col, Err: fmt.Errorf(format, args...)}
}

func (p *parser) advance() (err error) { p.tok, err = p.next(); return err }

// accept consumes the punctuation s if it is next.
func (p *parser) accept(s string) (bool, error) {
	if p.tok.kind != tokPunct || p.tok.text != s {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) expect(s string) error {
	if p.tok.kind != tokPunct || p.tok.text != s {
		return p.errorf("%s where %q belongs", p.tok, s)
	}
	return p.advance()
}

func (p *parser) name(what string) (string, error) {
	if p.tok.kind != tokName {
		return "", p.errorf("%s where %s belongs", p.tok, what)
	}
	s := p.tok.text
	return s, p.advance()
}

func (p *parser) number() (float64, error) {
	v, err := strconv.ParseFloat(p.tok.text, 64)
	if p.tok.kind != tokNumber || err != nil {
		return 0, p.errorf("%s where a number belongs", p.tok)
	}
	return v, p.advance()
}

func (p *parser) variable(v variable) int {
	p.pat.vars = append(p.pat.vars, v)
	p.used = append(p.used, false)
	i := len(p.pat.vars) - 1
	if v.name != "" {
		p.pat.names[v.name] = i
	}
	return i
}

func (p *parser) statement() error {
	var st statement
	index := len(p.pat.stmts)
	for {
		name, err := p.result()
		if err != nil {
			return err
		}
		v := p.variable(variable{name: name, stmt: index})
		st.outs = append(st.outs, v)
		if more, err := p.accept(","); err != nil {
			return err
		} else if !more {
			break
		}
	}
	st.firstName = p.pat.vars[st.outs[0]].name
	if err := p.expect("="); err != nil {
		return err
	}
	for {
		op, err := p.op()
		if err != nil {
			return err
		}
		st.ops = append(st.ops, op)
		if more, err := p.accept("|"); err != nil {
			return err
		} else if !more {
			break
		}
	}
	if err := p.arguments(&st, index); err != nil {
		return err
	}
	if err := p.conditions(&st); err != nil {
		return err
	}
	if p.tok.kind != tokEnd && p.tok.kind != tokEOF {
		return p.errorf("%s where the statement should end", p.tok)
	}
	st.commutes = len(st.args) == 2 && !st.variadic
	for _, o := range st.ops {
		st.commutes = st.commutes && o.domain == "" && commutative[o.op]
	}
	p.pat.stmts = append(p.pat.stmts, st)
	return nil
}

// result reads the name of a new variable.
func (p *parser) result() (string, error) {
	tok := p.tok
	name, err := p.name("a name")
	if err != nil {
		return "", err
	}
	if _, dup := p.pat.names[name]; dup || reserved(name) {
		p.tok = tok
		return "", p.errorf("%q cannot be defined here: it is used above or reserved", name)
	}
	return name, nil
}

func reserved(name string) bool { return name == "_" || name == "const" || name == "scalar" }

func (p *parser) op() (opName, error) {
	name, err := p.name("an operator")
	if err != nil {
		return opName{}, err
	}
	if qualified, err := p.accept("::"); err != nil || !qualified {
		return opName{op: name}, err
	}
	op, err := p.name("an operator")
	return opName{domain: name, op: op}, err
}

func (p *parser) finish() (*Pattern, error) {
	pat := p.pat
	if len(pat.stmts) == 0 {
		return nil, p.errorf("a pattern needs a statement")
	}
	for i := range pat.stmts[:len(pat.stmts)-1] {
		read := false
		for _, v := range pat.stmts[i].outs {
			read = read || p.used[v]
		}
		if !read {
			return nil, p.errorf("no later statement reads %q; only the last one may stand alone", pat.stmts[i].firstName)
		}
	}
	return pat, nil
}

// arguments reads "(" ... ")".
func (p *parser) arguments(st *statement, index int) error {
	if err := p.expect("("); err != nil {
		return err
	}
	for first := true; ; first = false {
		if done, err := p.accept(")"); err != nil || done {
			return err
		}
		if !first {
			if err := p.expect(","); err != nil {
				return err
			}
		}
		if dots, err := p.accept("..."); err != nil {
			return err
		} else if dots {
			st.variadic = true
			return p.expect(")")
		}
		v, err := p.argument(index)
		if err != nil {
			return err
		}
		st.args = append(st.args, v)
	}
}

func (p *parser) argument(index int) (int, error) {
	if p.tok.kind == tokNumber {
		num, err := p.number()
		return p.variable(variable{stmt: -1, kind: scalar, rel: relEqual, num: num}), err
	}
	tok := p.tok
	name, err := p.name("an argument")
	if err != nil {
		return 0, err
	}
	v := variable{stmt: -1}
	switch name {
	case "_":
		return absent, nil
	case "const", "scalar":
		v.kind = constant
		if name == "scalar" {
			v.kind = scalar
		}
		tok = p.tok
		if name, err = p.name("the name of a constant"); err != nil {
			return 0, err
		}
	}
	if reserved(name) {
		p.tok = tok
		return 0, p.errorf("%q is reserved", name)
	}
	v.name = name
	if v.optional, err = p.accept("?"); err != nil {
		return 0, err
	}
	if v.kind != anyValue && p.tok.kind == tokPunct {
		if rel, ok := relations[p.tok.text]; ok {
			v.rel = rel
			if err := p.advance(); err != nil {
				return 0, err
			}
			if v.num, err = p.number(); err != nil {
				return 0, err
			}
		}
	}
	known, seen := p.pat.names[name]
	switch {
	case !seen:
		known = p.variable(v)
	case v.kind != anyValue || v.optional:
		p.tok = tok
		return 0, p.errorf("%q is used above: const, scalar and ? belong to its first mention", name)
	case p.pat.vars[known].stmt == index:
		p.tok = tok
		return 0, p.errorf("%q is its own argument", name)
	}
	p.used[known] = true
	return known, nil
}

// conditions reads [ "{" ... "}" ].
func (p *parser) conditions(st *statement) error {
	if open, err := p.accept("{"); err != nil || !open {
		return err
	}
	for {
		var c attrCond
		var err error
		if c.name, err = p.name("an attribute"); err != nil {
			return err
		}
		if c.optional, err = p.accept("?="); err != nil {
			return err
		}
		if !c.optional {
			if err := p.expect("="); err != nil {
				return err
			}
		}
		if err := p.condValue(&c); err != nil {
			return err
		}
		st.conds = append(st.conds, c)
		if more, err := p.accept(","); err != nil {
			return err
		} else if !more {
			return p.expect("}")
		}
	}
}

func (p *parser) condValue(c *attrCond) (err error) {
	if p.tok.kind == tokQuoted {
		c.kind, c.text = attrText, p.tok.text
		return p.advance()
	}
	open, err := p.accept("[")
	if err != nil {
		return err
	}
	if !open {
		c.num, err = p.number()
		return err
	}
	c.kind, c.list = attrList, []float64{}
	for {
		if done, err := p.accept("]"); err != nil || done {
			return err
		}
		if len(c.list) > 0 {
			if err := p.expect(","); err != nil {
				return err
			}
		}
		v, err := p.number()
		if err != nil {
			return err
		}
		c.list = append(c.list, v)
	}
}
