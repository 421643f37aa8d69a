package tensors

import (
	"slices"

	"qwb/graph/tensor"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// ObserverFigures are those of a calibration method.
type ObserverFigures struct {
	Name string `json:"name"`
	Figures
	Used bool `json:"used"`
}

// Tensor is all that there is to show of a tensor at an operator.
type Tensor struct {
	Slot      string            `json:"slot"`
	Root      string            `json:"root"` // the slot whose scale it has, itself if that is its own
	Shared    []string          `json:"shared"`
	Name      string            `json:"tensor"`
	State     string            `json:"state"`
	Quantized bool              `json:"quantized"`
	Observer  string            `json:"observer"`
	Samples   int               `json:"samples"`
	Count     uint64            `json:"count"`
	Min       float64           `json:"min"`
	Max       float64           `json:"max"`
	Figures                     // of the plan
	Levels    int               `json:"levels"`
	Grid      []float64         `json:"grid"` // the numbers that codes stand for, ascending, every GridStep-th of them
	GridStep  int               `json:"grid_step"`
	Bins      Bins              `json:"bins"`
	Observers []ObserverFigures `json:"observers"`
	// Drag says that thresholds can be set: an activation with one scale.
	Drag bool `json:"drag"`
	// Why says why there are no figures, or no thresholds to set.
	Why string `json:"why"`
}

// Tensor is what there is to say of a slot, and what was observed of it, which may be nil.
func (p *Plan) Tensor(id tqc.SlotID) (*Tensor, *observers.State) {
	sl, rootID := p.Set.Slot(id), p.Set.Root(id)
	root := p.Set.Slot(rootID)
	t := &Tensor{Slot: p.Name(id), Root: p.Name(rootID), Shared: []string{}, Name: p.Graph.Value(sl.Value).Name, State: sl.State().String(),
		Quantized: sl.State() != tqc.FP32, Grid: []float64{}, GridStep: 1, Observers: []ObserverFigures{}, Bins: Bins{[]float64{}, []float64{}}}
	if t.Observer = string(root.Observer); t.Observer == "" && t.Quantized {
		t.Observer = string(root.Config.Observer)
	}
	if t.Quantized {
		t.Shared = p.shared(id)
	}
	held := p.Graph.Const(sl.Value)
	if held != nil && held.DType != tensor.Float32 {
		t.Why = "the tensor holds integers"
		return t, nil
	}
	st, seen, err := p.state(sl.Value)
	if err != nil {
		t.Why = err.Error()
		return t, nil
	}
	if seen != nil {
		t.Samples = seen.Samples()
	}
	if t.Count = st.Count(); t.Count == 0 {
		t.Why = "no finite value was observed"
		return t, st
	}
	t.Min, t.Max = float64(st.Extent().Min), float64(st.Extent().Max)
	t.Bins = BinsOf(st, t.Min, t.Max)
	if t.Why = p.noFigures(id); t.Why != "" {
		return t, st
	}
	if t.Figures, err = p.figures(id, st); err != nil {
		t.Why = err.Error()
		return t, st
	}
	switch t.Drag = held == nil && sl.Config.Observer != tqc.ObserverFixed; {
	case held != nil:
		t.Why = "the scales of a constant follow from its values"
	case !t.Drag:
		t.Why = "the target prescribes this scale"
	}
	if held == nil {
		t.Observers = p.methods(seen, rootID, t.Observer)
	}
	t.Levels, t.Grid, t.GridStep = gridOf(sl.Config, t.Scale, t.ZeroPoint)
	return t, st
}

// noFigures says why a slot has none; nothing where it has.
func (p *Plan) noFigures(id tqc.SlotID) string {
	sl, params := p.Set.Slot(id), p.Set.Params(id)
	switch {
	case sl.State() == tqc.FP32:
		return "the tensor stays float"
	case !params.Ready():
		return "its scale is computed at run time"
	case len(params.Scale) > 1 && p.Graph.Const(sl.Value) == nil:
		return "the tensor has a scale for each channel"
	}
	return ""
}

// methods are the figures of all calibration methods that serve a tensor, for all tensors that share its scale.
func (p *Plan) methods(seen Observed, root tqc.SlotID, used string) []ObserverFigures {
	list := []ObserverFigures{}
	st, err := seen.Shared(p.Graph, p.Set, root)
	if err != nil {
		return list
	}
	c := p.Set.Slot(root).Config
	try := func(name tqc.Observer) {
		if params, err := seen.Try(st, c, name); err == nil {
			if f, err := OfState(st, c, params.Scale[0], params.ZeroPoint[0]); err == nil {
				list = append(list, ObserverFigures{string(name), f, string(name) == used})
			}
		}
	}
	for _, name := range seen.Methods() {
		try(name)
	}
	if !slices.ContainsFunc(list, func(f ObserverFigures) bool { return f.Used }) && used != "" {
		try(tqc.Observer(used)) // one with a parameter
	}
	return list
}
