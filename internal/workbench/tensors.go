package workbench

import (
	"context"
	"slices"

	"qwb"
	"qwb/analysis"
	"qwb/analysis/tensors"
	"qwb/internal/plain"
	"qwb/quantizer/tqc"
)

// NodeDetail is all that an inspector shows of an operator.
type NodeDetail struct {
	Explain  *qwb.ExplainResult   `json:"explain"`
	Settings analysis.NodeSetting `json:"settings"`
	Slots    []string             `json:"slots"`
	Weights  *tensors.Weights     `json:"weights"`
}

func (b *Bench) node(_ context.Context, q struct {
	Node string `json:"node"`
}) (*NodeDetail, error) {
	o, end, err := b.open()
	if err != nil {
		return nil, err
	}
	defer end()
	id, ok := o.Graph.LookupNode(q.Node)
	if !ok {
		return nil, qwb.Usagef("there is no operator %q", q.Node)
	}
	r := &NodeDetail{Slots: []string{}}
	if r.Explain, err = b.project().ExplainOf(o.Planned, q.Node); err != nil {
		return nil, err
	}
	settings, err := analysis.Settings(o.Graph, o.Set)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(settings, func(s analysis.NodeSetting) bool { return s.Node == q.Node }); i >= 0 {
		r.Settings = settings[i]
	}
	for _, s := range slices.Concat(o.Set.Inputs(id), o.Set.Outputs(id)) {
		if s != tqc.NoSlot {
			r.Slots = append(r.Slots, o.tensors.Name(s))
		}
	}
	if s := o.tensors.Weight(id); s != tqc.NoSlot {
		r.Weights, err = o.tensors.Weights(id, s)
	}
	return r, err
}

func (b *Bench) tensor(_ context.Context, q struct {
	Slot string `json:"slot"`
}) (*tensors.Tensor, error) {
	o, end, err := b.open()
	if err != nil {
		return nil, err
	}
	defer end()
	id, err := o.tensors.Slot(q.Slot)
	if err != nil {
		return nil, err
	}
	t, _ := o.tensors.Tensor(id)
	return t, nil
}

func (b *Bench) estimate(ctx context.Context, q struct {
	selection
	Properties []string `json:"properties"`
}) (*tensors.Estimate, error) {
	sel, err := q.selector()
	if err != nil {
		return nil, err
	}
	was, end, err := b.open()
	if err != nil {
		return nil, err
	}
	defer end()
	p := b.project()
	is, err := b.preview(ctx, sel, q.Properties)
	if err != nil {
		return nil, err
	}
	defer is.Close()
	r, stale := b.analysis(p.Plan, was.hash, tensors.Serves)
	e, err := tensors.EstimateOf(was.tensors, is.tensors, sel, r, stale)
	if err != nil {
		return nil, err
	}
	said := append([]string{sel}, q.Properties...)
	e.Said(command(append([]string{"set", p.Plan}, said...)...), plain.Shell(said...), r)
	return e, nil
}
