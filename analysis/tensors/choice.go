package tensors

import (
	"fmt"
	"math"
	"strings"

	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// Scale is a scale that could be chosen for an activation, and what it would make of the tensor.
type Scale struct {
	Scale     float32
	ZeroPoint int32
	Figures   Figures
}

// Properties are what a decision takes to set the scale.
func (s *Scale) Properties() []string {
	return []string{"scale=" + strings.Trim(fmt.Sprint(decision.Scales{s.Scale}), "[]"), fmt.Sprintf("zero_point=%d", s.ZeroPoint)}
}

// Ranged is what the scale of a range, from lo to hi, would make of an activation. A constant, a scale that the target prescribes, and what
// is no range are a Refusal.
func (p *Plan) Ranged(id tqc.SlotID, lo, hi float64) (*Scale, error) {
	c, err := p.choosable(id)
	if err != nil {
		return nil, err
	}
	if !(lo <= hi) || max(-lo, hi) > math.MaxFloat32/4 {
		return nil, refuse("from %g to %g is no range", lo, hi)
	}
	scale, zero, _, err := c.ScaleFor(lo, hi, 0)
	if err != nil {
		return nil, Refusal{err}
	}
	return p.scaled(id, c, scale, zero)
}

// Chosen is what the scale that a calibration method chooses would make of an activation; it is that of all tensors that share it.
func (p *Plan) Chosen(id tqc.SlotID, method tqc.Observer) (*Scale, error) {
	c, err := p.choosable(id)
	if err != nil {
		return nil, err
	}
	seen, err := p.Observed()
	if err != nil {
		return nil, err
	}
	shared, err := seen.Shared(p.Graph, p.Set, p.Set.Root(id))
	if err != nil {
		return nil, err
	}
	params, err := seen.Try(shared, c, method)
	if err != nil {
		return nil, Refusal{err}
	}
	return p.scaled(id, c, params.Scale[0], params.ZeroPoint[0])
}

// choosable is the config of an activation whose scale may be chosen.
func (p *Plan) choosable(id tqc.SlotID) (tqc.Config, error) {
	c := p.Set.Slot(p.Set.Root(id)).Config
	switch {
	case p.Graph.Const(p.Set.Slot(id).Value) != nil:
		return c, refuse("%s is a constant: its scales follow from its values", p.Name(id))
	case c.Observer == tqc.ObserverFixed:
		return c, refuse("%s: the target prescribes this scale", p.Name(id))
	}
	return c, nil
}

func (p *Plan) scaled(id tqc.SlotID, c tqc.Config, scale float32, zero int32) (*Scale, error) {
	st, _, err := p.state(p.Set.Slot(id).Value)
	if err != nil {
		return nil, err
	}
	f, err := OfState(st, c, scale, zero)
	return &Scale{scale, zero, f}, err
}

// Choice is what another choice would make of a tensor.
type Choice struct {
	Slot       string   `json:"slot"`
	Before     Figures  `json:"before"`
	After      Figures  `json:"after"`
	Select     string   `json:"select"` // with Properties what set takes to decide it
	Properties []string `json:"properties"`
	Command    string   `json:"command"`
	// Shared are other slots that the decision would give the same scale; the figures are of the tensor at Slot alone.
	Shared []string `json:"shared"`
}

// Choose begins a Choice about a slot, with its figures as they are.
func (p *Plan) Choose(id tqc.SlotID) (*Choice, error) {
	root := p.Set.Slot(p.Set.Root(id))
	r := &Choice{Slot: p.Name(id), Shared: p.shared(id), Select: decision.Exactly(p.Graph.Node(root.Node).Name) + ":" +
		decision.At(root.Kind, root.Index)}
	var err error
	r.Before, err = p.Figures(id)
	return r, err
}

// Under are the figures of a slot in a plan that is another one of the same model, for the values that were observed for this one.
func (p *Plan) Under(other *Plan, name string) (f Figures, err error) {
	id, err := other.Slot(name)
	if err != nil {
		return f, err
	}
	was, err := p.Slot(name)
	if err != nil {
		return f, err
	}
	st, _, err := p.state(p.Set.Slot(was).Value)
	if err != nil {
		return f, err
	}
	return other.figures(id, st)
}
