package planning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/calib"
	"qwb/graph"
	"qwb/observers"
	"qwb/quantizer"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/overlay"
	"qwb/quantizer/passes"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Derivation is all that a configuration follows from beside decisions: the model's graph in normal form, with what was tuned, the
// target, and where scales come from.
type Derivation struct {
	Graph  *graph.Graph
	Target *target.Target
	// Stats are the statistics of the graph, with the steps of Overlay. For a plan that was imported they are nil and Imported is what the
	// file says.
	Stats    *calib.Stats
	Imported *tqc.Set
	// Parts are what outputs are judged by beside the whole, as analysis.NewJudge takes them.
	Parts []analysis.Slice
	// Own are the observers that the program brings along.
	Own     []*observers.Method
	Threads int // never changes a result
	// Watch, if not nil, hears of ranges that are searched; see calib.RenderConfig.
	Watch func(done, total int)
	Memo  calib.Memo // of ranges, for deriving again with other decisions
	// Overlay is what was tuned, nil for nothing; Graph has its values, and Reference is the graph without them. Weights that it was made
	// for keep its scales.
	Overlay   *overlay.Overlay
	Reference *graph.Graph

	Base *calib.Stats // those of the graph without steps that tuning made, which Stats are not
	Kept *KeptRuns    // what KeptLosses has computed
}

// Derived is what follows from decisions.
type Derived struct {
	Graph      *graph.Graph // that the set is of
	Set        *tqc.Set
	Assignment *dispatch.Assignment
	Table      *decision.Table
	Effects    quantizer.Effects
	Warnings   []tqc.Warning
	// Choices are what automatic choices chose, as decisions to be remembered: a slot that has one is not tried again, since the
	// errors that decide hang on the last bits of sums, and those on the machine.
	Choices []decision.Decision
}

// Derive configures the graph under a list of decisions: domains, policies, which slots share a scale, and all scales. It is a pure
// function: the same arguments give the same set, whatever was derived before. What the target cannot do and decisions that contradict
// each other are errors that name the decision (decision.Error).
func (d *Derivation) Derive(ctx context.Context, list []decision.Decision) (*Derived, error) {
	out := &Derived{Graph: d.Graph}
	forced, err := d.Forced(list, out)
	if err != nil {
		return nil, err
	}
	table := out.Table
	if d.Imported != nil {
		return out, d.release(table, list, forced, out)
	}
	if err := d.Assign(out, forced); err != nil {
		return nil, err
	}
	var warnings []tqc.Warning
	used := out.Effects.Used
	out.Set, warnings, err = quantizer.Configure(d.Graph, out.Assignment, d.Target, quantizer.Options{Decisions: table, Effects: &out.Effects})
	if err != nil {
		return nil, err
	}
	for n := range used {
		out.Effects.Used[n] = true
	}
	for _, name := range []string{"dispatcher", "border_cost"} {
		out.Effects.Used[table.Plan.By(name)] = true
	}
	rendered, err := calib.Render(ctx, d.Graph, out.Set, d.Stats, calib.RenderConfig{Own: d.Own, Threads: d.Threads, Memo: &d.Memo,
		Frozen:   d.frozen(out.Set),
		Progress: d.Watch})
	if err != nil {
		return nil, err
	}
	out.Warnings = append(append(warnings, rendered.Warnings...), warnFloatProducts(d.Graph, out.Set, d.Target)...)
	for _, c := range rendered.Choices {
		if c.Asked == tqc.ObserverAuto {
			out.Set.Slot(c.Slot).Observer = c.Observer
			out.Choices = append(out.Choices, decision.Decision{By: decision.ByCalibrate,
				Select:     decision.Select{SlotSelector(d.Graph, out.Set, c.Slot)},
				Properties: decision.Properties{Observer: c.Observer}})
		}
	}
	d.islands(out)
	return out, out.fixed(d.Graph)
}

// Forced folds a list of decisions and lists what is decided about where operators run.
func (d *Derivation) Forced(list []decision.Decision, out *Derived) (forced []dispatch.Forced, err error) {
	if out.Table, err = decision.Fold(d.Graph, list); err != nil {
		return nil, err
	}
	return d.domains(out.Table, list, &out.Effects)
}

// Assign dispatches the graph.
func (d *Derivation) Assign(out *Derived, forced []dispatch.Forced) (err error) {
	whole := &out.Table.Plan
	out.Assignment, err = dispatch.Assign(d.Graph, d.Target, dispatch.Options{Strategy: whole.Dispatcher, BorderCost: whole.BorderCost,
		Observed: d.observed, Forced: forced})
	if err != nil {
		return d.undispatched(out.Table, err)
	}
	return nil
}

// observed is how many elements a tensor has in a sample, on the mean; those left out as padding and what is not finite do not count.
func (d *Derivation) observed(v graph.ValueID) (int64, bool) {
	if d.Stats == nil || d.Stats.Samples() == 0 {
		return 0, false
	}
	t := d.Stats.Tensor(d.Graph.Value(v).Name)
	if t == nil || t.State.Count() == 0 {
		return 0, false
	}
	n := uint64(d.Stats.Samples())
	return int64((t.State.Count() + n - 1) / n), true
}

// Configure dispatches a normal graph for a target and chooses all scales from its statistics, activations by an observer.
func Configure(ctx context.Context, g *graph.Graph, stats *calib.Stats, t *target.Target, observer tqc.Observer,
	threads int) (*tqc.Set, error) {
	d := &Derivation{Graph: g, Target: t, Stats: stats, Threads: threads}
	out, err := d.Derive(ctx, []decision.Decision{CalibrationDecision(observer, false, false)})
	if err != nil {
		return nil, err
	}
	return out.Set, nil
}

// fixed holds the scales that were decided to what they are: finding biases that fit raises scales of weights.
func (d *Derived) fixed(g *graph.Graph) error {
	for _, f := range d.Effects.Fixed {
		if p := d.Set.Params(f.Slot); !slices.Equal(p.Scale, f.Scale) {
			return d.Table.Fail(f.Number, fmt.Errorf("%s: with this scale the bias does not fit into 32 bits; it would have to be %g at least",
				SlotName(g, d.Set, f.Slot), slices.Max(p.Scale)))
		}
	}
	return nil
}

// domains lists what is decided about where operators run.
func (d *Derivation) domains(table *decision.Table, list []decision.Decision, effects *quantizer.Effects) ([]dispatch.Forced, error) {
	by := map[int]*dispatch.Forced{}
	var numbers []int
	order, err := d.Graph.Order()
	if err != nil {
		return nil, err
	}
	effects.Used = map[int]bool{}
	for _, id := range order {
		cell := &table.Nodes[id]
		n := cell.By("domain")
		if n == 0 {
			continue
		}
		f := by[n]
		if f == nil {
			dec := &list[n-1]
			f = &dispatch.Forced{Who: string(dec.By), Why: reason(dec)}
			if f.Domain = cell.Domain.Of(); f.Domain == tqc.DomainInt && d.Imported != nil {
				return nil, table.Fail(n, errors.New("the plan was imported: the file runs this operator in float and has no scales for it"))
			}
			by[n], numbers = f, append(numbers, n)
			effects.Used[n] = true
		}
		f.Nodes = append(f.Nodes, id)
	}
	asked := d.asked(table, list)
	slices.Sort(numbers)
	forced := make([]dispatch.Forced, len(numbers))
	for i, n := range numbers {
		forced[i] = *by[n]
	}
	return append(forced, asked...), nil
}

// asked lists the operators that a target runs on integers where that is asked for, and that have got a scheme of activations for it.
func (d *Derivation) asked(table *decision.Table, list []decision.Decision) (forced []dispatch.Forced) {
	if d.Imported != nil || !slices.ContainsFunc(d.Target.Ops, func(o target.Op) bool { return o.Asked }) {
		return nil
	}
	set := tqc.NewSet(d.Graph)
	for _, id := range d.Graph.Nodes() {
		op, err := d.Target.Supports(d.Graph, id)
		if err != nil || !op.Asked || table.Nodes[id].By("domain") > 0 || set.Input(id, 0) == tqc.NoSlot {
			continue
		}
		cell := &table.Slots[set.Input(id, 0)]
		if by := cell.By("activations"); by > 0 && slices.Contains(op.Schemes.Activation, cell.Activations) {
			forced = append(forced, dispatch.Forced{Nodes: []graph.NodeID{id}, Who: string(list[by-1].By), Why: reason(&list[by-1]),
				Domain: tqc.DomainInt})
		}
	}
	return forced
}

// reason is what a plan says of an operator that was sent to float.
func reason(d *decision.Decision) string {
	if d.Goal != "" {
		return d.Goal
	}
	return d.Select.String()
}

// undispatched names the decisions behind an error of dispatch.
func (d *Derivation) undispatched(table *decision.Table, err error) error {
	var c *dispatch.Conflict
	if errors.As(err, &c) {
		i, f := table.Nodes[c.Integer].By("domain"), table.Nodes[c.Float].By("domain")
		return table.Fail(max(i, f), fmt.Errorf("conflict with decision #%d: %w", min(i, f), err))
	}
	var node *graph.NodeError
	if errors.As(err, &node) {
		if id, ok := d.Graph.LookupNode(node.Node); ok && table.Nodes[id].By("domain") > 0 {
			return table.Fail(table.Nodes[id].By("domain"), err)
		}
	}
	return err
}

// release is Derive for an imported plan: the file's own grids, without those of nodes that are float, and with scales that are decided.
func (d *Derivation) release(table *decision.Table, list []decision.Decision, forced []dispatch.Forced, out *Derived) error {
	set, err := qdq.Release(d.Graph, d.Imported, d.Target, forced...)
	if err != nil {
		return err
	}
	bound, err := d.Target.Bind(d.Graph)
	if err != nil {
		return err
	}
	if out.Assignment, err = dispatch.AssignBound(bound, dispatch.Options{}); err != nil {
		return err
	}
	out.Set = set
	out.Assignment.Domains, out.Assignment.Why, out.Assignment.Fused = set.Domains, set.Why, set.Fused
	for i, counts := range decision.InForce(list) {
		p := list[i].Properties
		p.Domain, p.Scale, p.ZeroPoint = "", nil, nil
		if counts && !p.Empty() {
			return table.Fail(i+1, fmt.Errorf("the plan was imported and has no statistics: only domain=fp32, "+
				"scale and zero_point can be set, not %s", strings.Join(p.Words(), " ")))
		}
	}
	nodes, err := d.freeze(set)
	if err != nil {
		return err
	}
	if err := quantizer.Scales(d.Graph, set, table, &out.Effects); err != nil {
		return err
	}
	if len(out.Effects.Fixed)+len(nodes) > 0 {
		for _, f := range out.Effects.Fixed {
			for _, s := range set.Group(f.Slot) {
				nodes = append(nodes, set.Slot(s).Node)
			}
		}
		if out.Warnings, err = passes.SolveBiasOf(d.Graph, set, nodes); err != nil {
			return err
		}
	}
	return out.fixed(d.Graph)
}

// SlotName names a slot as plans do: conv1:in0.
func SlotName(g *graph.Graph, set *tqc.Set, s tqc.SlotID) string {
	sl := set.Slot(s)
	return g.Node(sl.Node).Name + ":" + decision.At(sl.Kind, sl.Index)
}

// SlotSelector is a selector that means one slot, whatever its operator is called.
func SlotSelector(g *graph.Graph, set *tqc.Set, s tqc.SlotID) string {
	text := strings.ReplaceAll(SlotName(g, set, s), ",", `\,`)
	for _, t := range []string{text, "name:" + text} {
		if sel, err := decision.ParseSelector(t); err == nil {
			if m, err := sel.Match(g, set); err == nil && len(m.Nodes) == 0 && slices.Equal(m.Slots, []tqc.SlotID{s}) {
				return t
			}
		}
	}
	return text
}
