package tensors

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Channel is one output channel of a constant. Errors are parts of NSR, as in Figures.
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

const (
	codeBins      = 32
	shownChannels = 4096
)

// Weights looks at a constant of float32 that an operator multiplies by, channel by channel; nil where it has no output channels. Of more
// than 4096 channels the first are shown.
func (p *Plan) Weights(id graph.NodeID, s tqc.SlotID) (*Weights, error) {
	sl, params := p.Set.Slot(s), p.Set.Params(s)
	t, c := p.Graph.Const(sl.Value), sl.Config
	axis, ok := target.OutputAxis(p.Graph, p.Graph.Node(id), sl.Index)
	if !ok || axis >= len(t.Shape) || t.Len() == 0 || t.DType != tensor.Float32 {
		return nil, nil
	}
	t = t.ToRowMajor()
	_, n, inner := t.Blocks(axis)
	w := &Weights{Slot: p.Name(s), Name: p.Graph.Value(sl.Value).Name, Axis: axis, Of: n, Channels: make([]Channel, min(n, shownChannels))}
	w.extents(t.F32(), inner)
	if sl.State() == tqc.FP32 || !params.Ready() {
		return w, nil
	}
	var err error
	if w.Figures, err = OfConstant(t, &c, params); err != nil {
		return nil, err
	}
	w.CodeLo, w.CodeHi = c.QMin, c.QMax
	return w, w.quantize(t, inner, &c, params)
}

// extents finds the least and the largest value of each channel.
func (w *Weights) extents(x []float32, inner int) {
	n := w.Of
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
}

// quantize finds scale, codes and errors of each channel.
func (w *Weights) quantize(t *tensor.Tensor, inner int, c *tqc.Config, params *tqc.Params) error {
	count := 0
	if c.Integer() {
		count = min(codeBins, int(c.QMax)-int(c.QMin)+1)
	}
	signal := make([]float64, len(w.Channels))
	for k := range w.Channels {
		w.Channels[k].Codes = make([]int, count)
	}
	x := t.F32()
	err := tqc.Runs(t, c, params, func(from, to int, codec qmath.Codec) bool {
		lo, hi := codec.Limits()
		for i := from; i < to; i++ {
			k := i / inner % w.Of
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
	return err
}
