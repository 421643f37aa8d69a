package emulate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// initialiser parses {1, 2, generic(name)+4}, braces within braces, or one value.
func (p *parser) initialiser(depth int) ([]initial, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("line %d: braces are nested too deeply", p.peek().line)
	}
	if !p.accept("{") {
		one, err := p.initialValue()
		return []initial{one}, err
	}
	var out []initial
	for !p.accept("}") {
		some, err := p.initialiser(depth + 1)
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
