package workbench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb"
	"qwb/analysis"
	"qwb/calib"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
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
func (o *opened) stateOf(b *Bench, v graph.ValueID) (*observers.State, *calib.Stats, error) {
	if t := o.Graph.Const(v); t != nil {
		st := observers.New()
		_, err := st.Observe(t, -1)
		return st, nil, err
	}
	stats, err := o.stats(b.project())
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
	st, stats, err := o.stateOf(b, sl.Value)
	if err != nil {
		t.Why = err.Error()
		return t, nil
	}
	if stats != nil {
		t.Samples = stats.Samples()
	}
	if t.Count = st.Count(); t.Count == 0 {
		t.Why = "no finite value was observed"
		return t, nil
	}
	t.Min, t.Max, t.Bins = float64(st.Extent().Min), float64(st.Extent().Max), bins(st)
	params := o.Set.Params(id)
	switch {
	case !t.Quantized:
		t.Why = "the tensor stays float"
		return t, nil
	case !params.Ready():
		t.Why = "its scale is computed at run time"
		return t, nil
	case held != nil:
		if t.Figures, err = constant(held, &sl.Config, params); err != nil {
			t.Why = err.Error()
			return t, nil
		}
		t.Why = "the scales of a constant follow from its values"
	case len(params.Scale) > 1:
		t.Why = "the tensor has a scale for each channel"
		return t, nil
	default:
		if t.Figures, _, err = figures(st, sl.Config, params.Scale[0], params.ZeroPoint[0]); err != nil {
			t.Why = err.Error()
			return t, nil
		}
		if t.Drag = sl.Config.Observer != tqc.ObserverFixed; !t.Drag {
			t.Why = "the target prescribes this scale"
		}
		t.Observers = o.observed(b, stats, rootID, t.Observer)
	}
	t.Levels, t.Grid, t.GridStep = grid(sl.Config, t.Scale, t.ZeroPoint)
	return t, nil
}

// bins are at most displayBins of equal width over the data.
func bins(st *observers.State) Bins {
	lo, hi := float64(st.Extent().Min), float64(st.Extent().Max)
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
func (o *opened) observed(b *Bench, stats *calib.Stats, root tqc.SlotID, used string) []ObserverFigures {
	list := []ObserverFigures{}
	st, err := calib.SharedState(o.Graph, o.Set, stats, root)
	if err != nil {
		return list
	}
	c := o.Set.Slot(root).Config
	own := b.project().Catalog.Observers
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
	st, stats, err := o.stateOf(b, sl.Value)
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
	p, _, err := b.project().Preview(ctx, selector, properties, b.o.Threads)
	if err != nil {
		return nil, err
	}
	return &opened{Planned: p}, nil
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

// Channel is one output channel of a constant.
type Channel struct {
	Channel   int     `json:"channel"`
	Min       float32 `json:"min"`
	Max       float32 `json:"max"`
	Scale     float32 `json:"scale"`
	ZeroPoint int32   `json:"zero_point"`
	Clip      float64 `json:"clip"`
	Round     float64 `json:"round"`
	NSR       float64 `json:"nsr"`
	Codes     []int   `json:"codes"` // how often codes occur, from CodeLo to CodeHi in as many bins of equal width
	Dead      bool    `json:"dead"`  // all its values are equal
}

// Weights are a constant by its output channels.
type Weights struct {
	Slot string `json:"slot"`
	Name string `json:"tensor"`
	Figures
	Axis     int       `json:"axis"`
	Channels []Channel `json:"channels"`
	CodeLo   int32     `json:"code_lo"`
	CodeHi   int32     `json:"code_hi"`
	Of       int       `json:"of"` // channels there are
}

// NodeDetail is all that an inspector shows of an operator.
type NodeDetail struct {
	Explain  *qwb.ExplainResult   `json:"explain"`
	Settings analysis.NodeSetting `json:"settings"`
	Slots    []string             `json:"slots"`
	Weights  *Weights             `json:"weights"`
}

const (
	codeBins      = 32
	shownChannels = 4096
)

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
	for _, list := range [][]tqc.SlotID{o.Set.Inputs(id), o.Set.Outputs(id)} {
		for _, s := range list {
			if s != tqc.NoSlot {
				r.Slots = append(r.Slots, o.nameOf(s))
			}
		}
	}
	if s := o.weight(id); s != tqc.NoSlot && o.Graph.Const(o.Set.Slot(s).Value).DType == tensor.Float32 {
		r.Weights, err = o.weights(id, s)
	}
	return r, err
}

// weights looks at a constant channel by channel.
func (o *opened) weights(id graph.NodeID, s tqc.SlotID) (*Weights, error) {
	sl, params := o.Set.Slot(s), o.Set.Params(s)
	t, c := o.Graph.Const(sl.Value), sl.Config
	axis, ok := target.OutputAxis(o.Graph, o.Graph.Node(id), sl.Index)
	if !ok || axis >= len(t.Shape) || t.Len() == 0 {
		return nil, nil
	}
	t = t.ToRowMajor()
	_, n, inner := t.Blocks(axis)
	w := &Weights{Slot: o.nameOf(s), Name: o.Graph.Value(sl.Value).Name, Axis: axis, Of: n, Channels: make([]Channel, min(n, shownChannels))}
	x := t.F32()
	for i, v := range x {
		if k := i / inner % n; k < len(w.Channels) {
			ch := &w.Channels[k]
			if i/inner < n && i%inner == 0 {
				ch.Channel, ch.Min, ch.Max = k, v, v
			}
			ch.Min, ch.Max = min(ch.Min, v), max(ch.Max, v)
		}
	}
	for k := range w.Channels {
		w.Channels[k].Dead, w.Channels[k].Codes = w.Channels[k].Min == w.Channels[k].Max, []int{}
	}
	if sl.State() == tqc.FP32 || !params.Ready() {
		return w, nil
	}
	var err error
	if w.Figures, err = constant(t, &c, params); err != nil {
		return nil, err
	}
	w.CodeLo, w.CodeHi = c.QMin, c.QMax
	count := codeBins
	if c.Integer() {
		count = min(count, int(c.QMax)-int(c.QMin)+1)
	} else {
		count = 0
	}
	signal := make([]float64, len(w.Channels))
	for k := range w.Channels {
		w.Channels[k].Codes = make([]int, count)
	}
	err = tqc.Runs(t, &c, params, func(from, to int, codec qmath.Codec) bool {
		lo, hi := codec.Limits()
		for i := from; i < to; i++ {
			k := i / inner % n
			if k >= len(w.Channels) {
				continue
			}
			ch, v, code := &w.Channels[k], x[i], codec.Quantize(x[i])
			if codec.Scale > ch.Scale {
				ch.Scale, ch.ZeroPoint = codec.Scale, codec.ZeroPoint
			}
			if count > 0 {
				ch.Codes[(int(code)-int(c.QMin))*count/(int(c.QMax)-int(c.QMin)+1)]++
			}
			e := float64(codec.Dequantize(code)) - float64(v)
			signal[k] += float64(v) * float64(v)
			if e *= e; v < lo || v > hi {
				ch.Clip += e
			} else {
				ch.Round += e
			}
		}
		return true
	})
	for k := range w.Channels {
		ch := &w.Channels[k]
		var f Figures
		f.errors(ch.Clip, ch.Round, signal[k])
		ch.Clip, ch.Round, ch.NSR = f.Clip, f.Round, f.NSR
	}
	return w, err
}
