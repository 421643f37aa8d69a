package planning

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// halfMost is the largest finite number of fp16. halfRoom is the largest magnitude that is left to it, since other samples go further than
// those that were observed.
const (
	halfMost = 65504
	halfRoom = halfMost / 2
)

// islands gives float operators the precision that the target has for them, unless somebody decided about them. What would overflow there
// stays in float32, and what overflows because somebody decided so is a warning.
func (d *Derivation) islands(out *Derived) {
	domain := tqc.FloatDomain(d.Target.Island)
	for _, id := range d.Graph.Nodes() {
		is := out.Set.Domains[id]
		if is != tqc.DomainFP16 && (is != tqc.DomainFP32 || domain == tqc.DomainFP32) {
			continue
		}
		who, _, _ := strings.Cut(out.Set.Why[id], ":")
		decided := who == dispatch.ByUser || who == dispatch.BySearch || who == string(decision.ByRecipe)
		if is == tqc.DomainFP32 && !decided {
			is = domain
		}
		name, most := "", float32(0)
		if is == tqc.DomainFP16 {
			name, most = d.largest(id)
		}
		switch {
		case most <= halfRoom:
		case decided:
			out.Warnings = append(out.Warnings, tqc.Warning{Node: d.Graph.Node(id).Name, Value: float64(most),
				Text: fmt.Sprintf("%s is decided to be fp16, which holds numbers up to %d; %q has %.6g", d.Graph.Node(id).Name, halfMost, name, most)})
			continue
		default:
			is = tqc.DomainFP32
			out.Set.Why[id] += fmt.Sprintf("; fp32: %q has %.6g, with too little room below the end of fp16", name, most)
			out.Assignment.Why[id] = out.Set.Why[id]
		}
		out.Set.Domains[id], out.Assignment.Domains[id] = is, is
	}
}

// largest is the largest magnitude among what a node reads and computes, in constants and as observed, and the name of the tensor that has
// it.
func (d *Derivation) largest(id graph.NodeID) (name string, most float32) {
	see := func(v graph.ValueID) {
		val, m := d.Graph.Value(v), float32(0)
		if val.Const != nil {
			for _, x := range val.Const.F32() {
				m = max(m, -x, x)
			}
		} else if d.Stats != nil {
			if t := d.Stats.Tensor(val.Name); t != nil {
				if x := t.State.Extent(); !x.Empty() {
					m = max(-x.Min, x.Max)
				}
			}
		}
		if m > most {
			name, most = val.Name, m
		}
	}
	n := d.Graph.Node(id)
	for i, v := range n.Inputs {
		if target.DataInput(d.Graph, id, i) {
			see(v)
		}
	}
	for i, v := range n.Outputs {
		if v != graph.NoValue && target.DataOutput(d.Graph, id, i) {
			see(v)
		}
	}
	return name, most
}
