package lower

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// Weights are the constant factors of a sum of products, as integers in the layout of the operator's input 1.
type Weights struct {
	Codes *tensor.Tensor
	Bits  int // of the plan's format: 2 to 8; codes of fewer than 8 stand in bytes all the same
	Axis  int // of the output channels; of a grouped ConvTranspose it holds the channels of one group
	// Channels is how many output channels there are. Scale, ZeroPoint and Sum have one entry for each.
	Channels  int
	Scale     []float32
	ZeroPoint []int32
	// Sum is the sum of a channel's codes and Terms how many there are: with input zero point zx the sum of products is
	//
	//	sum (x-zx)*(w-zw) = sum x*w - zw * sum x - zx * Sum + Terms*zx*zw
	//
	// where padding counts as input of code zx.
	Sum   []int64
	Terms int

	above []int64 // by channel, the sum of what codes are above the zero point
}

// Offset returns what the last two terms of the expansion add to the sum of channel c.
func (w *Weights) Offset(c int, zx int32) int64 {
	return int64(w.Terms)*int64(zx)*int64(w.ZeroPoint[c]) - int64(zx)*w.Sum[c]
}

// PerChannel reports whether channels have scales of their own.
func (w *Weights) PerChannel() bool {
	for c := range w.Scale {
		if w.Scale[c] != w.Scale[0] {
			return true
		}
	}
	return false
}

// newWeights quantizes the constant input 1 of a node, beside inputs of so many bits; codes are its own where they are known, else nil.
// group is 1 but for ConvTranspose, whose weights [C, M/group, ...] hold the output channels of a group beside each other.
func newWeights(t, codes *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, axis, group, wide int) (*Weights, error) {
	if err := weightForm(cfg, wide); err != nil {
		return nil, err
	}
	d := Encoding{QMin: cfg.QMin, QMax: cfg.QMax}.DType()
	t = t.ToRowMajor()
	_, n, _ := t.Blocks(axis)
	if cfg.Policy.Has(tqc.PerChannel) {
		along, _ := graph.Axis(cfg.Axis, len(t.Shape))
		if along != axis || len(p.Scale) != n {
			return nil, fmt.Errorf("%d scales along axis %d of weights whose output channels are axis %d, %d long", len(p.Scale), along, axis, n)
		}
	} else if len(p.Scale) != 1 {
		return nil, fmt.Errorf("%d scales for weights with one", len(p.Scale))
	}
	if codes == nil || codes.DType != d {
		var err error
		if codes, err = tqc.QuantizeTo(d, t, cfg, p); err != nil {
			return nil, err
		}
	}
	w := &Weights{Codes: codes, Bits: cfg.Bits, Axis: axis, Channels: n * group, Terms: t.Len() / max(n*group, 1)}
	w.Scale, w.ZeroPoint = make([]float32, w.Channels), make([]int32, w.Channels)
	for c := range w.Channels {
		at := 0
		if len(p.Scale) > 1 {
			at = c % n
		}
		w.Scale[c], w.ZeroPoint[c] = p.Scale[at], p.ZeroPoint[at]
	}
	w.Sum, w.above = make([]int64, w.Channels), make([]int64, w.Channels)
	w.Runs(func(c int, codes []int32) {
		var sum, above int64
		zero := w.ZeroPoint[c]
		for _, q := range codes {
			sum += int64(q)
			above += int64(max(q-zero, 0))
		}
		w.Sum[c], w.above[c] = w.Sum[c]+sum, w.above[c]+above
	})
	return w, nil
}

// weightForm says why weights of a config have no integer form, nil where they have one. Those of 16 bits have one beside inputs of wide
// bits, 16, whose sums have 64.
func weightForm(cfg *tqc.Config, wide int) error {
	if why := formless(cfg); why != "" {
		return fmt.Errorf("weights are %s", why)
	}
	if d := (Encoding{QMin: cfg.QMin, QMax: cfg.QMax}).DType(); d != tensor.Int8 && d != tensor.Uint8 && (d != tensor.Int16 || wide < 16) {
		return fmt.Errorf("weights of %s (%d to %d) are wider than 8 bits, which integer programs multiply by", cfg.FormatName(),
			cfg.QMin, cfg.QMax)
	}
	return nil
}

// Runs calls f for every run of codes of an output channel that lie beside each other, in the order of memory. They are there until f
// returns.
func (w *Weights) Runs(f func(channel int, codes []int32)) {
	outer, n, inner := w.Codes.Blocks(w.Axis)
	groups, run := w.Channels/max(n, 1), make([]int32, inner)
	if outer > 1 { // short ones: several of them at a time
		run = make([]int32, n*inner)
	}
	for o := range outer {
		if outer > 1 {
			w.Codes.IntegersAt(o*n*inner, run)
		}
		first := 0
		if groups > 1 { // ConvTranspose: axis 0 holds the input channels, group after group
			first = o * groups / outer * n
		}
		for c := range n {
			if outer > 1 {
				f(first+c, run[c*inner:][:inner])
				continue
			}
			w.Codes.IntegersAt(c*inner, run)
			f(first+c, run)
		}
	}
}
