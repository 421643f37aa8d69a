package workbench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb"
	"qwb/calib"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// Figures say what one scale makes of a tensor. The values are those of all calibration samples together, from the statistics; of a
// constant they are its own.
type Figures struct {
	Lo        float64  `json:"lo"` // the ends of the grid, as numbers
	Hi        float64  `json:"hi"`
	Scale     float32  `json:"scale"`
	ZeroPoint int32    `json:"zero_point"`
	Scales    int      `json:"scales"` // how many there are; Scale, ZeroPoint, Lo and Hi are of one, with more of them those of the widest
	Scheme    string   `json:"scheme"`
	Clip      float64  `json:"clip"` // parts of NSR
	Round     float64  `json:"round"`
	NSR       float64  `json:"nsr"`
	SQNR      *float64 `json:"sqnr_db"`
	Used      float64  `json:"levels_used"` // share of the numbers that the grid has
}

func (f *Figures) errors(clip, round, signal float64) {
	const floor = 1e-7 // as in the errors of analyze
	f.Clip, f.Round = clip/(signal+floor), round/(signal+floor)
	if f.NSR = f.Clip + f.Round; f.NSR > 0 {
		db := -10 * math.Log10(f.NSR)
		f.SQNR = &db
	}
}

// ObserverFigures are those of a calibration method.
type ObserverFigures struct {
	Name string `json:"name"`
	Figures
	Used bool `json:"used"`
}

// Bins are counts between edges.
type Bins struct {
	Edges  []float64 `json:"edges"` // one more
	Counts []float64 `json:"counts"`
}

// Tensor is all that an inspector shows of a tensor at an operator.
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

const (
	displayBins = 512
	displayGrid = 256
)

// slotOf finds a slot by its name: conv1:in0, conv1:weight.
func (o *opened) slotOf(name string) (tqc.SlotID, error) {
	i := strings.LastIndexByte(name, ':')
	if i < 0 {
		return 0, qwb.Usagef("%q is no slot: conv1:in0, conv1:weight, conv1:out0", name)
	}
	id, ok := o.Graph.LookupNode(name[:i])
	if !ok {
		return 0, qwb.Usagef("there is no operator %q", name[:i])
	}
	slot := tqc.NoSlot
	switch at := name[i+1:]; at {
	case "bias":
		slot = o.Set.Input(id, graph.BiasInput)
	case "weight":
		slot = o.weight(id)
	default:
		kind, n, ok := decision.ParseAt(at)
		if list := o.Set.Inputs(id); ok && kind == tqc.Input && n < len(list) {
			slot = list[n]
		} else if list := o.Set.Outputs(id); ok && kind == tqc.Output && n < len(list) {
			slot = list[n]
		}
	}
	if slot == tqc.NoSlot {
		return 0, qwb.Usagef("operator %q has no %q", name[:i], name[i+1:])
	}
	return slot, nil
}

// weight is the slot of a constant that an operator multiplies by.
func (o *opened) weight(id graph.NodeID) tqc.SlotID {
	for i, s := range o.Set.Inputs(id) {
		if s != tqc.NoSlot && i != graph.BiasInput && i > 0 && o.Graph.Const(o.Set.Slot(s).Value) != nil && len(o.Graph.Const(o.Set.Slot(s).Value).Shape) > 1 {
			return s
		}
	}
	return tqc.NoSlot
}

func (o *opened) nameOf(s tqc.SlotID) string {
	sl := o.Set.Slot(s)
	return o.Graph.Node(sl.Node).Name + ":" + decision.At(sl.Kind, sl.Index)
}

// stateOf is what was observed of a tensor, by itself.
func (o *opened) stateOf(v graph.ValueID) (*observers.State, *calib.Stats, error) {
	if t := o.Graph.Const(v); t != nil {
		st := observers.New()
		_, err := st.Observe(t, -1)
		return st, nil, err
	}
	stats, err := o.stats()
	if err != nil {
		return nil, nil, err
	}
	t := stats.Tensor(o.Graph.Value(v).Name)
	if t == nil {
		return nil, nil, fmt.Errorf("the statistics have nothing on %q", o.Graph.Value(v).Name)
	}
	return t.State, stats, nil
}

// figures are what a scale makes of a state.
func figures(st *observers.State, c tqc.Config, scale float32, zero int32) (f Figures, levels int, err error) {
	d, err := st.Distortion(c, scale, zero)
	if err != nil {
		return f, 0, err
	}
	f = Figures{Scale: scale, ZeroPoint: zero, Scales: 1, Scheme: schemeOf(c)}
	lo, hi := qmath.Codec{Format: c.Format, Scale: scale, ZeroPoint: zero, Rounding: c.Rounding}.Limits()
	f.Lo, f.Hi = float64(lo), float64(hi)
	f.errors(d.Clip, d.Round, d.Signal)
	f.Used = float64(d.Used) / float64(d.Levels)
	return f, d.Levels, nil
}

func schemeOf(c tqc.Config) string {
	s, err := tqc.SchemeOf(c)
	if err != nil {
		return c.Policy.String()
	}
	return s.String()
}

// constant are the figures of a constant, whose numbers are all known.
func constant(t *tensor.Tensor, c *tqc.Config, p *tqc.Params) (f Figures, err error) {
	f = Figures{Scales: len(p.Scale), Scheme: schemeOf(*c)}
	var clip, round, signal float64
	x := t.ToRowMajor().F32()
	used, levels := map[int32]bool{}, 1<<min(c.Bits, 24)
	if c.Integer() {
		levels = int(c.QMax) - int(c.QMin) + 1
	}
	err = tqc.Runs(t, c, p, func(from, to int, codec qmath.Codec) bool {
		if codec.Scale > f.Scale {
			f.Scale, f.ZeroPoint = codec.Scale, codec.ZeroPoint
			lo, hi := codec.Limits()
			f.Lo, f.Hi = float64(lo), float64(hi)
		}
		lo, hi := codec.Limits()
		for _, v := range x[from:to] {
			code := codec.Quantize(v)
			used[code] = true
			e := float64(codec.Dequantize(code)) - float64(v)
			signal += float64(v) * float64(v)
			if e *= e; v < lo || v > hi {
				clip += e
			} else {
				round += e
			}
		}
		return true
	})
	f.errors(clip, round, signal)
	f.Used = float64(len(used)) / float64(levels)
	return f, err
}

func (b *Bench) tensor(_ context.Context, p struct {
	Slot string `json:"slot"`
}) (*Tensor, error) {
	o, end, err := b.open()
	if err != nil {
		return nil, err
	}
	defer end()
	id, err := o.slotOf(p.Slot)
	if err != nil {
		return nil, err
	}
	t, _ := o.tensor(id)
	return t, nil
}

// tensor is what there is to say of a slot, and what was observed of it, which may be nil.
func (o *opened) tensor(id tqc.SlotID) (*Tensor, *observers.State) {
	sl, rootID := o.Set.Slot(id), o.Set.Root(id)
	root := o.Set.Slot(rootID)
	t := &Tensor{Slot: o.nameOf(id), Root: o.nameOf(rootID), Shared: []string{}, Name: o.Graph.Value(sl.Value).Name, State: sl.State().String(), Quantized: sl.State() != tqc.FP32,
		Grid: []float64{}, GridStep: 1, Observers: []ObserverFigures{}, Bins: Bins{[]float64{}, []float64{}}}
	if t.Observer = string(root.Observer); t.Observer == "" && t.Quantized {
		t.Observer = string(root.Config.Observer)
	}
	if t.Quantized {
		for _, other := range o.Set.Group(id) {
			if other != id && o.Set.Slot(other).State() != tqc.FP32 {
				t.Shared = append(t.Shared, o.nameOf(other))
			}
		}
	}
	held := o.Graph.Const(sl.Value)
	if held != nil && held.DType != tensor.Float32 {
		t.Why = "the tensor holds integers"
		return t, nil
	}
	st, stats, err := o.stateOf(sl.Value)
	if err != nil {
		t.Why = err.Error()
		return t, nil
	}
	if stats != nil {
		t.Samples = stats.Samples()
	}
	if t.Count = st.Count(); t.Count == 0 {
		t.Why = "no finite value was observed"
		return t, st
	}
	t.Min, t.Max, t.Bins = float64(st.Extent().Min), float64(st.Extent().Max), bins(st, float64(st.Extent().Min), float64(st.Extent().Max))
	params := o.Set.Params(id)
	switch {
	case !t.Quantized:
		t.Why = "the tensor stays float"
		return t, st
	case !params.Ready():
		t.Why = "its scale is computed at run time"
		return t, st
	case held != nil:
		if t.Figures, err = constant(held, &sl.Config, params); err != nil {
			t.Why = err.Error()
			return t, st
		}
		t.Why = "the scales of a constant follow from its values"
	case len(params.Scale) > 1:
		t.Why = "the tensor has a scale for each channel"
		return t, st
	default:
		if t.Figures, _, err = figures(st, sl.Config, params.Scale[0], params.ZeroPoint[0]); err != nil {
			t.Why = err.Error()
			return t, st
		}
		if t.Drag = sl.Config.Observer != tqc.ObserverFixed; !t.Drag {
			t.Why = "the target prescribes this scale"
		}
		t.Observers = o.observed(stats, rootID, t.Observer)
	}
	t.Levels, t.Grid, t.GridStep = grid(sl.Config, t.Scale, t.ZeroPoint)
	return t, st
}

// bins are at most displayBins of equal width from lo to hi.
func bins(st *observers.State, lo, hi float64) Bins {
	if !st.HasBins() || st.Count() == 0 {
		return Bins{[]float64{}, []float64{}}
	}
	n := displayBins
	if hi <= lo {
		n, hi = 1, lo+math.Max(math.Abs(lo), 1)*1e-6
	}
	b := Bins{Counts: st.Linear(n, lo, hi)}
	for i := range n + 1 {
		b.Edges = append(b.Edges, lo+(hi-lo)*float64(i)/float64(n))
	}
	return b
}

// grid lists the numbers of a format under a scale: every step-th, so that they are not too many to draw.
func grid(c tqc.Config, scale float32, zero int32) (levels int, list []float64, step int) {
	codec := qmath.Codec{Format: c.Format, Scale: scale, ZeroPoint: zero, Rounding: c.Rounding}
	if c.Integer() {
		levels = int(c.QMax) - int(c.QMin) + 1
		step = (levels + displayGrid - 1) / displayGrid
		for k := int64(c.QMin); k <= int64(c.QMax); k += int64(step) {
			list = append(list, float64(codec.Dequantize(int32(k))))
		}
		return levels, list, step
	}
	for code := range int32(1) << min(c.Bits, 16) {
		if v := float64(codec.Dequantize(code)); v-v == 0 {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	levels, step = len(list), (len(list)+displayGrid-1)/displayGrid
	for i := 0; i*step < levels; i++ {
		list[i] = list[i*step]
	}
	return levels, list[:(levels+step-1)/step], step
}

// observed are the figures of all calibration methods that serve a tensor, for all tensors that share its scale.
func (o *opened) observed(stats *calib.Stats, root tqc.SlotID, used string) []ObserverFigures {
	list := []ObserverFigures{}
	st, err := calib.SharedState(o.Graph, o.Set, stats, root)
	if err != nil {
		return list
	}
	c := o.Set.Slot(root).Config
	own := o.project.Catalog.Observers
	try := func(name tqc.Observer) {
		if _, p, err := calib.Try(st, c, name, own...); err == nil {
			if f, _, err := figures(st, c, p.Scale[0], p.ZeroPoint[0]); err == nil {
				list = append(list, ObserverFigures{string(name), f, string(name) == used})
			}
		}
	}
	for _, m := range slices.Concat(observers.All, own) {
		try(m.Name)
	}
	if !slices.ContainsFunc(list, func(f ObserverFigures) bool { return f.Used }) && used != "" {
		try(tqc.Observer(used)) // one with a parameter
	}
	return list
}
