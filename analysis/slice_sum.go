package analysis

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// sum is what the elements of a slice add up to: of one sample, or of all.
type sum struct {
	n                    int
	noise, signal, other float64 // sums of (q-f)^2, f^2, q^2
	dot, f, q            float64 // sums of f*q, f, q
	top                  float64 // the largest |f|
	reach                float64 // of one sample: how far its signal reaches, see Judge.reaches
	lo, hi               float32 // of q
	codes                *levels // nil: they are not counted
}

func (s *sum) add(x, y []float32) {
	for i, b := range y {
		a := x[i]
		if a == b && math.IsInf(float64(a), 0) {
			continue
		}
		if s.n++; s.n == 1 || a < s.lo {
			s.lo = a
		}
		if s.n == 1 || a > s.hi {
			s.hi = a
		}
		q, f := float64(a), float64(b)
		s.noise += float64((q - f) * (q - f))
		s.signal += float64(f * f)
		s.other += float64(q * q)
		s.dot += float64(q * f)
		s.f, s.q = s.f+f, s.q+q
		s.top = max(s.top, math.Abs(f))
		s.codes.add(a)
	}
}

// join adds what another slice, or another sample, sums up to.
func (s *sum) join(o *sum) {
	if o.n == 0 {
		return
	}
	if s.n == 0 {
		s.lo, s.hi = o.lo, o.hi
	}
	s.n, s.noise, s.signal, s.other = s.n+o.n, s.noise+o.noise, s.signal+o.signal, s.other+o.other
	s.dot, s.f, s.q = s.dot+o.dot, s.f+o.f, s.q+o.q
	s.top, s.lo, s.hi = max(s.top, o.top), min(s.lo, o.lo), max(s.hi, o.hi)
	if o.codes != nil {
		if s.codes == nil {
			s.codes = &levels{}
		}
		s.codes.join(o.codes)
	}
}

// varies returns the variance of the float values over their mean square.
func (s *sum) varies() float64 {
	if s.n == 0 || s.signal == 0 {
		return 0
	}
	mean := s.f / float64(s.n)
	return max(0, 1-mean*mean*float64(s.n)/s.signal)
}

// correlation is that of quantized and float values; NaN where one of them does not vary.
func (s *sum) correlation() float64 {
	n := float64(s.n)
	x, y := s.other-s.q*s.q/n, s.signal-s.f*s.f/n
	if s.n < 2 || s.lo == s.hi || s.varies() < steady || !(x > 0) || !(y > 0) {
		return math.NaN()
	}
	return max(-1, min(1, (s.dot-s.f*s.q/n)/math.Sqrt(x*y)))
}

// steady is a variance over the mean square below which values are one value and rounding of the sums.
const steady = 1e-10

// mostLevels is how many levels are told apart: those of 8 bits.
const mostLevels = 256

// levels are the different values of a quantized slice, at most mostLevels.
type levels struct {
	of   map[float32]struct{}
	last float32
	some bool
}

func (l *levels) add(x float32) {
	if l == nil || l.some && x == l.last || len(l.of) >= mostLevels {
		return
	}
	if l.of == nil {
		l.of = map[float32]struct{}{}
	}
	l.of[x], l.last, l.some = struct{}{}, x, true
}

func (l *levels) join(o *levels) {
	for x := range o.of {
		l.add(x)
	}
}

// slicing is how one output is cut along one axis: bins between all ends of slices, so that every element is added once.
type slicing struct {
	output, axis, period int
	bin                  []int // by index in the period; -1: of no slice
	bins                 int
	of                   []slicedBins
}

// slicedBins are the bins of a slice.
type slicedBins struct{ slice, from, to int }

// slicings prepares the sums of slices.
func slicings(list []Slice) (out []slicing) {
	type key struct{ output, axis, period int }
	var order []key
	groups := map[key][]int{}
	for i, s := range list {
		k := key{s.Output, s.Axis, s.Period}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], i)
	}
	for _, k := range order {
		var ends []int
		for _, i := range groups[k] {
			ends = append(ends, list[i].From, list[i].To)
		}
		slices.Sort(ends)
		ends = slices.Compact(ends)
		s := slicing{output: k.output, axis: k.axis, period: k.period, bins: len(ends) - 1, bin: make([]int, ends[len(ends)-1])}
		for j := range s.bin {
			at, found := slices.BinarySearch(ends, j)
			if s.bin[j] = at - 1; found {
				s.bin[j] = at
			}
		}
		for _, i := range groups[k] {
			from, _ := slices.BinarySearch(ends, list[i].From)
			to, _ := slices.BinarySearch(ends, list[i].To)
			s.of = append(s.of, slicedBins{i, from, to})
		}
		out = append(out, s)
	}
	return out
}

// add sums up one sample into sums, by slice.
func (s *slicing) add(q, f *tensor.Tensor, codes bool, into []sum) error {
	q, f = q.ToRowMajor(), f.ToRowMajor()
	x, y, err := aligned(q, f)
	if err != nil || s.axis >= len(f.Shape) {
		return err
	}
	bins := make([]sum, s.bins)
	if codes {
		for i := range bins {
			bins[i].codes = &levels{}
		}
	}
	outer, n, inner := f.Blocks(s.axis)
	for o := range outer {
		for j := 0; j < n; {
			at := j
			if s.period > 0 {
				at %= s.period
			}
			k, bin := 1, -1
			if at < len(s.bin) {
				bin = s.bin[at]
				for j+k < n && at+k < len(s.bin) && s.bin[at+k] == bin {
					k++
				}
			}
			if from, to := (o*n+j)*inner, (o*n+j+k)*inner; bin >= 0 {
				bins[bin].add(x[from:to], y[from:to])
			}
			j += k
		}
	}
	for _, b := range s.of {
		for i := b.from; i < b.to; i++ {
			into[b.slice].join(&bins[i])
		}
		if t := &into[b.slice]; !finite(t.noise + t.signal + t.other) {
			return ErrNotFinite
		}
	}
	return nil
}

// tally adds up the sums of samples in the order of the data, whichever are done first, so that they do not depend on threads.
type tally struct {
	mu      sync.Mutex
	pending map[int][]sum
	samples int
	total   []sum
	noise   [][]float64 // by sample and slice
	reach   [][]float64 // by sample and output, or slice
	blocks  Blocks      // of the samples
}

func (t *tally) add(i int, s []sum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == nil {
		t.pending = map[int][]sum{}
	}
	t.pending[i] = s
	for s, ok := t.pending[t.samples]; ok; s, ok = t.pending[t.samples] {
		delete(t.pending, t.samples)
		t.samples++
		if t.total == nil {
			t.total = make([]sum, len(s))
		}
		noise, reach := make([]float64, len(s)), make([]float64, len(s))
		for k := range s {
			t.total[k].join(&s[k])
			noise[k], reach[k] = s[k].noise, s[k].reach
		}
		t.noise, t.reach = append(t.noise, noise), append(t.reach, reach)
	}
}

// noises adds the noise of slices to what is known of outputs.
func (j *Judge) noises(out []outputError, q, f []*tensor.Tensor) error {
	sums, err := j.sums(q, f, false)
	if err != nil {
		return err
	}
	for i, s := range j.slices {
		o := &out[s.Output]
		o.noise = append(o.noise, sums[len(j.logits)+i].noise)
	}
	return nil
}

// noiseOf is the noise of a slice, counted as sums count it.
func (j *Judge) noiseOf(outputs []outputError) func(i int) float64 {
	var all []float64
	next := make([]int, len(outputs))
	for _, s := range j.slices {
		all = append(all, outputs[s.Output].noise[next[s.Output]])
		next[s.Output]++
	}
	return func(i int) float64 { return all[i-len(j.logits)] }
}

// sums adds up one sample: first every output as a whole, then every slice. Outputs of another type than float have as signal how many
// elements they have, as noise how many of them are others.
func (j *Judge) sums(q, f []*tensor.Tensor, codes bool) ([]sum, error) {
	n := len(j.logits)
	out := make([]sum, n+len(j.slices))
	seen, real := make([]*tensor.Tensor, n), make([]*tensor.Tensor, n)
	for k := range n {
		if !q[k].DType.IsFloat() || !f[k].DType.IsFloat() {
			n := f[k].Len()
			out[k] = sum{n: n, signal: float64(n), noise: qmath.HalfEven.Round(Mismatch(q[k], f[k]) * float64(n))}
			continue
		}
		seen[k], real[k] = j.unmasked(k, q[k], f[k])
		x, y, err := aligned(seen[k], real[k])
		if err != nil {
			return nil, err
		}
		if out[k].add(x, y); !finite(out[k].noise + out[k].signal + out[k].other) {
			return nil, fmt.Errorf("output %q: %w", j.g.Value(j.g.Outputs[k]).Name, ErrNotFinite)
		}
	}
	for i := range j.cuts {
		c := &j.cuts[i]
		if seen[c.output] == nil {
			continue
		}
		if err := c.add(exec.Floats(seen[c.output]), exec.Floats(real[c.output]), codes, out[n:]); err != nil {
			return nil, fmt.Errorf("output %q: %w", j.g.Value(j.g.Outputs[c.output]).Name, err)
		}
	}
	return out, nil
}
