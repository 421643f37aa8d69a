package passes

import (
	"slices"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Place gives the slots at which the target may quantize their policy.
var Place = Pass{Name: "place", Doc: "make the slots at which the target quantizes INITIAL, with their policy", Run: place}

func place(c *Context) error {
	read := c.readAsIntegers()
	for _, id := range c.integers() {
		var err error
		switch c.Bound.Placement {
		case target.Everywhere:
			err = c.placeAll(id, read)
		case target.AllInputs:
			if role := c.Bound.Ops[id].Role; role == target.Weighted || role == target.Arithmetic {
				err = c.placeReads(id)
			}
		default:
			err = c.placeInputs(id)
		}
		if err != nil {
			return c.Graph.ErrorAt("configure", id, err)
		}
	}
	for _, id := range c.Bound.Order {
		if c.Set.Domains[id] != tqc.DomainWeights {
			continue
		}
		for _, i := range target.WeightInputs(c.Graph.Node(id)) {
			if err := c.parameter(c.Set.Input(id, i), c.Bound.WeightConfig(c.Graph, id, i)); err != nil {
				return c.Graph.ErrorAt("configure", id, err)
			}
		}
	}
	return nil
}

// placeInputs configures a target whose quantizers stand at the inputs of weighted operators and at skip branches.
func (c *Context) placeInputs(id graph.NodeID) error {
	switch c.Bound.Ops[id].Role {
	case target.Weighted:
		return c.placeWeighted(id)
	case target.Arithmetic:
		if _, skip, ok := c.Bound.Branches(id, c.integer); ok {
			return c.activate(c.Set.Input(id, skip))
		}
	}
	return nil
}

// placeReads configures all inputs of an operator.
func (c *Context) placeReads(id graph.NodeID) error {
	op := c.Bound.Ops[id]
	if op.Role == target.Weighted {
		return c.placeWeighted(id)
	}
	for _, i := range c.Bound.DataInputs(id) {
		s := c.Set.Input(id, i)
		constant := c.Graph.Const(c.Graph.Node(id).Inputs[i]) != nil
		var err error
		switch {
		case constant && (op.Role == target.Activation || c.Bound.IsTable(id)):
			// a slope or bound inside the function's formula
		case constant:
			err = c.parameter(s, c.constant(id))
		default:
			err = c.activate(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// group is the head of the operators that node id is computed with.
func (c *Context) group(id graph.NodeID) graph.NodeID {
	if head := c.Set.Fused[id]; head != graph.NoNode {
		return head
	}
	return id
}

// readAsIntegers reports by heads of groups whether their results are integers for a reader. Those of sums of products that the target
// writes as float at no cost are so only if such a reader computes with them; what moves elements, or only cuts them off, hands on what it
// is given.
func (c *Context) readAsIntegers() map[graph.NodeID]bool {
	read, ids := map[graph.NodeID]bool{}, c.integers()
	moves := func(head graph.NodeID) bool {
		role := c.Bound.Ops[head].Role
		return role == target.Passive || role == target.Activation
	}
	for _, id := range slices.Backward(ids) {
		head := c.group(id)
		if op := c.Bound.Ops[head]; op.Role == target.Arithmetic || op.Role == target.Weighted && !c.Bound.EndsInFloat(op) {
			read[head] = true
		}
		if moves(head) && !read[head] {
			continue
		}
		for _, i := range c.Bound.DataInputs(id) {
			if p := c.Graph.Producer(c.Graph.Node(id).Input(i)); c.integer(p) && c.group(p) != head {
				read[c.group(p)] = true
			}
		}
	}
	for _, id := range ids {
		if head := c.group(id); moves(head) && !c.Bound.FloatOutputs {
			p := c.Graph.Producer(c.Graph.Node(head).Input(0))
			read[head] = read[head] || !c.integer(p) || read[c.group(p)]
		}
	}
	return read
}

// placeAll configures a target whose quantizers stand at inputs and outputs.
func (c *Context) placeAll(id graph.NodeID, read map[graph.NodeID]bool) error {
	op, head := c.Bound.Ops[id], c.group(id)
	if !read[head] && (id != head || op.Role != target.Weighted) {
		return nil
	}
	if err := c.placeReads(id); err != nil || !read[head] {
		return err
	}
	if c.Graph.Node(id).Op == "LSTM" {
		return c.placeCells(id)
	}
	for i := range c.Graph.Node(id).Outputs {
		if s := c.Set.Output(id, i); s != tqc.NoSlot && target.DataOutput(c.Graph, id, i) {
			cfg := c.activation(s)
			if op.FixedScale != 0 {
				cfg.Observer, cfg.FixedScale, cfg.FixedZeroPoint = tqc.ObserverFixed, op.FixedScale, op.FixedZeroPoint(cfg.QMin)
				cfg.FinestScale = op.FinestScale(c.Graph, id)
			}
			if err := c.configure(s, cfg); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeCells configures the results and the initial states of an LSTM with scales of the plan: all states of one kind share a scale.
func (c *Context) placeCells(id graph.NodeID) error {
	data := c.Set.Input(id, 0)
	if !target.CellsOfPlan(c.Set, c.Graph.Node(id).Op, data) {
		return nil
	}
	state, all := c.Set.Slot(data).Config, c.Set.Output(id, 0) // the scheme that is decided for the data is that of the state
	if state.Observer, state.FixedScale = tqc.ObserverFixed, target.StateScale; all != tqc.NoSlot {
		state.Observer, state.FixedScale = c.activation(all).Observer, 0
		if err := c.Set.Configure(all, state); err != nil {
			return err
		}
	}
	for _, s := range []tqc.SlotID{c.Set.Input(id, 5), c.Set.Output(id, 1)} {
		if s == tqc.NoSlot {
			continue
		}
		err := c.Set.Configure(s, state)
		if err == nil && all != tqc.NoSlot {
			err = c.Set.Borrow(s, all)
		}
		if err != nil {
			return err
		}
	}
	for _, s := range []tqc.SlotID{c.Set.Input(id, 6), c.Set.Output(id, 2)} {
		if s == tqc.NoSlot {
			continue
		}
		if err := c.Set.Configure(s, target.CellConfig); err != nil {
			return err
		}
	}
	return nil
}

func (c *Context) placeWeighted(id graph.NodeID) error {
	bias := graph.BiasOf(c.Graph.Node(id))
	for _, i := range c.Bound.DataInputs(id) {
		s := c.Set.Input(id, i)
		constant := c.Graph.Const(c.Graph.Node(id).Inputs[i]) != nil
		var err error
		switch {
		case i == bias && (c.Bound.Bias.Bits == 0 || !constant || graph.IsRecurrent(c.Graph.Node(id))):
			// stays float
		case i == bias:
			err = c.parameter(s, c.bias(id))
		case constant:
			err = c.parameter(s, c.Bound.WeightConfig(c.Graph, id, i))
		default:
			err = c.activate(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parameter configures a constant.
func (c *Context) parameter(s tqc.SlotID, cfg tqc.Config) error {
	c.Set.Slot(s).Weight = true
	return c.configure(s, cfg)
}

// activate configures an input. What comes from outside the integers is rounded as the target's own arithmetic rounds it there.
func (c *Context) activate(s tqc.SlotID) error {
	cfg := c.activation(s)
	from := c.Graph.Producer(c.Set.Slot(s).Value)
	if a := c.Bound.Arithmetic; a != nil && (from == graph.NoNode || c.Set.Domains[from] != tqc.DomainInt) {
		cfg.Rounding = a.Quantize
	}
	return c.configure(s, cfg)
}

// activation is the policy of an activation.
func (c *Context) activation(s tqc.SlotID) tqc.Config {
	sl := c.Set.Slot(s)
	return target.AlongActivation(c.Graph, sl.Node, sl.Index, c.Bound.ActivationConfig(c.Graph.Node(sl.Node)))
}

// constant is the policy of a constant operand of an Arithmetic operator: that of activations, but all of its elements are
// known, so that nothing need be cut off.
func (c *Context) constant(id graph.NodeID) tqc.Config {
	cfg := c.Bound.ActivationConfig(c.Graph.Node(id))
	cfg.Observer = tqc.ObserverMinMax
	return cfg
}

// bias is the policy of a bias: as many scales as the weight has, which is configured already, along its last axis.
func (c *Context) bias(id graph.NodeID) tqc.Config {
	cfg := c.Bound.Bias
	cfg.Policy, cfg.Axis, cfg.Observer = cfg.Policy&^(tqc.PerTensor|tqc.PerChannel)|tqc.PerTensor, 0, tqc.ObserverNone
	if w := c.Set.Slot(c.Set.Input(id, 1)); w.Weight && w.Config.Policy.Has(tqc.PerChannel) {
		cfg.Policy = cfg.Policy&^tqc.PerTensor | tqc.PerChannel
		cfg.Axis = len(c.Graph.Value(c.Graph.Node(id).Inputs[graph.BiasInput]).Shape) - 1
	}
	return cfg
}
