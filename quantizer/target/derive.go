package target

import (
	"slices"
	"strings"

	"qwb/internal/arrange"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// derive returns a target that is from but for what change says. The rows of operators may be changed.
func derive(from *Target, change func(t *Target)) Target {
	t := *from
	t.Ops, t.Fusions = slices.Clone(t.Ops), slices.Clone(t.Fusions)
	change(&t)
	return t
}

// keep drops the rows of other operator types.
func (t *Target) keep(types ...string) {
	t.Ops = slices.DeleteFunc(t.Ops, func(o Op) bool { return !slices.Contains(types, o.Type) })
}

// put adds rows, in the place of those of the same operator types.
func (t *Target) put(rows ...Op) {
	for _, row := range rows {
		if i := slices.IndexFunc(t.Ops, func(o Op) bool { return o.Type == row.Type }); i >= 0 {
			t.Ops[i] = row
		} else {
			t.Ops = append(t.Ops, row)
		}
	}
}

// movers are the rows of operators that move or select elements, which every integer back end of this package that names them computes on
// codes.
var movers = []Op{
	{Type: "DepthToSpace", Role: Passive},
	{Type: "Flatten", Role: Passive},
	{Type: "Gather", Role: Passive},
	{Type: "GlobalMaxPool", Role: Passive},
	{Type: "Identity", Role: Passive},
	{Type: "MaxPool", Role: Passive, Needs: []Condition{OneOutput}},
	{Type: "Pad", Role: Passive, Needs: []Condition{Copies}},
	{Type: "Reshape", Role: Passive},
	{Type: "Resize", Role: Passive, Needs: []Condition{Copies}},
	{Type: "Slice", Role: Passive},
	{Type: "SpaceToDepth", Role: Passive},
	{Type: "Split", Role: Passive},
	{Type: "Squeeze", Role: Passive},
	{Type: "Transpose", Role: Passive},
	{Type: "Unsqueeze", Role: Passive},
	{Type: "Upsample", Role: Passive, Needs: []Condition{Copies}}, // exported as Resize
}

// moving returns movers without some and with more rows, by operator type.
func moving(without []string, more ...Op) []Op {
	rows := append(dropped(movers, without...), more...)
	arrange.Stable(rows, func(a, b Op) int { return strings.Compare(a.Type, b.Type) })
	return rows
}

// needing returns rows that all demand a condition more.
func needing(c Condition, rows []Op) []Op {
	out := slices.Clone(rows)
	for i := range out {
		out[i].Needs = append(slices.Clip(out[i].Needs), c)
	}
	return out
}

// eight is a policy of 8-bit integers from lo to hi with one scale per tensor, or per output channel.
func eight(lo, hi int32, grain tqc.Policy, observer tqc.Observer) tqc.Config {
	kind := tqc.Symmetric
	if lo == 0 {
		kind = tqc.Asymmetric
	}
	return tqc.Config{Policy: kind | grain | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: lo, QMax: hi}, Observer: observer}
}

// dropped returns rows without those of some operator types.
func dropped(rows []Op, types ...string) []Op {
	return slices.DeleteFunc(slices.Clone(rows), func(o Op) bool { return slices.Contains(types, o.Type) })
}

// without returns conditions but for one.
func without(list []Condition, c Condition) []Condition {
	return slices.DeleteFunc(slices.Clone(list), func(o Condition) bool { return o.Name == c.Name })
}
