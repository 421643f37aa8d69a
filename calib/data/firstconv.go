package data

import (
	"math"
	"slices"
	"sort"

	"qwb/graph"
	"qwb/graph/tensor"
)

// firstConv compares the convolution that reads a picture with the batch normalisation behind it. The running mean and variance
// of that say, channel by channel, how the convolution's outputs were distributed in training. Two hypotheses are followed: the
// colour channels in the order they have, and in reverse order.
type firstConv struct {
	nhwc         bool // the picture is transposed before the convolution
	weight       *tensor.Tensor
	bias         []float32
	dilations    [2]int
	mean, var_   []float32 // of training
	count        float64
	sum, squares [2][]float64 // by hypothesis and output channel
}

const (
	gridSide   = 12  // patches looked at per sample: a grid of this many rows and columns
	minPatches = 500 // fewer say nothing
	asIs       = 0
	reversed   = 1
)

// findFirstConv returns nil unless exactly one Conv reads the input (perhaps transposed or padded) and its output goes to a
// BatchNormalization with constant statistics and nowhere else.
func findFirstConv(g *graph.Graph, in Input) *firstConv {
	v, ok := g.Lookup(in.Name)
	f := &firstConv{dilations: [2]int{1, 1}}
	for ok {
		var use graph.Use
		if use, ok = g.SoleUse(v); !ok || use.Index != 0 {
			return nil
		}
		n := g.Node(use.Node)
		switch {
		case n.Op == "Conv":
			return f.complete(g, n)
		case n.Op == "Transpose" && slices.Equal(n.AttrInts("perm"), []int64{0, 3, 1, 2}) && !f.nhwc:
			f.nhwc = true
		case n.Op != "Identity" && n.Op != "Pad":
			return nil
		}
		v = n.Outputs[0]
	}
	return nil
}

func (f *firstConv) complete(g *graph.Graph, conv *graph.Node) *firstConv {
	use, ok := g.SoleUse(conv.Outputs[0])
	f.weight = g.Const(conv.Input(1))
	if !ok || f.weight == nil || f.weight.DType != tensor.Float32 || len(f.weight.Shape) != 4 || conv.Conv().Group != 1 {
		return nil
	}
	bn := g.Node(use.Node)
	mean, variance := g.Const(bn.Input(3)), g.Const(bn.Input(4))
	if bn.Op != "BatchNormalization" || use.Index != 0 || mean == nil || variance == nil {
		return nil
	}
	f.mean, f.var_ = mean.F32(), variance.F32()
	if b := g.Const(conv.Input(2)); b != nil {
		f.bias = b.F32()
	}
	if d := conv.AttrInts("dilations"); len(d) == 2 && d[0] > 0 && d[1] > 0 && d[0] < 1<<16 && d[1] < 1<<16 {
		f.dilations = [2]int{int(d[0]), int(d[1])}
	}
	out := f.weight.Shape[0]
	if len(f.mean) != out || len(f.var_) != out || f.bias != nil && len(f.bias) != out || f.weight.Len() == 0 {
		return nil
	}
	for h := range f.sum {
		f.sum[h], f.squares[h] = make([]float64, out), make([]float64, out)
	}
	return f
}

// observe evaluates the convolution on a grid of patches inside one picture. Stride and padding do not matter for the
// distribution, and patches that reach over the border are left out.
func (f *firstConv) observe(t *tensor.Tensor) {
	s := f.weight.Shape
	if len(t.Shape) != 4 {
		return
	}
	c, h, w := t.Shape[1], t.Shape[2], t.Shape[3]
	cs, hs, ws := h*w, w, 1
	if f.nhwc {
		h, w, c = t.Shape[1], t.Shape[2], t.Shape[3]
		cs, hs, ws = 1, w*c, c
	}
	rows, cols := h-(s[2]-1)*f.dilations[0], w-(s[3]-1)*f.dilations[1] // positions of a patch
	if c != s[1] || rows < 1 || cols < 1 {
		return
	}
	x := t.F32()
	k := s[2] * s[3]
	patch := make([]float32, c*k)
	for gy := range min(gridSide, rows) {
		for gx := range min(gridSide, cols) {
			y0, x0 := gy*rows/min(gridSide, rows), gx*cols/min(gridSide, cols)
			for i := range patch {
				ky, kx := i%k/s[3], i%k%s[3]
				patch[i] = x[i/k*cs+(y0+ky*f.dilations[0])*hs+(x0+kx*f.dilations[1])*ws]
			}
			f.add(patch, k)
		}
	}
	f.count += float64(min(gridSide, rows) * min(gridSide, cols))
}

// add accumulates the outputs for one patch, whose channels hold k elements each.
func (f *firstConv) add(patch []float32, k int) {
	c := len(patch) / k
	w := f.weight.F32()
	for o := range f.mean {
		var y [2]float64
		for i := range c {
			row := w[(o*c+i)*k:][:k]
			for j, v := range row {
				y[asIs] += float64(float64(v) * float64(patch[i*k+j]))
				y[reversed] += float64(float64(v) * float64(patch[(c-1-i)*k+j]))
			}
		}
		for h := range y {
			if f.bias != nil {
				y[h] += float64(f.bias[o])
			}
			f.sum[h][o] += y[h]
			f.squares[h][o] += float64(y[h] * y[h])
		}
	}
}

func (f *firstConv) enough() bool { return f.count >= minPatches }

// moments compares one output channel with training, under a hypothesis: shift is the difference of the means in standard
// deviations of training, spread the ratio of the standard deviations. ok is false for a channel that was dead in training.
func (f *firstConv) moments(h, o int) (shift, spread float64, ok bool) {
	std := math.Sqrt(float64(f.var_[o]))
	mean := f.sum[h][o] / f.count
	variance := max(f.squares[h][o]/f.count-mean*mean, 0)
	if !(std > 1e-4) || variance == 0 {
		return 0, 0, false
	}
	return (mean - float64(f.mean[o])) / std, math.Sqrt(variance) / std, true
}

// distance is the Kullback-Leibler divergence of two normal distributions, training's being the reference.
func distance(shift, spread float64) float64 {
	return (spread*spread+shift*shift-1)/2 - math.Log(spread)
}

// findings compares the samples with training and speaks only where the evidence is strong. Pictures as a whole are judged by
// the median channel: it must be farther from training than other kinds of pictures would put it. The order of the colours is
// judged by the channels that respond to colour, which have to agree that the reverse order fits better.
func (f *firstConv) findings(input string) []Finding {
	var spreads, shifts, distances []float64
	telling, nearer, given, other := 0, 0, 0.0, 0.0
	for o := range f.mean {
		shift, spread, ok := f.moments(asIs, o)
		shiftR, spreadR, okR := f.moments(reversed, o)
		if !ok || !okR {
			continue
		}
		d, r := distance(shift, spread), distance(shiftR, spreadR)
		spreads, shifts, distances = append(spreads, spread), append(shifts, shift), append(distances, d)
		if math.Abs(d-r) > 0.05 {
			telling++
			given, other = given+d, other+r
			if r < d {
				nearer++
			}
		}
	}
	if len(distances) < 4 {
		return nil
	}
	if spread, far := median(spreads), median(distances); far > 0.3 {
		return []Finding{finding(RuleUnlike, Fault, input, far, "the first convolution's outputs are not distributed as in training "+
			"(batch normalisation statistics): %.3g times the spread, off by %.3g standard deviations (medians over channels); "+
			"is the input normalised as the model expects?", spread, median(shifts))}
	}
	if f.weight.Shape[1] == 3 && telling >= 2 && 5*nearer >= 4*telling && given > 2*other && given-other > 0.25 {
		return []Finding{finding(RuleColours, Fault, input, float64(nearer), "red and blue look exchanged: %d of the %d channels of the "+
			"first convolution that respond to colour fit training (batch normalisation statistics) better with the channels reversed",
			nearer, telling)}
	}
	return nil
}

func median(x []float64) float64 {
	s := append([]float64(nil), x...)
	sort.Float64s(s)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
