package analysis

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/quantizer/tqc"
)

// NodeSetting is how one operator is quantized: where it runs, who decided that, and the configuration of its tensors.
type NodeSetting struct {
	Node   string `json:"node"`
	Op     string `json:"op"`
	Domain string `json:"domain"` // as tqc.Domain writes it
	// Why is who decided the domain, a colon, and the reason, as tqc.Set.Why has it.
	Why   string        `json:"why"`
	Fused string        `json:"fused,omitempty"` // the operator it is computed together with
	Slots []SlotSetting `json:"slots,omitempty"` // inputs, then outputs; those that stay float are left out
}

// SlotSetting is the configuration of one input or output.
type SlotSetting struct {
	At     string `json:"at"` // in0, in1, ..., out0, ...
	Tensor string `json:"tensor"`
	State  string `json:"state"`
	Scheme string `json:"scheme"` // "int8 symmetric per-channel"
	// Root is the slot whose scale is used, as node:at; empty where it is the slot's own.
	Root string `json:"root,omitempty"`
	// Scales counts them: 1 per tensor, one per channel or group; 0 where there is none yet. Scale and ZeroPoint are the smallest and
	// the largest of them.
	Scales    int        `json:"scales"`
	Scale     [2]float32 `json:"scale"`
	ZeroPoint [2]int32   `json:"zero_point"`
	// Codes are the smallest and the largest integer; nil for formats that are no integers.
	Codes  *[2]int32 `json:"codes,omitempty"`
	Method string    `json:"method,omitempty"` // how the range was found
}

// Settings lists how every operator of g is quantized by set, in the canonical order of the graph.
func Settings(g *graph.Graph, set *tqc.Set) ([]NodeSetting, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	list := make([]NodeSetting, 0, len(order))
	for _, id := range order {
		n := g.Node(id)
		s := NodeSetting{Node: n.Name, Op: n.Op, Domain: set.Domains[id].String(), Why: set.Why[id]}
		if head := set.Fused[id]; head != graph.NoNode {
			s.Fused = g.Node(head).Name
		}
		for _, slots := range [][]tqc.SlotID{set.Inputs(id), set.Outputs(id)} {
			for _, slot := range slots {
				if slot != tqc.NoSlot && set.Slot(slot).State() != tqc.FP32 {
					s.Slots = append(s.Slots, slotSetting(g, set, slot))
				}
			}
		}
		list = append(list, s)
	}
	return list, nil
}

func slotSetting(g *graph.Graph, set *tqc.Set, id tqc.SlotID) SlotSetting {
	slot, root := set.Slot(id), set.Slot(set.Root(id))
	s := SlotSetting{At: place(slot), Tensor: g.Value(slot.Value).Name, State: slot.State().String(), Scheme: schemeText(&slot.Config),
		Method: string(root.Observer)}
	if s.Method == "" {
		s.Method = string(root.Config.Observer)
	}
	if c := &slot.Config; c.Policy.Has(tqc.Linear) {
		s.Codes = &[2]int32{c.QMin, c.QMax}
	}
	if root != slot {
		s.Root = g.Node(root.Node).Name + ":" + place(root)
	}
	p := set.Params(id)
	if !p.Ready() {
		return s
	}
	s.Scales, s.Scale, s.ZeroPoint = len(p.Scale), [2]float32{p.Scale[0], p.Scale[0]}, [2]int32{p.ZeroPoint[0], p.ZeroPoint[0]}
	for i := range p.Scale {
		s.Scale = [2]float32{min(s.Scale[0], p.Scale[i]), max(s.Scale[1], p.Scale[i])}
		s.ZeroPoint = [2]int32{min(s.ZeroPoint[0], p.ZeroPoint[i]), max(s.ZeroPoint[1], p.ZeroPoint[i])}
	}
	return s
}

// place is where a slot is at its node: in0, out0.
func place(s *tqc.Slot) string { return fmt.Sprintf("%s%d", s.Kind, s.Index) }

// schemeText is a scheme in words: "uint8 asymmetric per-tensor". Linear, which nearly all are, goes without saying, and floating, which
// the format says.
func schemeText(c *tqc.Config) string {
	text := c.FormatName() + " " + strings.NewReplacer(" linear", "", " floating", "").Replace(c.Policy.String())
	if c.Policy.Has(tqc.PerGroup) {
		text += fmt.Sprintf(" of %d", c.GroupSize)
	}
	if c.Blocks != tqc.FreeScales {
		text += " " + c.Blocks.String()
	}
	return text
}
