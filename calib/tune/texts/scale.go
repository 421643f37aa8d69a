package texts

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/calib/tune/round"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/kernels/elementary"
	"qwb/kernels/qmath"
)

// held is the part of the texts, the last ones, that exponents are chosen on.
const held = 0.25

// exponents of what inputs and weights are, of which scales are products: those of AWQ (Lin et al. 2023), which has no power of the
// weights, with that of AutoAWQ; and those of SmoothQuant (Xiao et al. 2022), whose two powers are 1 together. The first pair scales
// nothing.
var (
	exponents = [][2]float64{{0, 0}, {0.15, 0}, {0.3, 0}, {0.45, 0}, {0.6, 0}, {0, 0.4}, {0.15, 0.4}, {0.3, 0.4}, {0.45, 0.4}, {0.6, 0.4},
		{0, 0.8}, {0.15, 0.8}, {0.3, 0.8}, {0.45, 0.8}, {0.6, 0.8}}
	smoothing = [][2]float64{{0, 0}, {0.2, 0.8}, {0.3, 0.7}, {0.4, 0.6}, {0.5, 0.5}, {0.6, 0.4}, {0.7, 0.3}, {0.8, 0.2}}
)

// Scaling is what Scale chose for matrices that read the same.
type Scaling struct {
	Part           string  // the first matrix
	Inputs, Weight float64 // exponents
	Plain, Scaled  float64 // squared error of the outputs of texts that scales are not made of, as a part of their square
}

// Scale returns a model of the same function whose matrices lose less by being quantized: the inputs of matrices are divided by a scale for
// each channel, folded into the norm or the matrix in front, and their columns multiplied with it. A scale is a power of the energy of the
// channel over one of the energy of its weights; with smooth, of the largest magnitudes. Of both the exponents are taken that lose least
// on the last quarter of the texts, by nearest codes, and by how an engine rounds inputs where the encoding says that it does. It reads
// of c Model, Engine, which stays float, Encoding, Bits, Texts and Threads. What one norm gives to experts and their router is not scaled.
func Scale(ctx context.Context, c Config, smooth bool) (map[checkpoint.Part]*checkpoint.Tensor, []Scaling, error) {
	s := scaler{Config: c, smooth: smooth, done: map[checkpoint.Part]*checkpoint.Tensor{}}
	var rows inputs
	err := c.Engine.Walk(ctx, c.Texts, decode.Walker{
		Inputs: rows.add, Shown: rows.read, Ready: func(parts []checkpoint.Part) error { return s.stage(parts, &rows) }})
	return s.done, s.chosen, errors.Join(err, rows.clear())
}

type scaler struct {
	Config
	smooth bool
	done   map[checkpoint.Part]*checkpoint.Tensor
	chosen []Scaling
}

// front is what gives matrices their inputs channel by channel: a norm, or the rows of a matrix. ok is false where it is read by others
// too.
func (s *scaler) front(p checkpoint.Part) (front checkpoint.Part, ok bool) {
	front = p
	switch p.Role {
	case checkpoint.Query:
		front.Role = checkpoint.AttentionNorm
	case checkpoint.Output:
		front.Role = checkpoint.Value
	case checkpoint.Gate:
		front.Role = checkpoint.FeedNorm
	case checkpoint.Down:
		front.Role = checkpoint.Up
	case checkpoint.ExpertDown:
		front.Role = checkpoint.ExpertUp
	case checkpoint.SharedDown:
		front.Role = checkpoint.SharedUp
	case checkpoint.Classifier:
		front.Role = checkpoint.FinalNorm
		return front, !s.Model.Tied
	default:
		return front, false
	}
	return front, true
}

// now is a tensor as it is scaled so far.
func (s *scaler) now(p checkpoint.Part) *checkpoint.Tensor {
	if t := s.done[p]; t != nil {
		return t
	}
	return s.Model.Of(p)
}

// stage chooses the scales of what matrices read.
func (s *scaler) stage(parts []checkpoint.Part, rows *inputs) error {
	front, ok := s.front(parts[0])
	k := s.Model.Of(parts[0]).Cols
	var list []*checkpoint.Tensor
	for _, p := range parts {
		if t := s.now(p); s.Encoding(t).Quantized() && t.Floats() {
			if err := s.Model.Finite(t); err != nil {
				return err
			}
			list = append(list, t)
		}
	}
	if !ok || len(list) == 0 || rows.count(parts) == 0 {
		return nil
	}
	end := rows.cut(held)
	first := end
	if end == len(rows.pieces) { // one text, on which all is done
		first = 0
	}
	h, _, err := rows.moments(0, end, nil, k, s.Threads)
	if err != nil {
		return fmt.Errorf("%s: %w", parts[0], err)
	}
	judge, _, err := rows.moments(first, len(rows.pieces), nil, k, s.Threads)
	if err != nil {
		return fmt.Errorf("%s: %w", parts[0], err)
	}
	x := &channels{scaler: s, list: list, importance: diagonal(h, k), judge: judge, rows: rows, begin: first, heads: 1}
	if front.Role == checkpoint.Value {
		x.heads, x.width = s.Model.Heads/s.Model.KVHeads, s.Model.HeadDim
	}
	x.measure(end)
	grid := exponents
	if s.smooth {
		grid = smoothing
	}
	var best []float64
	var found Scaling
	for i, e := range grid {
		scales := x.scales(e)
		lost := x.loss(scales)
		if i == 0 {
			found = Scaling{Part: parts[0].String(), Plain: lost}
		}
		if i == 0 || lost < found.Scaled {
			best, found.Scaled, found.Inputs, found.Weight = scales, lost, e[0], e[1]
		}
	}
	s.chosen = append(s.chosen, found)
	if found.Inputs != 0 || found.Weight != 0 {
		s.fold(parts, front, best, x)
	}
	for _, t := range append(list, s.Model.Of(front)) { // they are read again by others, or in the next stage
		s.Model.Forget(t)
	}
	return nil
}

// fold divides what is in front by the scales, and multiplies the columns of the matrices with them.
func (s *scaler) fold(parts []checkpoint.Part, front checkpoint.Part, scales []float64, x *channels) {
	for _, p := range parts {
		t := s.now(p)
		s.done[p] = s.Model.Change(t, func(i int, v float64) float64 { return v * scales[i%t.Cols] })
	}
	t := s.now(front)
	if t.Role.Vector() {
		one := 0.0
		if s.Model.UnitNorm {
			one = 1
		}
		s.done[front] = s.Model.Change(t, func(i int, v float64) float64 { return (v+one)/scales[i] - one })
		return
	}
	row := func(r int) float64 { return scales[x.first(r)] }
	s.done[front] = s.Model.Change(t, func(i int, v float64) float64 { return v / row(i/t.Cols) })
	bias := front
	if bias.Role = checkpoint.ValueBias; front.Role == checkpoint.Value && s.Model.Biased() {
		s.done[bias] = s.Model.Change(s.now(bias), func(i int, v float64) float64 { return v / row(i) })
	}
}

// channels are the inputs of matrices that are to be scaled. Where heads of queries share one of values, which is in front, they share its
// scales: heads of them, width channels each.
type channels struct {
	*scaler
	list         []*checkpoint.Tensor
	importance   []float64 // of each input
	judge        []float64 // moments that exponents are chosen by
	rows         *inputs
	begin        int // the first piece of those that exponents are chosen by
	heads, width int
	inputs, mass []float64 // of each channel
	all          float64   // the squares of the outputs that exponents are chosen by
}

// first is the first input that reads row r of what is in front.
func (x *channels) first(r int) int {
	if x.heads == 1 {
		return r
	}
	return r/x.width*x.heads*x.width + r%x.width
}

// measure finds how large inputs, columns and outputs are, of inputs the pieces in front of end.
func (x *channels) measure(end int) {
	k := len(x.importance)
	x.inputs, x.mass = make([]float64, k), make([]float64, k)
	row := make([]float32, k)
	if x.smooth {
		for p := range end {
			for i, v := range x.rows.read(p) {
				x.inputs[i%k] = max(x.inputs[i%k], math.Abs(float64(v)))
			}
		}
	} else {
		for i, e := range x.importance {
			x.inputs[i] = math.Sqrt(e)
		}
	}
	for _, t := range x.list {
		x.all += x.sum(t, func(w []float64, _ *checkpoint.Tensor, threads int) []float64 {
			return round.Forms(w, x.judge, k, threads)
		})
		for r := range t.Rows {
			t.Row(row, r)
			for i, v := range row {
				if x.smooth {
					x.mass[i] = max(x.mass[i], math.Abs(float64(v)))
				} else {
					x.mass[i] += float64(v) * float64(v)
				}
			}
		}
		x.Model.Forget(t)
	}
	if !x.smooth {
		for i, v := range x.mass {
			x.mass[i] = math.Sqrt(v)
		}
	}
	for r := range k / x.heads { // the largest of heads that share
		at := x.first(r)
		for h := 1; h < x.heads; h++ {
			x.inputs[at] = max(x.inputs[at], x.inputs[at+h*x.width])
			x.mass[at] = max(x.mass[at], x.mass[at+h*x.width])
		}
		for h := 1; h < x.heads; h++ {
			x.inputs[at+h*x.width], x.mass[at+h*x.width] = x.inputs[at], x.mass[at]
		}
	}
}

// scales are those of two exponents, around 1: float32 numbers, between whose ends no more than four digits lie.
func (x *channels) scales(e [2]float64) []float64 {
	const least = 1e-4 // of the largest
	inputs, mass := least*slices.Max(x.inputs), least*slices.Max(x.mass)
	out := make([]float64, len(x.inputs))
	lo, hi := math.Inf(1), 0.0
	for i := range out {
		if out[i] = 1; inputs > 0 && mass > 0 {
			out[i] = elementary.Pow(max(x.inputs[i], inputs), e[0]) / elementary.Pow(max(x.mass[i], mass), e[1])
		}
		lo, hi = min(lo, out[i]), max(hi, out[i])
	}
	for i := range out {
		out[i] = float64(float32(out[i] / math.Sqrt(lo*hi)))
	}
	return out
}

// loss is the squared error of the outputs as a part of their square, with the nearest codes.
func (x *channels) loss(scales []float64) float64 {
	k := len(scales)
	importance := make([]float64, k)
	for i, e := range x.importance {
		importance[i] = e / (scales[i] * scales[i])
	}
	lost := 0.0
	noise := map[string][]float64{}
	for _, t := range x.list {
		e := x.Encoding(t)
		var inputs []float64
		if e.Scheme != nil && e.Scheme.Inputs != "" {
			if noise[e.Scheme.Inputs] == nil {
				noise[e.Scheme.Inputs] = x.noise(e, scales)
			}
			inputs = noise[e.Scheme.Inputs]
		}
		lost += x.sum(t, func(w []float64, rows *checkpoint.Tensor, threads int) []float64 {
			q := newTarget(rows.Changed(func(i int, v float64) float64 { return v * scales[i%k] }), e, importance, x.Bits, threads)
			off := q.take(q.problem().Nearest())
			for i := range off {
				off[i] = w[i] - off[i]/scales[i%k]
			}
			sums := round.Forms(off, x.judge, k, threads)
			for i, n := range inputs {
				for r := range sums {
					sums[r] += float64(w[r*k+i]*w[r*k+i]) * n
				}
			}
			return sums
		})
	}
	if x.all == 0 {
		return 0
	}
	return lost / x.all
}

// sum adds up what do returns for rows of a matrix, a number for each.
func (x *channels) sum(t *checkpoint.Tensor, do func(w []float64, rows *checkpoint.Tensor, threads int) []float64) (all float64) {
	sums := make([]float64, t.Rows)
	inStrips(x.Model, t, max(strip, stripRows*t.Cols), x.Threads, func(first int, rows *checkpoint.Tensor, threads int) {
		copy(sums[first:], do(wide(rows.All()), rows, threads))
	})
	for _, v := range sums {
		all += v
	}
	return all
}

// noise is the sum of squared errors of each input where an engine rounds the inputs of a token by the largest of them.
func (x *channels) noise(e weights.Encoding, scales []float64) []float64 {
	k := len(scales)
	out := make([]float64, k)
	for p := x.begin; p < len(x.rows.pieces); p++ {
		x.addNoise(out, x.rows.read(p), e, scales)
	}
	return out
}

func (x *channels) addNoise(out []float64, rows []float32, e weights.Encoding, scales []float64) {
	k := len(scales)
	for ; len(rows) > 0; rows = rows[k:] {
		row := rows[:k]
		most := 0.0
		for i, v := range row {
			most = max(most, math.Abs(float64(v)/scales[i]))
		}
		if most == 0 {
			continue
		}
		for i, v := range row {
			step := most / 127
			got := qmath.HalfEven.Round(float64(v)/scales[i]/step) * step
			if n := e.Scheme.Number; n != nil {
				step = most / float64(n.Decode(n.Encode(math.Inf(1), true)))
				got = float64(n.Decode(n.Encode(float64(v)/scales[i]/step, true))) * step
			}
			d := float64(v) - got*scales[i]
			out[i] += float64(d * d)
		}
	}
}
