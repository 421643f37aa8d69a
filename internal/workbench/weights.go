package workbench

import (
	"context"
	"slices"

	"qwb"
	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

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
