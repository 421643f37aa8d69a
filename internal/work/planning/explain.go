package planning

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qwb/analysis"
	"qwb/graph"
	"qwb/internal/work/open"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/tqc"
)

// ExplainResult is what plan explain prints with --json.
type ExplainResult struct {
	Plan   string          `json:"plan"`
	Node   string          `json:"node"`
	Op     string          `json:"op"`
	Domain string          `json:"domain"`
	Why    string          `json:"why"`
	Fused  string          `json:"fused,omitempty"`
	Steps  []string        `json:"steps,omitempty"` // of tuning that are about the operator and keep the float function
	By     []Because       `json:"by"`              // what is decided about the operator
	Slots  []SlotExplained `json:"slots"`
}

// SlotExplained is one input or output.
type SlotExplained struct {
	Slot      string    `json:"slot"`
	Tensor    string    `json:"tensor"`
	State     string    `json:"state"`
	Scheme    string    `json:"scheme,omitempty"`
	Observer  string    `json:"observer,omitempty"`
	Root      string    `json:"root,omitempty"` // the slot that governs it, where that is another
	Scale     []float32 `json:"scale,omitempty"`
	ZeroPoint []int32   `json:"zero_point,omitempty"`
	By        []Because `json:"by"` // what is decided about it and those that share its scale
}

// Because is a property with the decision that it comes from.
type Because struct {
	Property string `json:"property"` // key=value
	Number   int    `json:"number"`
	Decision string `json:"decision"`
	Slot     string `json:"slot,omitempty"` // of another slot that shares the scale
}

// ExplainNode says of one operator what holds for it and which decisions that comes from.
func ExplainNode(ctx context.Context, j *open.Job, node string) (*ExplainResult, error) {
	p, _, err := openDecided(ctx, j)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return ExplainOpen(j, p, node)
}

// ExplainOpen is ExplainNode of a plan that is open.
func ExplainOpen(j *open.Job, p *Planned, node string) (*ExplainResult, error) {
	id, ok := p.Graph.LookupNode(node)
	if !ok {
		return nil, fmt.Errorf("%s: there is no operator %q", j.Plan, node)
	}
	table, err := decision.Fold(p.Graph, p.Plan.Decisions)
	if err != nil {
		return nil, err
	}
	return p.explain(j.Plan, table, id), nil
}

// explain is ExplainResult of one operator, where table is the fold of the plan's decisions.
func (p *Planned) explain(file string, table *decision.Table, id graph.NodeID) *ExplainResult {
	because := func(c *decision.Cell, slot string) []Because {
		list := []Because{}
		for _, w := range c.Words() {
			key, _, _ := strings.Cut(w, "=")
			n := c.By(key)
			list = append(list, Because{w, n, p.Plan.Decisions[n-1].String(), slot})
		}
		return list
	}
	n := p.Graph.Node(id)
	r := &ExplainResult{Plan: file, Node: n.Name, Op: n.Op, Domain: p.Set.Domains[id].String(), Why: p.Set.Why[id],
		By: because(&table.Nodes[id], "")}
	if f := p.Set.Fused[id]; f >= 0 {
		r.Fused = p.Graph.Node(f).Name
	}
	if p.Overlay != nil {
		for i := range p.Overlay.Steps {
			if s := &p.Overlay.Steps[i]; s.At == n.Name || slices.Contains(s.Nodes, n.Name) {
				r.Steps = append(r.Steps, fmt.Sprintf("step %d: %s", i+1, s))
			}
		}
	}
	for _, slots := range [][]tqc.SlotID{p.Set.Inputs(id), p.Set.Outputs(id)} {
		for _, s := range slots {
			if s == tqc.NoSlot {
				continue
			}
			sl := p.Set.Slot(s)
			e := SlotExplained{Slot: SlotName(p.Graph, p.Set, s), Tensor: p.Graph.Value(sl.Value).Name, State: sl.State().String(),
				By: because(&table.Slots[s], "")}
			if sl.State() != tqc.FP32 {
				if sc, err := tqc.SchemeOf(sl.Config); err == nil {
					e.Scheme = sc.String()
				}
				e.Observer = string(sl.Config.Observer)
				e.Scale, e.ZeroPoint = p.Set.Params(s).Scale, p.Set.Params(s).ZeroPoint
				root := p.Set.Root(s)
				if root != s {
					e.Root = SlotName(p.Graph, p.Set, root)
				}
				for _, other := range p.Set.Group(s) {
					if other != s {
						for _, b := range because(&table.Slots[other], SlotName(p.Graph, p.Set, other)) {
							if !p.Plan.Decisions[b.Number-1].Default() {
								e.By = append(e.By, b)
							}
						}
					}
				}
			}
			r.Slots = append(r.Slots, e)
		}
	}
	return r
}

// Text is the explanation in lines.
func (r *ExplainResult) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s, decided by %s\n", r.Node, r.Op, r.Domain, dispatch.Words(r.Why))
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "  %s\n", s)
	}
	if r.Fused != "" {
		fmt.Fprintf(&b, "  is computed together with %s\n", r.Fused)
	}
	reasons := func(indent string, list []Because) {
		for _, x := range list {
			at := ""
			if x.Slot != "" {
				at = " (of " + x.Slot + ")"
			}
			fmt.Fprintf(&b, "%s%s%s from #%d %s\n", indent, x.Property, at, x.Number, x.Decision)
		}
	}
	reasons("  ", r.By)
	for i := range r.Slots {
		s := &r.Slots[i]
		fmt.Fprintf(&b, "  %s (tensor %s): %s\n", s.Slot, s.Tensor, s.Text())
		reasons("      ", s.By)
	}
	return b.String()
}

// Text says how a slot is quantized, on one line.
func (s *SlotExplained) Text() string {
	text := s.State
	if s.Scheme != "" {
		text += ", " + s.Scheme + ", scale " + numbers(s.Scale)
		if len(s.ZeroPoint) > 0 {
			text += ", zero point " + numbers(s.ZeroPoint)
		}
	}
	if s.Root != "" {
		text += ", that of " + s.Root
	}
	return text
}

// numbers writes one number, or the range of several.
func numbers[T float32 | int32](list []T) string {
	text := func(f T) string { return strconv.FormatFloat(float64(f), 'g', 4, 32) }
	switch len(list) {
	case 0:
		return "none"
	case 1:
		return text(list[0])
	}
	if slices.Min(list) == slices.Max(list) {
		return fmt.Sprintf("%s (%d)", text(list[0]), len(list))
	}
	return fmt.Sprintf("%s to %s (%d)", text(slices.Min(list)), text(slices.Max(list)), len(list))
}

// Docs says in words what holds for every operator, with the errors that an analysis found, and for every quantized tensor: by name. known
// is an analysis of the plan; nil: there is none.
func Docs(p *Planned, known *analysis.Report) (nodes, tensors map[string]string, err error) {
	table, err := decision.Fold(p.Graph, p.Plan.Decisions)
	if err != nil {
		return nil, nil, err
	}
	found := map[string]string{}
	say := func(node, what string, nsr float64) {
		found[node] += fmt.Sprintf("  %s: NSR %.3g (SQNR %.1f dB)\n", what, nsr, analysis.SQNR(nsr))
	}
	if known != nil {
		for i := range known.Graphwise {
			say(known.Graphwise[i].Node, "error at its output, all quantized", known.Graphwise[i].NSR)
		}
		for i := range known.Layerwise {
			say(known.Layerwise[i].Node, "error at the network's outputs, it alone quantized", known.Layerwise[i].NSR)
		}
	}
	nodes, tensors = map[string]string{}, map[string]string{}
	for _, id := range p.Graph.Nodes() {
		r := p.explain("", table, id)
		nodes[r.Node] = strings.TrimSuffix(r.Text()+found[r.Node], "\n")
		for i := range r.Slots {
			s := &r.Slots[i]
			if s.Scheme == "" {
				continue
			}
			if tensors[s.Tensor] != "" {
				tensors[s.Tensor] += "\n"
			}
			tensors[s.Tensor] += s.Slot + ": " + s.Text()
		}
	}
	return nodes, tensors, nil
}
