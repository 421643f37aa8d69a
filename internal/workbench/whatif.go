package workbench

import (
	"context"
	"fmt"
	"math"
	"strings"

	"qwb"
	"qwb/calib"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// WhatIf is what another choice would make of a tensor.
type WhatIf struct {
	Slot       string   `json:"slot"`
	Before     Figures  `json:"before"`
	After      Figures  `json:"after"`
	Select     string   `json:"select"` // with Properties what set takes to decide it
	Properties []string `json:"properties"`
	Command    string   `json:"command"`
	// Shared are other slots that the decision would give the same scale; the figures are of the tensor at Slot alone.
	Shared []string `json:"shared"`
}

func (b *Bench) whatIf(ctx context.Context, q struct {
	Slot     string   `json:"slot"`
	Lo       *float64 `json:"lo"`
	Hi       *float64 `json:"hi"`
	Observer string   `json:"observer"`
	Scheme   string   `json:"scheme"`
}) (*WhatIf, error) {
	o, end, err := b.open()
	if err != nil {
		return nil, err
	}
	defer end()
	id, err := o.slotOf(q.Slot)
	if err != nil {
		return nil, err
	}
	sl, rootID := o.Set.Slot(id), o.Set.Root(id)
	root, held := o.Set.Slot(rootID), o.Graph.Const(sl.Value)
	if (q.Lo == nil) != (q.Hi == nil) || (q.Lo != nil && q.Observer+q.Scheme != "") || q.Lo == nil && q.Observer+q.Scheme == "" {
		return nil, qwb.Usagef("say lo and hi, or an observer, a scheme, or both of these")
	}
	if held != nil && q.Lo != nil {
		return nil, qwb.Usagef("%s is a constant: its scales follow from its values", q.Slot)
	}
	st, stats, err := o.stateOf(sl.Value)
	if err != nil {
		return nil, err
	}
	r := &WhatIf{Slot: o.nameOf(id), Select: exactly(o.Graph.Node(root.Node).Name) + ":" + decision.At(root.Kind, root.Index), Shared: []string{}}
	if r.Before, err = o.figuresAt(id, st); err != nil {
		return nil, err
	}
	for _, other := range o.Set.Group(id) {
		if other != id && o.Set.Slot(other).State() != tqc.FP32 {
			r.Shared = append(r.Shared, o.nameOf(other))
		}
	}
	if q.Scheme != "" {
		s, err := tqc.ParseScheme(q.Scheme)
		if err != nil {
			return nil, qwb.UsageError{Err: err}
		}
		word := "activations="
		if held != nil {
			word = "weights="
		}
		r.Properties = append(r.Properties, word+s.String())
	}
	if q.Observer != "" {
		r.Properties = append(r.Properties, "observer="+q.Observer)
	}
	if held != nil || q.Scheme != "" { // what set derives, or why it does not
		is, err := b.preview(ctx, r.Select, r.Properties)
		if err != nil {
			return nil, err
		}
		defer is.Close()
		if id, err = is.slotOf(r.Slot); err == nil {
			r.After, err = is.figuresAt(id, st)
		}
		if err != nil {
			return nil, err
		}
	} else if err := o.whatIfActivation(b, r, st, stats, rootID, tqc.Observer(q.Observer), q.Lo, q.Hi); err != nil {
		return nil, err
	}
	r.Command = command(append([]string{"set", o.File, r.Select}, r.Properties...)...)
	return r, nil
}

// figuresAt are those of a slot that has one scale, or is of a constant.
func (o *opened) figuresAt(id tqc.SlotID, st *observers.State) (f Figures, err error) {
	sl, p := o.Set.Slot(id), o.Set.Params(id)
	switch held := o.Graph.Const(sl.Value); {
	case sl.State() == tqc.FP32 || !p.Ready():
		return f, qwb.Usagef("%s has no scale: it stays float, or its scale is computed at run time", o.nameOf(id))
	case held != nil:
		return constant(held, &sl.Config, p)
	case len(p.Scale) > 1:
		return f, qwb.Usagef("%s has a scale for each channel", o.nameOf(id))
	}
	f, _, err = figures(st, sl.Config, p.Scale[0], p.ZeroPoint[0])
	return f, err
}

// preview opens the plan as set would make it, one at a time: weights may take seconds. What it returns has to be closed.
func (b *Bench) preview(ctx context.Context, selector string, properties []string) (*opened, error) {
	select {
	case b.previewing <- struct{}{}:
		defer func() { <-b.previewing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	project := b.project()
	p, _, err := project.Preview(ctx, selector, properties, b.o.Threads)
	if err != nil {
		return nil, err
	}
	return &opened{Planned: p, project: project}, nil
}

// whatIfActivation fills in what a range, or else an observer, makes of an activation.
func (o *opened) whatIfActivation(b *Bench, r *WhatIf, st *observers.State, stats *calib.Stats, root tqc.SlotID, observer tqc.Observer, lo, hi *float64) (err error) {
	c := o.Set.Slot(root).Config
	if c.Observer == tqc.ObserverFixed {
		return qwb.Usagef("%s: the target prescribes this scale", r.Slot)
	}
	var scale float32
	var zero int32
	if lo != nil {
		if !(*lo <= *hi) || max(-*lo, *hi) > math.MaxFloat32/4 {
			return qwb.Usagef("from %g to %g is no range", *lo, *hi)
		}
		if scale, zero, _, err = c.ScaleFor(*lo, *hi, 0); err != nil {
			return qwb.UsageError{Err: err}
		}
		r.Properties = []string{"scale=" + number(scale), fmt.Sprintf("zero_point=%d", zero)}
	} else {
		shared, err := calib.SharedState(o.Graph, o.Set, stats, root)
		if err != nil {
			return err
		}
		_, p, err := calib.Try(shared, c, observer, b.project().Catalog.Observers...)
		if err != nil {
			return qwb.UsageError{Err: err}
		}
		scale, zero = p.Scale[0], p.ZeroPoint[0]
	}
	r.After, _, err = figures(st, c, scale, zero)
	return err
}

// number is the shortest text that reads back as the same float32.
func number(x float32) string { return strings.Trim(fmt.Sprint(decision.Scales{x}), "[]") }
