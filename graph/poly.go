package graph

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

const (
	maxTerms  = 8   // of sums that inference keeps: longer ones are of no use
	maxSymbol = 160 // characters of names that inference makes
)

// poly is an element written as a sum of products, which is the form that symbols are computed in. The factors of a product are
// names of dimensions, and quotients such as "(H/2)", which are rounded down.
type poly struct {
	c     int64
	terms []monomial // sorted, no two with the same parts, no factor 0
}

type monomial struct {
	coef  int64
	parts []string // sorted
}

// poly parses e, false if nothing is known of it.
func (e Elem) poly() (poly, bool) {
	if e.Known {
		return poly{c: e.N}, true
	}
	if e.Symbol == "" {
		return poly{}, false
	}
	if len(e.Symbol) > maxSymbol { // of a model: nothing is computed with it
		return poly{terms: []monomial{{1, []string{e.Symbol}}}}, true
	}
	return parseSymbol(e.Symbol)
}

// parseSymbol reads the name of a dimension. In names that models give, + and - count only with spaces around them or a number
// beside them: "past + 1" is a sum, "batch-size" a name.
func parseSymbol(s string) (poly, bool) {
	terms := splitTerms(s)
	number := slices.ContainsFunc(terms, func(t string) bool {
		_, err := strconv.ParseInt(strings.TrimLeft(t, "+- "), 10, 64)
		return err == nil
	})
	if len(terms) > 1 && (number || strings.Contains(s, " + ") || strings.Contains(s, " - ")) {
		return parseSum(terms)
	}
	return parseProduct(s)
}

// splitTerms cuts before each + and - outside of parentheses but the first character.
func splitTerms(s string) []string {
	var out []string
	depth, from := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '+', '-':
			if depth == 0 && i > from {
				out = append(out, s[from:i])
				from = i
			}
		}
	}
	return append(out, s[from:])
}

func parseSum(terms []string) (poly, bool) {
	sum := poly{}
	for _, t := range terms {
		sign := int64(1)
		if strings.HasPrefix(t, "-") {
			sign = -1
		}
		p, ok := parseProduct(strings.TrimSpace(strings.TrimLeft(t, "+-")))
		if ok {
			sum, ok = sum.plus(p, sign)
		}
		if !ok {
			return poly{}, false
		}
	}
	return sum, true
}

func parseProduct(s string) (poly, bool) {
	p := poly{c: 1}
	for _, f := range splitFactors(s) {
		f = strings.TrimSpace(f)
		q, ok := poly{terms: []monomial{{1, []string{f}}}}, f != ""
		if n, err := strconv.ParseInt(f, 10, 64); err == nil {
			q = poly{c: n}
		} else if inner, is := sumInside(f); is {
			q, ok = parseSum(splitTerms(inner))
		}
		if ok {
			p, ok = p.times(q)
		}
		if !ok {
			return poly{}, false
		}
	}
	return p, true
}

// sumInside returns what stands in the parentheses around a sum; a quotient in parentheses is none.
func sumInside(f string) (string, bool) {
	if len(f) < 2 || f[0] != '(' || f[len(f)-1] != ')' {
		return "", false
	}
	depth := 0
	for i := 1; i < len(f)-1; i++ {
		switch f[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '/':
			if depth == 0 {
				return "", false
			}
		}
		if depth < 0 {
			return "", false
		}
	}
	return f[1 : len(f)-1], true
}

// quotient takes a part "(x/by)" of a product apart, false if it is none.
func quotient(part string) (x Elem, by int64, ok bool) {
	slash := strings.LastIndexByte(part, '/')
	if part[0] != '(' || slash < 0 {
		return Elem{}, 0, false
	}
	by, err := strconv.ParseInt(strings.TrimSuffix(part[slash+1:], ")"), 10, 64)
	return Elem{Symbol: part[1:slash]}, by, err == nil && by > 0
}

// plus is p + sign*q, false where it overflows or becomes too long.
func (p poly) plus(q poly, sign int64) (poly, bool) {
	qc, ok := product64(q.c, sign)
	if !ok {
		return poly{}, false
	}
	c, ok := sum64(p.c, qc)
	if !ok {
		return poly{}, false
	}
	out := poly{c: c, terms: slices.Clone(p.terms)}
	for _, m := range q.terms {
		coef, ok := product64(m.coef, sign)
		if !ok {
			return poly{}, false
		}
		i, found := slices.BinarySearchFunc(out.terms, m, compareTerms)
		if !found {
			out.terms = slices.Insert(out.terms, i, monomial{coef, m.parts})
			continue
		}
		if coef, ok = sum64(out.terms[i].coef, coef); !ok {
			return poly{}, false
		}
		if out.terms[i].coef = coef; coef == 0 {
			out.terms = slices.Delete(out.terms, i, i+1)
		}
	}
	return out, len(out.terms) <= maxTerms
}

// compareTerms orders by the number of parts, the largest first, then by their names.
func compareTerms(a, b monomial) int {
	if len(a.parts) != len(b.parts) {
		return len(b.parts) - len(a.parts)
	}
	return slices.Compare(a.parts, b.parts)
}

// all returns the terms, a constant as one without parts.
func (p poly) all() []monomial {
	if p.c == 0 {
		return p.terms
	}
	return append(slices.Clip(slices.Clone(p.terms)), monomial{coef: p.c})
}

func polyOf(m monomial) poly {
	if len(m.parts) == 0 {
		return poly{c: m.coef}
	}
	return poly{terms: []monomial{m}}
}

func (p poly) times(q poly) (poly, bool) {
	out := poly{}
	for _, a := range p.all() {
		for _, b := range q.all() {
			coef, ok := product64(a.coef, b.coef)
			if !ok {
				return poly{}, false
			}
			parts := slices.Concat(a.parts, b.parts)
			slices.Sort(parts)
			if out, ok = out.plus(polyOf(monomial{coef, parts}), 1); !ok {
				return poly{}, false
			}
		}
	}
	return out, true
}

// over is p / q where q divides p for all sizes.
func (p poly) over(q poly) (poly, bool) {
	divisor := q.all()
	if len(divisor) == 0 {
		return poly{}, false
	}
	out := poly{}
	for range 2 * maxTerms {
		rest := p.all()
		if len(rest) == 0 {
			return out, true
		}
		step, ok := rest[0].over(divisor[0])
		if !ok {
			return poly{}, false
		}
		if out, ok = out.plus(polyOf(step), 1); !ok {
			return poly{}, false
		}
		taken, ok := q.times(polyOf(step))
		if !ok {
			return poly{}, false
		}
		if p, ok = p.plus(taken, -1); !ok {
			return poly{}, false
		}
	}
	return poly{}, false
}

func (m monomial) over(d monomial) (monomial, bool) {
	if d.coef == 0 || d.coef == -1 && m.coef == math.MinInt64 || m.coef%d.coef != 0 {
		return monomial{}, false
	}
	parts := slices.Clone(m.parts)
	for _, s := range d.parts {
		i := slices.Index(parts, s)
		if i < 0 {
			return monomial{}, false
		}
		parts = slices.Delete(parts, i, i+1)
	}
	return monomial{m.coef / d.coef, parts}, true
}

// elem writes p as an element: a number, a product such as 2*H*W, or a sum in parentheses. Sums with names that would not be
// read back as names are unknown.
func (p poly) elem() Elem {
	if len(p.terms) == 0 {
		return known(p.c)
	}
	if len(p.terms) == 1 && p.c == 0 && p.terms[0].coef > 0 {
		return symbol(p.terms[0].String())
	}
	var up, down strings.Builder
	for _, m := range p.terms {
		if slices.ContainsFunc(m.parts, func(s string) bool { return s[0] != '(' && strings.ContainsAny(s, "+-/() ") }) {
			return Elem{}
		}
		switch {
		case m.coef == math.MinInt64:
			return Elem{}
		case m.coef < 0:
			down.WriteString("-" + monomial{-m.coef, m.parts}.String())
		default:
			if up.Len() > 0 {
				up.WriteByte('+')
			}
			up.WriteString(m.String())
		}
	}
	text := up.String()
	if p.c > 0 {
		if text != "" {
			text += "+"
		}
		text += strconv.FormatInt(p.c, 10)
	}
	text += down.String()
	if p.c < 0 {
		text += strconv.FormatInt(p.c, 10)
	}
	return symbol("(" + text + ")")
}

func (m monomial) String() string {
	s := strings.Join(m.parts, "*")
	if m.coef != 1 {
		s = strconv.FormatInt(m.coef, 10) + "*" + s
	}
	return s
}

// nonNegative reports whether p is 0 or more for all sizes.
func (p poly) nonNegative() bool {
	return !slices.ContainsFunc(p.all(), func(m monomial) bool { return m.coef < 0 })
}

// sum64 and product64 are false where the result does not fit.
func sum64(a, b int64) (int64, bool) {
	s := a + b
	return s, (s > a) == (b > 0)
}

func product64(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(abs64(a), abs64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	if (a < 0) != (b < 0) {
		return -int64(lo), true
	}
	return int64(lo), true
}
