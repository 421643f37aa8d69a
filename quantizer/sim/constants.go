package sim

import (
	"fmt"
	"sync"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Constants holds replaced parameters of the simulators of one graph, as a search makes many of them: a parameter that several
// treat alike is one tensor, so that what the executor derives from it exists once as well. The zero value is ready; it may be
// shared by goroutines.
type Constants struct {
	mu   sync.Mutex
	list map[constantKey]*constant
}

// constantKey is everything a replaced constant depends on.
type constantKey struct {
	t      *tensor.Tensor
	config tqc.Config
	params string
	mode   Mode
	island qmath.Precision // FP32 where the constant is quantized
}

// constant is a replaced constant, computed when it is first read.
type constant struct {
	once sync.Once
	t    *tensor.Tensor
	err  error
}

// reference is a simulator's constant, looked up when it is first read.
type reference struct {
	once sync.Once
	c    *constant
}

func (c *Constants) find(k constantKey) *constant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == nil {
		c.list = map[constantKey]*constant{}
	}
	if c.list[k] == nil {
		c.list[k] = new(constant)
	}
	return c.list[k]
}

// constant returns the replaced constant of a slot: t itself where clipping changes nothing, else always the same tensor, but
// of graphs that keep none.
func (h *hooks) constant(id tqc.SlotID, t *tensor.Tensor) (*tensor.Tensor, error) {
	s, kind := h.s, int(h.mode)
	if !s.g.Keeps(t) {
		defer s.g.Forget(t)
		return h.replaced(id, t)
	}
	if h.actions[id] == island {
		kind = len(s.consts) - 1
	}
	ref := &s.consts[kind][id]
	ref.once.Do(func() {
		key := constantKey{t: t, island: s.precision(s.set.Slot(id).Node)}
		if h.actions[id] == quantize {
			p := s.set.Params(id)
			key = constantKey{t: t, config: s.set.Slot(id).Config, params: fmt.Sprint(p.Scale, p.ZeroPoint), mode: h.mode}
		}
		ref.c = s.shared.find(key)
	})
	c := ref.c
	c.once.Do(func() { c.t, c.err = h.replaced(id, t) })
	if c.err != nil {
		return nil, c.err
	}
	if c.t.Layout != t.Layout {
		return nil, fmt.Errorf("simulate: constant %q changed its layout", s.g.Value(s.set.Slot(id).Value).Name)
	}
	return c.t, nil
}

func (h *hooks) replaced(id tqc.SlotID, t *tensor.Tensor) (*tensor.Tensor, error) {
	if h.actions[id] == quantize && h.mode == Clip {
		if clips, err := h.s.Clips(id, t); err != nil || !clips {
			return t, err
		}
	}
	r := &tensor.Tensor{DType: t.DType, Layout: t.Layout, Shape: t.Shape, Data: make([]float32, t.Len())}
	return r, h.apply(id, r, t)
}
