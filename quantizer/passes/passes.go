// Package passes turns the domains of a graph into quantization configs: which slots quantize, which are governed by another,
// which borrow a scale. A pass changes states and dominance of a tqc.Set and nothing else; the graph is never rewritten.
//
// The passes run once, before calibration, in the order of Configuration. The last one runs after it: SolveBias.
//
// Unstable: it may change without notice.
package passes

import (
	"fmt"

	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Pass is one step of the configuration.
type Pass struct {
	Name string
	Doc  string // one line
	Run  func(c *Context) error
}

// Configuration lists the passes in their order. Place makes slots INITIAL; each later pass sees what the earlier ones left so.
var Configuration = []Pass{Place, Fuse, Simplify, Share, Passive, Align, Bias, Granularity}

// Context is what a pass works on. Set has its Domains and Fused filled in.
type Context struct {
	Graph *graph.Graph
	Bound *target.Bound
	Set   *tqc.Set
	// Adapt returns the policy of a slot for the one that the target has for it; nil keeps the target's.
	Adapt func(s tqc.SlotID, c tqc.Config) (tqc.Config, error)
	// Align returns how the tensors of a node that runs on integers share scales; nil: as the target's row has it.
	Align func(id graph.NodeID) target.Align
}

// integer reports whether a node runs on integers.
func (c *Context) integer(id graph.NodeID) bool {
	return id != graph.NoNode && c.Set.Domains[id] == tqc.DomainInt
}

// integers lists the nodes that run on integers, in order.
func (c *Context) integers() []graph.NodeID {
	var ids []graph.NodeID
	for _, id := range c.Bound.Order {
		if c.integer(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// configure gives a slot its policy. Scales that are computed at run time are those of one reader: with them only what operators that sum
// products read is quantized, and other tensors stay float.
func (c *Context) configure(s tqc.SlotID, cfg tqc.Config) error {
	if c.Adapt != nil {
		var err error
		if cfg, err = c.Adapt(s, cfg); err != nil {
			return err
		}
	}
	if sl := c.Set.Slot(s); cfg.RunTime() {
		if sl.Kind != tqc.Input || c.Bound.Ops[sl.Node].Role != target.Weighted || !c.Bound.AtRunTime(sl.Node) {
			return nil
		}
		if !graph.IsRecurrent(c.Graph.Node(sl.Node)) {
			cfg.Rounding = qmath.HalfEven // of QuantizeLinear, whatever those of the plan's scales are
		}
	}
	return c.Set.Configure(s, cfg)
}

// waiting reports whether the slot exists and is INITIAL.
func (c *Context) waiting(id tqc.SlotID) bool {
	return id != tqc.NoSlot && c.Set.Slot(id).State() == tqc.Initial
}

// source returns the output slot that computes value v, NoSlot for inputs and constants of the graph.
func (c *Context) source(v graph.ValueID) tqc.SlotID {
	p := c.Graph.Producer(v)
	if p == graph.NoNode {
		return tqc.NoSlot
	}
	for i, o := range c.Graph.Node(p).Outputs {
		if o == v {
			return c.Set.Output(p, i)
		}
	}
	return tqc.NoSlot
}

// fail wraps an error with the node that it concerns.
func (c *Context) fail(id graph.NodeID, format string, args ...any) error {
	return c.Graph.ErrorAt("configure", id, fmt.Errorf(format, args...))
}
