package espdl

import (
	"fmt"
	"math"
	"slices"

	"qwb/export"
	"qwb/quantizer/lower"
)

// table is the one that a node reads, which has the exponent of its output.
func (r *recoverer) table(n *Node) ([]int32, error) {
	t, v := r.constants[n.text("lut")], r.values[n.Outputs[0]]
	if t == nil || v == nil || !slices.Equal(t.Exponents, v.Exponents) || t.Type != v.Type {
		return nil, fmt.Errorf("%s has no table with the exponent of %q", n.Op, n.Outputs[0])
	}
	list, err := t.integers()
	if err != nil {
		return nil, err
	}
	return narrow(list), nil
}

// limits are those that a table keeps codes within. Bounds beside it have to be the same.
func (r *recoverer) limits(n *Node) (lo, hi int32, err error) {
	list, err := r.table(n)
	if err != nil || len(list) < 2 {
		return 0, 0, fmt.Errorf("no table of limits: %w", err)
	}
	lo, hi = list[0], list[len(list)-1]
	least, step := int32(math.MinInt8), int32(1)
	if len(list) != 256 {
		least, step = math.MinInt16, int32(1<<16/(len(list)-1))
	}
	for i, x := range list {
		if q := min(max(min(least+int32(i)*step, -least-1), lo), hi); x != q {
			return lo, hi, fmt.Errorf("entry %d of its table is %d, and limits %d and %d give %d", i, x, lo, hi, q)
		}
	}
	for i, want := range []int32{lo, hi} {
		if n.Op != "Clip" {
			break
		}
		if len(n.Inputs) != 3 || r.constants[n.Inputs[1+i]] == nil {
			return lo, hi, fmt.Errorf("its limits are no constants")
		}
		if c, err := r.constants[n.Inputs[1+i]].integers(); err != nil || len(c) != 1 || c[0] != int64(want) {
			return lo, hi, fmt.Errorf("its limit %v is not that of its table, %d", c, want)
		}
	}
	return lo, hi, nil
}

// limited adds the limits of a step whose last node is n, and returns the node that computes: n, or what is before a table of limits.
func (r *recoverer) limited(s *lower.Step, n *Node) (*Node, error) {
	v, id := r.values[n.Outputs[0]], s.Outputs[0]
	if v == nil || ends[v.Type] == nil || r.p.Tensors[id].Encoding == nil {
		return n, nil // what is missing tells
	}
	lo, hi := ends[v.Type][0], ends[v.Type][1]
	switch {
	case (n.Op == "Clip" || n.Op == "Relu") && n.text("lut") != "" && len(n.Inputs) > 0:
		var err error
		if lo, hi, err = r.limits(n); err != nil {
			return nil, err
		}
		if before := r.values[n.Inputs[0]]; before != nil {
			r.grid(id, before)
		}
		main := r.producer[n.Inputs[0]]
		if main == nil {
			return nil, fmt.Errorf("nothing computes %q", n.Inputs[0])
		}
		n = main
	case n.text("activation") == "Relu":
		lo = 0
	}
	r.held.Add(&export.Item{At: export.StepName(r.p, s), Kind: export.Clamp, Ints: []int32{lo, hi}})
	return n, nil
}
