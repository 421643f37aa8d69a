package graph

import "qwb/graph/tensor"

var compareOps = []OpSpec{
	compare("Equal", 1, "a == b", equalElems),
	compare("Greater", 1, "a > b", nil),
	compare("GreaterOrEqual", 12, "a >= b", nil),
	compare("Less", 1, "a < b", nil),
	compare("LessOrEqual", 12, "a <= b", nil),
	compare("And", 1, "a and b", nil),
	compare("Or", 1, "a or b", nil),
	compare("Xor", 1, "a xor b", nil),
	predicate("Not", 1, "not x", notElem),
	predicate("IsNaN", 9, "whether x is not a number", nil),
	predicate("IsInf", 10, "whether x is infinite", nil),
}

func compare(name string, since int64, doc string, elem func(a, b Elem) Elem) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: since, Kind: KindCompare, MinIn: 2, Out: []Socket{SocketFloat},
		Infer: func(c *InferCtx) error {
			s, err := binaryShape(c)
			if err != nil {
				return err
			}
			c.SetOut(0, tensor.Bool, s)
			c.combineElems(s, elem)
			return nil
		}}
}

func predicate(name string, since int64, doc string, elem func(Elem) Elem) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: since, Kind: KindCompare, MinIn: 1, Out: []Socket{SocketFloat},
		Infer: func(c *InferCtx) error {
			c.SetOut(0, tensor.Bool, c.Shape(0))
			if elems, ok := c.Elems(0); ok && elem != nil {
				out := make([]Elem, len(elems))
				for i, e := range elems {
					out[i] = elem(e)
				}
				c.setInts(0, out)
			}
			return nil
		}}
}

// notElem is 1 for 0 and 0 for any other number.
func notElem(e Elem) Elem {
	switch {
	case !e.Known:
		return Elem{}
	case e.N == 0:
		return known(1)
	}
	return known(0)
}

// equalElems is 1 or 0 where that is certain. Symbols are dimensions and never negative.
func equalElems(a, b Elem) Elem {
	switch {
	case a.Known && b.Known && a.N == b.N:
		return known(1)
	case a.Known && b.Known:
		return known(0)
	case a.Known && a.N < 0 && b.nonNegative(), b.Known && b.N < 0 && a.nonNegative():
		return known(0)
	case a.same(b):
		return known(1)
	}
	return Elem{}
}
