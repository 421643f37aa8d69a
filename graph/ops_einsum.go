package graph

import (
	"fmt"
	"strings"
)

// einsum is an equation matched with the shapes of its operands. The label of axis i of the ellipsis, counted from the last, is byte(i).
type einsum struct {
	size map[byte]Dim
	in   string // all labels, in order of appearance
	out  string
}

func parseEinsum(c *InferCtx) (*einsum, error) {
	equation := strings.ReplaceAll(c.Node.AttrStr("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	if len(terms) != c.NumIn() {
		return nil, fmt.Errorf("equation %q for %d inputs", equation, c.NumIn())
	}
	e := &einsum{size: map[byte]Dim{}}
	count := map[byte]int{}
	ellipsis := ""
	for i, term := range terms {
		s := c.Shape(i)
		labels, dots, err := spell(term, len(s))
		if err != nil {
			return nil, fmt.Errorf("equation %q, input %d of shape %s: %w", equation, i, s, err)
		}
		if len(dots) > len(ellipsis) {
			ellipsis = dots
		}
		for k := range labels {
			l := labels[k]
			count[l]++
			old, seen := e.size[l]
			if !seen {
				e.in += string(l)
				e.size[l] = s[k]
				continue
			}
			d, ok := mergeDim(old, s[k])
			if l < 'A' {
				d, ok = broadcastDim(old, s[k])
			}
			if !ok {
				return nil, fmt.Errorf("equation %q: sizes %d and %d for one label", equation, old.N, s[k].N)
			}
			e.size[l] = d
		}
	}
	if explicit {
		before, after, dotted := strings.Cut(right, "...")
		e.out = before
		if dotted {
			e.out += ellipsis + after
		}
		for i := range e.out {
			if _, known := e.size[e.out[i]]; !known {
				return nil, fmt.Errorf("equation %q: output label %q is in no input", equation, e.out[i])
			}
		}
		return e, nil
	}
	e.out = ellipsis
	for l := byte('A'); l <= 'z'; l++ {
		if count[l] == 1 {
			e.out += string(l)
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

func inferEinsum(c *InferCtx) error {
	c.SetOut(0, c.DType(0), nil)
	for i := range c.NumIn() {
		if c.Shape(i) == nil {
			return nil
		}
	}
	e, err := parseEinsum(c)
	if err != nil {
		return err
	}
	out := Shape{}
	for i := range e.out {
		out = append(out, e.size[e.out[i]])
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

// einsumMACs counts one MAC per combination of all labels, for two or more operands.
func einsumMACs(c *InferCtx) Shape {
	for i := range c.NumIn() {
		if c.Shape(i) == nil {
			return nil
		}
	}
	e, err := parseEinsum(c)
	if err != nil {
		return nil
	}
	if c.NumIn() < 2 {
		return Shape{{N: 0}}
	}
	all := Shape{}
	for i := range e.in {
		all = append(all, e.size[e.in[i]])
	}
	return all
}
