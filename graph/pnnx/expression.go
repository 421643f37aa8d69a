package pnnx

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"qwb/graph"
)

// functions are those of expressions, with how many arguments they have.
var functions = map[string]struct {
	op        string
	arguments int
}{
	"add": {"Add", 2}, "sub": {"Sub", 2}, "mul": {"Mul", 2}, "div": {"Div", 2}, "pow": {"Pow", 2}, "max": {"Max", 2}, "min": {"Min", 2},
	"maximum": {"Max", 2},
	"minimum": {"Min", 2},
	"abs":     {"Abs", 1}, "neg": {"Neg", 1}, "sqrt": {"Sqrt", 1}, "exp": {"Exp", 1}, "log": {"Log", 1}, "sin": {"Sin", 1}, "cos": {"Cos", 1},
	"tan":  {"Tan", 1},
	"asin": {"Asin", 1}, "acos": {"Acos", 1}, "atan": {"Atan", 1}, "tanh": {"Tanh", 1}, "sigmoid": {"Sigmoid", 1}, "floor": {"Floor", 1},
	"ceil":  {"Ceil", 1},
	"round": {"Round", 1}, "reciprocal": {"Reciprocal", 1}, "erf": {"Erf", 1}, "sign": {"Sign", 1},
}

// maxDepth bounds how deep functions may stand in one another.
const maxDepth = 200

// expression is a text like sub(add(mul(@0,@1),mul(@1,0.5)),@2), in which @0 is the first input.
func expression(c *call) error {
	p := &parser{call: c, rest: c.text("expr", "")}
	v, isNumber, err := p.term(0)
	if err != nil {
		return err
	}
	if p.rest != "" {
		return fmt.Errorf("%q follows the expression", p.rest)
	}
	if isNumber || len(c.op.out) != 1 {
		return errors.New("the expression is a number, or has not one result")
	}
	c.result("Identity", []graph.ValueID{v})
	return nil
}

type parser struct {
	*call
	rest string
}

// term reads an argument, a number or a function. number: the value is a constant.
func (p *parser) term(depth int) (v graph.ValueID, number bool, err error) {
	if depth > maxDepth {
		return 0, false, errors.New("functions stand too deep in one another")
	}
	end := strings.IndexAny(p.rest, "(),")
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	if index, input := strings.CutPrefix(word, "@"); input {
		i, err := strconv.Atoi(index)
		if err != nil || i < 0 || i >= len(p.in) {
			return 0, false, fmt.Errorf("there is no input %q", word)
		}
		return p.in[i], false, nil
	}
	if !strings.HasPrefix(p.rest, "(") {
		x, err := strconv.ParseFloat(word, 32)
		if err != nil {
			return 0, false, fmt.Errorf("%q is no number, input or function", word)
		}
		return p.floats(nil, float32(x)), true, nil
	}
	f, known := functions[word]
	if word == "square" || word == "rsqrt" {
		f.arguments, known = 1, true
	}
	if !known {
		return 0, false, fmt.Errorf("there is no rule for function %q", word)
	}
	var in []graph.ValueID
	number = true
	for i := range f.arguments {
		if !strings.HasPrefix(p.rest, []string{"(", ","}[min(i, 1)]) {
			return 0, false, fmt.Errorf("%s has %d arguments", word, f.arguments)
		}
		p.rest = p.rest[1:]
		a, constant, err := p.term(depth + 1)
		if err != nil {
			return 0, false, err
		}
		in, number = append(in, a), number && constant
	}
	if !strings.HasPrefix(p.rest, ")") {
		return 0, false, fmt.Errorf("%s has %d arguments", word, f.arguments)
	}
	p.rest = p.rest[1:]
	switch word {
	case "square":
		v = p.node("Mul", []graph.ValueID{in[0], in[0]})
	case "rsqrt":
		v = p.node("Reciprocal", []graph.ValueID{p.node("Sqrt", in)})
	default:
		v = p.node(f.op, in)
	}
	return v, number, p.err
}
