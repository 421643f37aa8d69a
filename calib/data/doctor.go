package data

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
)

// Doctor looks at the samples that pass by for the usual mistakes: constant or repeated inputs, inputs that were not
// normalised, red and blue exchanged. It keeps a hash per sample and a few sums per input. The zero value cannot be used.
type Doctor struct {
	pre      *plan.Preprocess
	inputs   []*inputFacts
	seen     map[[32]byte]string
	samples  int
	repeated int
	repeats  string // the first repeated sample, and what it repeats
}

// inputFacts sums up one floating-point input over all samples.
type inputFacts struct {
	in            Input
	n             float64 // elements
	mean, m2      float64 // Welford and Chan
	lo, hi        float64
	whole         bool // all elements are whole numbers
	constant      int  // samples of a single value
	firstConstant string
	first         *firstConv // nil where the model says nothing about its input
}

// NewDoctor prepares an examination. g is the model as it was loaded, before batch normalisation is folded into weights: the
// statistics of the batch normalisation tell what the first convolution saw in training. With a nil g this comparison is left
// out. pre may be nil.
func NewDoctor(spec InputSpec, g *graph.Graph, pre *plan.Preprocess) *Doctor {
	d := &Doctor{pre: pre, seen: map[[32]byte]string{}}
	for _, in := range spec {
		if in.DType == tensor.Float32 {
			f := &inputFacts{in: in, lo: math.Inf(1), hi: math.Inf(-1), whole: true}
			if g != nil {
				f.first = findFirstConv(g, in)
			}
			d.inputs = append(d.inputs, f)
		}
	}
	return d
}

// Observe takes one sample into account.
func (d *Doctor) Observe(s *exec.Sample) {
	d.samples++
	if first, dup := d.seen[s.Hash]; dup {
		if d.repeated == 0 {
			d.repeats = fmt.Sprintf("%s repeats %s", s.Name, first)
		}
		d.repeated++
	} else {
		d.seen[s.Hash] = s.Name
	}
	for _, f := range d.inputs {
		if t := s.Feeds[f.in.Name]; t != nil && t.DType == tensor.Float32 && t.Len() > 0 {
			f.observe(t.ToRowMajor(), s.Name)
		}
	}
}

func (f *inputFacts) observe(t *tensor.Tensor, name string) {
	x := t.F32()
	lo, hi, sum := math.Inf(1), math.Inf(-1), 0.0
	for _, v := range x {
		v := float64(v)
		lo, hi = min(lo, v), max(hi, v)
		sum += v
		f.whole = f.whole && v == math.Trunc(v)
	}
	n := float64(len(x))
	mean, m2 := sum/n, 0.0
	for _, v := range x {
		d := float64(v) - mean
		m2 += float64(d * d)
	}
	delta := mean - f.mean
	f.m2 += m2 + delta*delta*f.n*n/(f.n+n)
	f.n += n
	f.mean += delta * n / f.n
	f.lo, f.hi = min(f.lo, lo), max(f.hi, hi)
	if lo == hi && len(x) > 1 {
		if f.constant == 0 {
			f.firstConstant = name
		}
		f.constant++
	}
	if f.first != nil {
		f.first.observe(t)
	}
}

// Warnings are the findings in the form that other warnings have; Value is the number a warning hinges on.
func (d *Doctor) Warnings() []Warning {
	var list []Warning
	for _, f := range d.Findings() {
		list = append(list, Warning{Node: f.Node, Text: f.Text, Value: f.Value})
	}
	return list
}

// Findings says what was found so far.
func (d *Doctor) Findings() []Finding {
	var list []Finding
	if d.repeated > 0 {
		list = append(list, finding(RuleRepeated, Hint, "data", float64(d.repeated), "%d of %d samples are exact repetitions (first: %s)", d.repeated, d.samples, d.repeats))
	}
	for _, f := range d.inputs {
		list = append(list, f.findings(d)...)
	}
	return list
}

func (f *inputFacts) findings(d *Doctor) []Finding {
	var list []Finding
	say := func(rule string, value float64, format string, args ...any) {
		list = append(list, finding(rule, Hint, f.in.Name, value, format, args...))
	}
	if f.n == 0 {
		return nil
	}
	if f.constant > 0 {
		say(RuleConstant, float64(f.constant), "the input is constant in %d of %d samples (first: %s)", f.constant, d.samples, f.firstConstant)
		if f.constant == d.samples {
			list[0].Level = Fault
		}
	}
	if f.first != nil && f.first.enough() {
		// The model's own evidence stands above the rules of thumb below.
		return append(list, f.first.findings(f.in.Name)...)
	}
	std := math.Sqrt(f.m2 / f.n)
	normalised := d.pre != nil && (len(d.pre.Mean) > 0 || len(d.pre.Std) > 0)
	switch {
	case len(f.in.Shape) < 3 || normalised || f.lo == f.hi:
	case f.whole && f.lo >= 0 && f.hi > 100 && f.hi <= 255:
		say(RuleNormalised, f.hi, "the input holds whole numbers from %g to %g, pixels that were not normalised: right only for a model trained on those", f.lo, f.hi)
	case math.Abs(f.mean) > 3*std || std > 10 || std < 0.01:
		say(RuleNormalised, std, "the input has mean %.4g and standard deviation %.4g: far from 0 and 1, was it normalised?", f.mean, std)
	}
	return list
}

// Overlap compares the sample hashes of calibration and evaluation, in any order, and warns if they share samples. A repeated
// evaluation sample counts each time.
func Overlap(calibration, evaluation [][32]byte) []Warning {
	seen := make(map[[32]byte]bool, len(calibration))
	for _, h := range calibration {
		seen[h] = true
	}
	shared := 0
	for _, h := range evaluation {
		if seen[h] {
			shared++
		}
	}
	if shared == 0 {
		return nil
	}
	return []Warning{{Node: "data", Text: fmt.Sprintf("%d of %d evaluation samples were also used for calibration: the measured accuracy is too good", shared, len(evaluation)), Value: float64(shared)}}
}
