package tune

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/kernels/elementary"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/tqc"
)

// reading is how one reader of a way is affected, by channel of the way.
type reading struct {
	lo, hi, mean, squares []float64 // of what it reads; NaN where it does not read the channel
	outputs               []output  // its output channels
	energy, heaviest      []float64 // sum of the squared weights, largest weight
	taps                  float64   // weights between two channels
	levels, steps         float64
	perTensor             bool
}

// output is an output channel of a reader: the channels of the way that it reads, ascending where it reads all,
// and the largest weight of each.
type output struct {
	channels []int
	largest  []float64
}

type predictor struct {
	channels int
	readings []*reading
	producer []float64 // largest weight by channel of a producer whose weight has one step; nil where it has several
}

func (b *Bench) predictor(way *rewrite.Way, seen map[graph.ValueID]*channelStats) *predictor {
	g := b.Reference
	p := &predictor{channels: way.Channels}
	for _, e := range way.Consumers {
		r := rewrite.ReaderOf(g, e.Node)
		s := seen[r.Value]
		weight, data := b.Set.Input(e.Node, r.At), b.Set.Input(e.Node, r.Data)
		if s == nil || len(s.lo) != len(e.Channel) || weight == tqc.NoSlot || data == tqc.NoSlot || !b.Set.Slot(weight).State().Quantizes() ||
			!b.Set.Slot(data).State().Quantizes() {
			return nil
		}
		x := &reading{energy: make([]float64, way.Channels), heaviest: make([]float64, way.Channels),
			perTensor: len(b.Set.Params(weight).Scale) == 1}
		x.levels = float64(b.Set.Slot(data).Config.QMax) - float64(b.Set.Slot(data).Config.QMin)
		x.steps = float64(b.Set.Slot(weight).Config.QMax)
		for _, list := range []*[]float64{&x.lo, &x.hi, &x.mean, &x.squares} {
			*list = slices.Repeat([]float64{math.NaN()}, way.Channels)
		}
		for i, c := range e.Channel {
			if c < 0 {
				return nil // the reader's range is not the way's alone
			}
			if math.IsNaN(x.lo[c]) {
				x.lo[c], x.hi[c] = float64(s.lo[i]), float64(s.hi[i])
				x.mean[c], x.squares[c] = s.mean[i], s.squares[i]
				continue
			}
			x.lo[c], x.hi[c] = min(x.lo[c], float64(s.lo[i])), max(x.hi[c], float64(s.hi[i]))
			x.mean[c], x.squares[c] = (x.mean[c]+s.mean[i])/2, max(x.squares[c], s.squares[i])
		}
		x.outputs = make([]output, r.Out)
		r.Each(func(o, i int, w []float32) {
			c, most := e.Channel[i], 0.0
			for _, v := range w {
				a := math.Abs(float64(v))
				most = max(most, a)
				x.energy[c] += float64(a * a)
			}
			x.heaviest[c] = max(x.heaviest[c], most)
			x.outputs[o].channels, x.outputs[o].largest = append(x.outputs[o].channels, c), append(x.outputs[o].largest, most)
			x.taps = float64(len(w))
		})
		p.readings = append(p.readings, x)
	}
	for _, e := range way.Producers {
		s := b.Set.Input(e.Node, graph.WeightInput)
		r := rewrite.ReaderOf(g, e.Node)
		if r == nil || s == tqc.NoSlot || !b.Set.Slot(s).State().Quantizes() || len(b.Set.Params(s).Scale) > 1 {
			continue
		}
		if p.producer == nil {
			p.producer = make([]float64, way.Channels)
		}
		r.Each(func(o, _ int, w []float32) {
			if c := e.Channel[o]; c >= 0 {
				for _, v := range w {
					p.producer[c] = max(p.producer[c], math.Abs(float64(v)))
				}
			}
		})
	}
	return p
}

// center is the middle of each channel's range over all readers.
func (p *predictor) center() []float32 {
	out := make([]float32, p.channels)
	for c := range out {
		lo, hi := p.span(c, false)
		out[c] = float32((lo + hi) / 2)
	}
	return out
}

// span is the range of a channel over all readers, without zero unless it is in it.
func (p *predictor) span(c int, shifted bool) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, x := range p.readings {
		if !math.IsNaN(x.lo[c]) {
			lo, hi = min(lo, x.lo[c]), max(hi, x.hi[c])
		}
	}
	if !(lo <= hi) {
		return 0, 0
	}
	if shifted {
		return (lo - hi) / 2, (hi - lo) / 2
	}
	return lo, hi
}

// choose makes factors for an alpha: the widest channel keeps its range.
func (p *predictor) choose(alpha float64, shifted bool) []float32 {
	ratio, top := make([]float64, p.channels), 0.0
	widest, heaviest := 0.0, 0.0
	width, heavy := make([]float64, p.channels), make([]float64, p.channels)
	for c := range width {
		lo, hi := p.span(c, shifted)
		width[c] = max(hi, 0) - min(lo, 0)
		for _, x := range p.readings {
			heavy[c] = max(heavy[c], x.heaviest[c])
		}
		widest, heaviest = max(widest, width[c]), max(heaviest, heavy[c])
	}
	for c := range ratio {
		r, w := max(width[c], widest/maxRatio), max(heavy[c], heaviest/maxRatio)
		if ratio[c] = elementary.Pow(w, 1-alpha) / elementary.Pow(r, alpha); widest == 0 || heaviest == 0 {
			ratio[c] = 1
		}
		top = max(top, ratio[c]*width[c])
	}
	f := make([]float32, p.channels)
	for c := range f {
		f[c] = 1
		if top > 0 && width[c] > 0 {
			f[c] = float32(ratio[c] / top * widest)
		}
	}
	return f
}

// error is the predicted error with factors, relative to that without.
func (p *predictor) error(f []float32, shifted bool) float64 {
	one := slices.Repeat([]float32{1}, p.channels)
	sum, n := 0.0, 0
	for _, x := range p.readings {
		before := x.error(one, nil)
		if before == 0 {
			continue
		}
		var shift []float32
		if shifted {
			shift = p.center()
		}
		sum, n = sum+x.error(f, shift)/before, n+1
	}
	if p.producer != nil {
		sum, n = sum+p.rounding(f)/p.rounding(one), n+1
	}
	if n == 0 {
		return 1
	}
	return sum / float64(n)
}

// rounding is the squared error of a producer's outputs, which share one step.
func (p *predictor) rounding(f []float32) float64 {
	top, sum := 0.0, 0.0
	for c, w := range p.producer {
		top = max(top, w*float64(f[c]))
		sum += 1 / (float64(f[c]) * float64(f[c]))
	}
	return float64(top*top)*sum + 1e-300
}

// error is the squared error that is predicted for a reader's output. shift may be nil.
func (x *reading) error(f, shift []float32) float64 {
	lo, hi, e := 0.0, 0.0, 0.0
	power := make([]float64, len(f))
	for c, v := range f {
		if math.IsNaN(x.lo[c]) {
			continue
		}
		z, s := 0.0, float64(v)
		if shift != nil {
			z = float64(shift[c])
		}
		lo, hi = min(lo, s*(x.lo[c]-z)), max(hi, s*(x.hi[c]-z))
		e += x.energy[c] / (s * s)
		power[c] = x.taps * s * s * max(x.squares[c]-2*z*x.mean[c]+z*z, 0)
	}
	step := (hi - lo) / x.levels
	e *= step * step
	tops, most := make([]float64, len(x.outputs)), 0.0
	for o, out := range x.outputs {
		for i, c := range out.channels {
			tops[o] = max(tops[o], out.largest[i]/float64(f[c]))
		}
		most = max(most, tops[o])
	}
	for o, out := range x.outputs {
		step := tops[o] / x.steps
		if x.perTensor {
			step = most / x.steps
		}
		for _, c := range out.channels {
			e += step * step * power[c]
		}
	}
	return e / 12
}
