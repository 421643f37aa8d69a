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
	predicate("Not", 1, "not x"),
	predicate("IsNaN", 9, "whether x is not a number"),
	predicate("IsInf", 10, "whether x is infinite"),
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

func predicate(name string, since int64, doc string) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: since, Kind: KindCompare, MinIn: 1, Out: []Socket{SocketFloat},
		Infer: func(c *InferCtx) error {
			c.SetOut(0, tensor.Bool, c.Shape(0))
			return nil
		}}
}

// equalElems is 1 or 0 where that is certain. Symbols are dimensions and never negative.
func equalElems(a, b Elem) Elem {
	switch {
	case a.Known && b.Known && a.N == b.N:
		return known(1)
	case a.Known && b.Known:
		return known(0)
	case a.Known && a.N < 0 && b.Symbol != "", b.Known && b.N < 0 && a.Symbol != "":
		return known(0)
	case a.Symbol != "" && a.Symbol == b.Symbol && !a.Known && !b.Known:
		return known(1)
	}
	return Elem{}
}
