package emulate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// source is parsed PTX, before any instruction is looked at.
type source struct {
	version, target string
	vars            []*variable
	funcs           []*function
}

// variable is a declaration in a state space.
type variable struct {
	name    string
	space   string // global, const, shared, local, param
	align   int
	bytes   int
	dynamic bool // extern .shared array without a length
	extern  bool
	init    []initial
	element int // bytes of one element of the initialiser
	float   bool
	line    int
}

// initial is one element of an initialiser: a number or an address.
type initial struct {
	bits   uint64
	symbol string
	offset int64
}

// function is an entry point or a device function.
type function struct {
	name     string
	entry    bool
	params   []*variable
	returns  []*variable
	body     string // what stands behind the opening brace, up to the closing one; "" for a declaration
	bodyLine int    // where it begins
	threads  [3]int // .maxntid or .reqntid; 0 is not said
	required bool   // .reqntid
	line     int
}

// scope is a { } block: statements in order.
type scope struct{ body []statement }

// statement is one of the fields that is set.
type statement struct {
	inner   *scope
	label   string
	reg     *registers
	v       *variable
	targets *targets
	op      *operation
}

// registers is a .reg declaration of one name, or of name0 to name<count-1>.
type registers struct {
	name  string
	count int // 0 is a single one
	typ   ptype
	line  int
}

// targets is a named list of labels, for brx.idx.
type targets struct {
	name   string
	labels []string
}

// operation is an instruction as written.
type operation struct {
	pred     string // "" is always
	negate   bool
	name     string   // add
	mods     []string // s32
	opcode   string   // add.s32
	operands []operand
	line     int
	text     string // for messages
}

type operandKind uint8

const (
	opdName operandKind = iota // register, variable or label
	opdInt
	opdFloat32
	opdFloat64
	opdAddress // [name+offset]
	opdVector  // {a, b}
	opdList    // (a, b) of a call
)

// operand is an operand of an instruction.
type operand struct {
	kind   operandKind
	name   string // also the base of an address; "" is none
	pair   string // the second name of a|b
	negate bool   // !name
	bits   uint64
	offset int64
	list   []operand
}

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
			if v.init, err = p.initialiser(); err != nil {
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

// initialiser parses {1, 2, generic(name)+4}, braces within braces, or one value.
func (p *parser) initialiser() ([]initial, error) {
	if !p.accept("{") {
		one, err := p.initialValue()
		return []initial{one}, err
	}
	var out []initial
	for !p.accept("}") {
		some, err := p.initialiser()
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
		if !p.peek().is("}") {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (p *parser) initialValue() (initial, error) {
	t := p.peek()
	if t.kind != tokWord {
		o, err := p.number()
		return initial{bits: o.bits}, err
	}
	p.at++
	in := initial{symbol: t.text}
	if t.text == "generic" {
		if err := p.expect("("); err != nil {
			return in, err
		}
		name, err := p.word()
		if err != nil {
			return in, err
		}
		in.symbol = name
		if err := p.expect(")"); err != nil {
			return in, err
		}
	}
	if p.peek().is("+") || p.peek().is("-") {
		sign := p.next().text
		n, err := p.integer()
		if err != nil {
			return in, err
		}
		if in.offset = n; sign == "-" {
			in.offset = -n
		}
	}
	return in, nil
}

func (p *parser) integer() (int64, error) {
	t := p.peek()
	o, err := p.number()
	if err == nil && o.kind != opdInt {
		err = fmt.Errorf("line %d: expected an integer, found %v", t.line, t)
	}
	return int64(o.bits), err
}

// number parses an integer or a floating-point constant, with its sign.
func (p *parser) number() (operand, error) {
	negative := false
	for p.peek().is("-") || p.peek().is("+") {
		if p.next().text == "-" {
			negative = !negative
		}
	}
	t := p.next()
	fail := fmt.Errorf("line %d: expected a number, found %v", t.line, t)
	if t.kind != tokNumber {
		return operand{}, fail
	}
	lower := strings.ToLower(t.text)
	switch {
	case strings.HasPrefix(lower, "0f") && len(lower) == 10:
		bits, err := strconv.ParseUint(lower[2:], 16, 32)
		if err != nil {
			return operand{}, fail
		}
		if negative {
			bits ^= 1 << 31
		}
		return operand{kind: opdFloat32, bits: bits}, nil
	case strings.HasPrefix(lower, "0d") && len(lower) == 18:
		bits, err := strconv.ParseUint(lower[2:], 16, 64)
		if err != nil {
			return operand{}, fail
		}
		if negative {
			bits ^= 1 << 63
		}
		return operand{kind: opdFloat64, bits: bits}, nil
	}
	if !strings.HasPrefix(lower, "0x") && strings.ContainsAny(lower, ".e") {
		f, err := strconv.ParseFloat(lower, 64)
		if err != nil {
			return operand{}, fail
		}
		if negative {
			f = -f
		}
		return operand{kind: opdFloat64, bits: math.Float64bits(f)}, nil
	}
	bits, err := strconv.ParseUint(strings.TrimSuffix(lower, "u"), 0, 64)
	if err != nil {
		return operand{}, fail
	}
	if negative {
		bits = -bits
	}
	return operand{kind: opdInt, bits: bits}, nil
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

// operation parses an instruction with its predicate.
func (p *parser) operation() (*operation, error) {
	op, start := &operation{line: p.peek().line}, p.at
	var err error
	if p.accept("@") {
		op.negate = p.accept("!")
		if op.pred, err = p.word(); err != nil {
			return nil, err
		}
	}
	if op.opcode, err = p.word(); err != nil {
		return nil, err
	}
	parts := strings.Split(op.opcode, ".")
	op.name, op.mods = parts[0], parts[1:]
	for !p.accept(";") {
		o, err := p.operand(0)
		if err != nil {
			return nil, err
		}
		op.operands = append(op.operands, o)
		if !p.peek().is(";") {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
	}
	text := p.all[p.tokens[start].from : p.tokens[p.at-1].from+1]
	op.text = strings.Join(strings.Fields(text), " ")
	return op, nil
}

func (p *parser) operand(depth int) (operand, error) {
	t := p.peek()
	if depth > 4 {
		return operand{}, fmt.Errorf("line %d: operands are nested too deeply: %s", t.line, p.text(t.line))
	}
	switch {
	case t.kind == tokNumber || t.is("-") || t.is("+"):
		return p.number()
	case p.accept("!"):
		name, err := p.word()
		return operand{name: name, negate: true}, err
	case p.accept("["):
		o, err := p.address()
		if err == nil {
			err = p.expect("]")
		}
		return o, err
	case t.is("{") || t.is("("):
		p.at++
		o, end := operand{kind: opdVector}, "}"
		if t.is("(") {
			o.kind, end = opdList, ")"
		}
		for !p.accept(end) {
			inner, err := p.operand(depth + 1)
			if err != nil {
				return o, err
			}
			o.list = append(o.list, inner)
			if !p.peek().is(end) {
				if err := p.expect(","); err != nil {
					return o, err
				}
			}
		}
		return o, nil
	case t.kind == tokWord:
		p.at++
		o := operand{name: t.text}
		if p.accept("|") {
			pair, err := p.word()
			o.pair = pair
			return o, err
		}
		if p.peek().is("+") || p.peek().is("-") { // the address of a variable's part
			n, err := p.integer()
			o.offset = n
			return o, err
		}
		return o, nil
	}
	return operand{}, fmt.Errorf("line %d: %v is no operand: %s", t.line, t, p.text(t.line))
}

// address parses what stands in brackets: name, name+4, name+-4, 16.
func (p *parser) address() (operand, error) {
	o := operand{kind: opdAddress}
	if p.peek().kind == tokWord {
		o.name = p.next().text
		if !p.peek().is("+") && !p.peek().is("-") {
			return o, nil
		}
	}
	n, err := p.integer()
	o.offset = n
	return o, err
}
