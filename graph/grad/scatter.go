package grad

import (
	"fmt"

	"qwb/graph"
)

// scatters read or write elements at places that a tensor lists.
var scatters = map[string]rule{
	"GatherElements": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID {
		return t.added("ScatterElements", []graph.Attr{graph.Int("axis", t.n.AttrInt("axis", 0))}, x, t.x(1), dy)
	}),
	"GatherND": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID {
		if t.n.AttrInt("batch_dims", 0) != 0 {
			t.fail(fmt.Errorf("batch_dims"))
		}
		return t.added("ScatterND", nil, x, t.x(1), dy)
	}),
	"ScatterElements": scattered("ScatterElements", "GatherElements"),
	"ScatterND":       scattered("ScatterND", "GatherND"),
	"TopK": unary(func(t *tape, x, _, dy graph.ValueID) graph.ValueID {
		at, axis := t.n.Outputs[1], graph.Int("axis", int64(t.n.Axis()))
		if at == graph.NoValue {
			t.fail(fmt.Errorf("nothing reads its indices"))
		}
		return t.with("ScatterElements", []graph.Attr{axis}, t.zeros(t.shape(x)), at, dy)
	}),
}

func (t *tape) zeros(shape []int) graph.ValueID {
	return t.op("Expand", t.scalar(0), t.integers(shape...))
}

// added adds what arrives at elements of x, which may be read more than once.
func (t *tape) added(op string, attrs []graph.Attr, x, at, dy graph.ValueID) graph.ValueID {
	if t.G.Opset("") < 16 {
		t.fail(fmt.Errorf("opset %d, sums of scattered elements are of 16", t.G.Opset("")))
	}
	return t.with(op, append(attrs, graph.Str("reduction", "add")), t.zeros(t.shape(x)), at, dy)
}

// scattered is the rule of data with updates written over them, or added.
func scattered(scatter, gather string) rule {
	return func(t *tape, dy []graph.ValueID) []graph.ValueID {
		list, attrs := t.only(0, dy[0]), []graph.Attr{graph.Int("axis", t.n.AttrInt("axis", 0))}
		if scatter == "ScatterND" {
			attrs = nil
		}
		switch r := t.n.AttrStr("reduction", "none"); r {
		case "none":
			list[0] = t.with(scatter, attrs, dy[0], t.x(1), t.zeros(t.shape(t.x(2))))
		case "add":
		default:
			t.fail(fmt.Errorf("reduction %q", r))
		}
		if t.wants(2) {
			list[2] = t.with(gather, attrs, dy[0], t.x(1))
		}
		return list
	}
}
