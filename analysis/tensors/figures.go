package tensors

import (
	"math"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// Figures say what one scale makes of a tensor. The values are those of all calibration samples together, from the statistics; of a
// constant they are its own. Errors are parts of NSR, the mean square of the error over that of the values: 0 for none.
type Figures struct {
	Lo        float64  `json:"lo"` // the ends of the grid, as numbers
	Hi        float64  `json:"hi"`
	Scale     float32  `json:"scale"`
	ZeroPoint int32    `json:"zero_point"`
	Scales    int      `json:"scales"` // how many there are; Scale, ZeroPoint, Lo and Hi are of one, with more of them those of the widest
	Scheme    string   `json:"scheme"`
	Clip      float64  `json:"clip"` // of values outside of the grid
	Round     float64  `json:"round"`
	NSR       float64  `json:"nsr"` // Clip and Round together
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

// grid sets the ends of the numbers that a codec has, and its scale.
func (f *Figures) grid(c qmath.Codec) {
	lo, hi := c.Limits()
	f.Scale, f.ZeroPoint, f.Lo, f.Hi = c.Scale, c.ZeroPoint, float64(lo), float64(hi)
}

// OfState are the figures of what was observed of a tensor, under any one scale: it need not be that of a plan.
// A state without bins is an error.
func OfState(st *observers.State, c tqc.Config, scale float32, zero int32) (f Figures, err error) {
	d, err := st.Distortion(c, scale, zero)
	if err != nil {
		return f, err
	}
	f = Figures{Scales: 1, Scheme: schemeOf(c)}
	f.grid(qmath.Codec{Format: c.Format, Scale: scale, ZeroPoint: zero, Rounding: c.Rounding})
	f.errors(d.Clip, d.Round, d.Signal)
	f.Used = float64(d.Used) / float64(d.Levels)
	return f, nil
}

func schemeOf(c tqc.Config) string {
	s, err := tqc.SchemeOf(c)
	if err != nil {
		return c.Policy.String()
	}
	return s.String()
}

// OfConstant are the figures of a constant of float32, whose numbers are all known, under the scales of p.
func OfConstant(t *tensor.Tensor, c *tqc.Config, p *tqc.Params) (f Figures, err error) {
	f = Figures{Scales: len(p.Scale), Scheme: schemeOf(*c)}
	var clip, round, signal float64
	x := t.ToRowMajor().F32()
	used, levels := map[int32]bool{}, 1<<min(c.Bits, 24)
	if c.Integer() {
		levels = int(c.QMax) - int(c.QMin) + 1
	}
	err = tqc.Runs(t, c, p, func(from, to int, codec qmath.Codec) bool {
		if codec.Scale > f.Scale {
			f.grid(codec)
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

// Bins are counts between edges.
type Bins struct {
	Edges  []float64 `json:"edges"` // one more
	Counts []float64 `json:"counts"`
}

const (
	displayBins = 512
	displayGrid = 256
)

// BinsOf are at most 512 bins of equal width from lo to hi; none where nothing was observed.
func BinsOf(st *observers.State, lo, hi float64) Bins {
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

// gridOf lists the numbers of a format under a scale, ascending: every step-th, so that they are not too many to draw.
func gridOf(c tqc.Config, scale float32, zero int32) (levels int, list []float64, step int) {
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
