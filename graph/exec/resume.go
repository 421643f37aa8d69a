package exec

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// resumption is the state of one Resume.
type resumption struct {
	*runnerState
	ctx   context.Context
	kept  []*tensor.Tensor
	hooks *Hooks
	// changed marks values that were computed anew and differ from the kept ones, or may.
	changed []bool
	// leftOut marks steps that the caller did not want though their inputs changed.
	leftOut []bool
	ran     []graph.NodeID
	// late are values that steps read or computed out of order.
	late []graph.ValueID
}

// resume is Runner.Resume. Memory comes from the runner's pool: which steps run depends on values, so that lives cannot be
// planned. It goes back after the step that reads it last.
func (r *runnerState) resume(ctx context.Context, kept []*tensor.Tensor, start graph.NodeID, hooks *Hooks,
	until func(graph.NodeID) bool) ([]*tensor.Tensor, []graph.NodeID, error) {
	s := r.s
	if len(kept) != s.g.NumValues() {
		return nil, nil, fmt.Errorf("resume: %d kept values for a graph of %d", len(kept), s.g.NumValues())
	}
	if start < 0 || int(start) >= len(s.stepOf) || s.stepOf[start] < 0 {
		return nil, nil, fmt.Errorf("resume: the graph has no node %d", start)
	}
	r.samples, r.part = 1, 1
	r.reset(hooks, func(v graph.ValueID) bool { return kept[v] != nil })
	defer r.release()
	r.handed = handedBytes(kept)
	r.startMemory(nil, &r.pool)
	defer func() { r.mem.recycle(len(s.steps)) }()
	re := &resumption{runnerState: r, ctx: ctx, kept: kept, hooks: hooks, changed: make([]bool, s.g.NumValues()),
		leftOut: make([]bool, len(s.steps))}
	for _, v := range s.g.Inputs { // one that is a constant too may have been fed
		if kept[v] != nil {
			r.vals[v] = handle{t: kept[v], buf: noBuf}
		}
	}
	first := int(s.stepOf[start])
	for i := first; i < len(s.steps); i++ {
		st := &s.steps[i]
		if i == first || re.touched(st) {
			if until == nil || until(st.node.ID) {
				if err := re.compute(i, true); err != nil {
					return nil, re.ran, err
				}
				re.tidy(i)
			} else {
				re.leftOut[i] = true
			}
		}
		r.drop(st)
	}
	outs := make([]*tensor.Tensor, len(s.g.Outputs))
	for i, v := range s.g.Outputs {
		if !re.changed[v] && kept[v] != nil {
			outs[i] = kept[v].ToRowMajor()
			continue
		}
		if !re.changed[v] && until != nil {
			continue
		}
		if err := re.need(v); err != nil {
			return nil, re.ran, err
		}
		outs[i] = detach(r.vals[v].t)
	}
	return outs, re.ran, nil
}

// touched reports whether an input of the step changed.
func (re *resumption) touched(st *step) bool {
	for _, v := range st.reads {
		if re.changed[v] {
			return true
		}
	}
	return false
}

// tidy gives back the memory that no step after i needs, and forgets copies in other layouts that a step out of order made: their
// lives end with the last reader in order, which may be behind.
func (re *resumption) tidy(i int) {
	for _, v := range re.late {
		re.alt[v] = handle{}
	}
	re.late = re.late[:0]
	re.mem.recycle(i)
}

// compute makes the inputs of step i available and runs it. dirty says that its inputs or its execution changed; then its
// outputs did, except those that equal the kept ones.
func (re *resumption) compute(i int, dirty bool) error {
	if err := re.ctx.Err(); err != nil {
		return err
	}
	st := &re.s.steps[i]
	for _, v := range st.reads {
		if err := re.need(v); err != nil {
			return err
		}
	}
	re.mem.begin(i)
	if err := re.step(re.ctx, i, re.hooks); err != nil {
		return err
	}
	re.s.forget(st)
	re.ran = append(re.ran, st.node.ID)
	if !dirty { // out of order: what it computed stays
		re.late = append(re.late, st.reads...)
		for _, v := range st.node.Outputs {
			if v != graph.NoValue {
				re.late = append(re.late, v)
				re.mem.extend(re.vals[v].buf, int32(len(re.s.steps)))
			}
		}
	}
	for _, v := range st.node.Outputs {
		if v == graph.NoValue {
			continue
		}
		if k := re.kept[v]; k != nil && sameElements(k, re.vals[v].t) {
			re.vals[v] = handle{t: k, buf: noBuf}
			continue
		}
		re.changed[v] = dirty
	}
	return nil
}

// need makes the value v available: computed in this resumption, kept, constant, or computed now from what it depends on.
func (re *resumption) need(v graph.ValueID) error {
	if re.vals[v].t != nil {
		return nil
	}
	if k := re.kept[v]; k != nil {
		if re.hooks != nil && re.hooks.Kept != nil {
			k = re.hooks.Kept(v, k)
		}
		re.vals[v] = handle{t: k, buf: noBuf}
		return nil
	}
	if t := re.s.g.Const(v); t != nil { // dropped after its last reader in order
		re.vals[v] = handle{t: t, buf: noBuf, fixed: true}
		return nil
	}
	p := re.s.g.Producer(v)
	if p == graph.NoNode {
		return fmt.Errorf("resume: input %q is neither kept nor constant", re.s.g.Value(v).Name)
	}
	i := int(re.s.stepOf[p])
	if re.s.steps[i].isConst && !re.hooked(&re.s.steps[i]) {
		re.useFolded(&re.s.steps[i])
		return nil
	}
	if re.leftOut[i] {
		return fmt.Errorf("resume: %q is not kept and its node %q is left out", re.s.g.Value(v).Name, re.s.steps[i].node.Name)
	}
	return re.compute(i, false)
}

// sameElements is tensor.Equal for tensors that may differ in layout.
func sameElements(a, b *tensor.Tensor) bool {
	if a.Layout == b.Layout {
		return tensor.Equal(a, b)
	}
	return tensor.Equal(a.ToRowMajor(), b.ToRowMajor())
}
