package graph

import (
	"fmt"
	"strings"
)

// Equation is that of an Einsum matched with the shapes of its operands: a letter for every axis. The label of axis i of the ellipsis,
// counted from the last, is byte(i).
type Equation struct {
	Size  map[byte]Dim
	Terms []string // the labels of each operand
	Out   string

	in string // all labels, in order of appearance
}

// EquationOf reads the equation of a node whose operands have shapes of known rank.
func EquationOf(n *Node, shapes []Shape) (*Equation, error) {
	equation := strings.ReplaceAll(n.AttrStr("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(shapes) {
		return nil, fmt.Errorf("equation %q for %d inputs", equation, len(shapes))
	}
	e := &Equation{Size: map[byte]Dim{}}
	count := map[byte]int{}
	ellipsis := ""
	for i, term := range terms {
		s := shapes[i]
		labels, dots, err := spell(term, len(s))
		if err != nil {
			return nil, fmt.Errorf("equation %q, input %d of shape %s: %w", equation, i, s, err)
		}
		e.Terms = append(e.Terms, labels)
		if len(dots) > len(ellipsis) {
			ellipsis = dots
		}
		for k := range labels {
			l := labels[k]
			count[l]++
			old, seen := e.Size[l]
			if !seen {
				e.in += string(l)
				e.Size[l] = s[k]
				continue
			}
			d, ok := mergeDim(old, s[k])
			if l < 'A' {
				d, ok = broadcastDim(old, s[k])
			}
			if !ok {
				return nil, fmt.Errorf("equation %q: sizes %d and %d for one label", equation, old.N, s[k].N)
			}
			e.Size[l] = d
		}
	}
	if explicit {
		before, after, dotted := strings.Cut(right, "...")
		e.Out = before
		if dotted {
			e.Out += ellipsis + after
		}
		for i := range e.Out {
			if _, known := e.Size[e.Out[i]]; !known {
				return nil, fmt.Errorf("equation %q: output label %q is in no input", equation, e.Out[i])
			}
		}
		return e, nil
	}
	e.Out = ellipsis
	for l := byte('A'); l <= 'z'; l++ {
		if count[l] == 1 {
			e.Out += string(l)
		}
	}
	return e, nil
}

// spell returns one label per axis of an operand of the given rank; dots are those of the ellipsis.
func spell(term string, rank int) (labels, dots string, err error) {
	before, after, dotted := strings.Cut(term, "...")
	n := rank - len(before) - len(after)
	if n < 0 || n > 0 && !dotted || n > 'A'-1 {
		return "", "", fmt.Errorf("%q does not fit the rank", term)
	}
	for _, l := range []byte(before + after) {
		if (l|0x20) < 'a' || (l|0x20) > 'z' {
			return "", "", fmt.Errorf("label %q", l)
		}
	}
	for i := range n {
		dots += string([]byte{byte(n - 1 - i)})
	}
	return before + dots + after, dots, nil
}

// equationOf is EquationOf in inference, nil where a rank is not known.
func equationOf(c *InferCtx) (*Equation, error) {
	shapes := make([]Shape, c.NumIn())
	for i := range shapes {
		if shapes[i] = c.Shape(i); shapes[i] == nil {
			return nil, nil
		}
	}
	return EquationOf(c.Node, shapes)
}

func inferEinsum(c *InferCtx) error {
	c.SetOut(0, c.DType(0), nil)
	e, err := equationOf(c)
	if e == nil {
		return err
	}
	out := Shape{}
	for i := range e.Out {
		out = append(out, e.Size[e.Out[i]])
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

// einsumMACs counts one MAC per combination of all labels, for two or more operands.
func einsumMACs(c *InferCtx) Shape {
	e, _ := equationOf(c)
	if e == nil {
		return nil
	}
	if c.NumIn() < 2 {
		return Shape{{N: 0}}
	}
	all := Shape{}
	for i := range e.in {
		all = append(all, e.Size[e.in[i]])
	}
	return all
}
