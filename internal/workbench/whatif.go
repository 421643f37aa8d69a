package workbench

import (
	"context"

	"qwb"
	"qwb/analysis/tensors"
	"qwb/quantizer/tqc"
)

// choice is what a page asks about a tensor: a range, an observer, a scheme, or a scheme with an observer.
type choice struct {
	Slot     string   `json:"slot"`
	Lo       *float64 `json:"lo"`
	Hi       *float64 `json:"hi"`
	Observer string   `json:"observer"`
	Scheme   string   `json:"scheme"`
}

func (q *choice) check() error {
	named := q.Observer+q.Scheme != ""
	if (q.Lo == nil) != (q.Hi == nil) || (q.Lo != nil) == named {
		return qwb.Usagef("say lo and hi, or an observer, a scheme, or both of these")
	}
	return nil
}

// properties are what set takes for an observer and a scheme.
func (q *choice) properties(constant bool) (list []string, err error) {
	if q.Scheme != "" {
		s, err := tqc.ParseScheme(q.Scheme)
		if err != nil {
			return nil, qwb.UsageError{Err: err}
		}
		word := "activations="
		if constant {
			word = "weights="
		}
		list = append(list, word+s.String())
	}
	if q.Observer != "" {
		list = append(list, "observer="+q.Observer)
	}
	return list, nil
}

func (b *Bench) whatIf(ctx context.Context, q choice) (*tensors.Choice, error) {
	o, end, err := b.open()
	if err != nil {
		return nil, err
	}
	defer end()
	id, err := o.tensors.Slot(q.Slot)
	if err == nil {
		err = q.check()
	}
	if err != nil {
		return nil, err
	}
	r, err := o.tensors.Choose(id)
	if err != nil {
		return nil, err
	}
	constant := o.Graph.Const(o.Set.Slot(id).Value) != nil
	if r.Properties, err = q.properties(constant); err != nil {
		return nil, err
	}
	var s *tensors.Scale
	switch {
	case q.Lo != nil:
		if s, err = o.tensors.Ranged(id, *q.Lo, *q.Hi); err == nil {
			r.Properties, r.After = s.Properties(), s.Figures
		}
	case constant || q.Scheme != "": // what set derives, or why it does not
		is, err := b.preview(ctx, r.Select, r.Properties)
		if err != nil {
			return nil, err
		}
		defer is.Close()
		if r.After, err = o.tensors.Under(is.tensors, r.Slot); err != nil {
			return nil, err
		}
	default:
		if s, err = o.tensors.Chosen(id, tqc.Observer(q.Observer)); err == nil {
			r.After = s.Figures
		}
	}
	if err != nil {
		return nil, err
	}
	r.Command = command(append([]string{"set", o.File, r.Select}, r.Properties...)...)
	return r, nil
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
	return openedOf(project, p), nil
}
