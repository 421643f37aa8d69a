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
	g        *graph.Graph // nil: not known
	inputs   []*inputFacts
	seen     map[[32]byte]string
	samples  int
	repeated int
	repeats  string // the first repeated sample, and what it repeats
}

// inputFacts sums up one input over all samples: floats by their finite values, whole numbers and truth values by whether they vary.
type inputFacts struct {
	in            Input
	n             float64      // finite elements
	present       int          // samples that have the input
	filled        int          // samples in which it has elements
	value         any          // of whole numbers: the one that was seen so far
	varies        bool         // of whole numbers: there is another, or a sample has one element
	bad           []*NotFinite // by sample that has some
	far           [2]float64   // the largest magnitude of a sample, and the next one's
	farthest      string       // the sample of the largest
	mean, m2      float64      // Welford and Chan
	lo, hi        float64
	whole         bool // all elements are whole numbers
	constant      int  // samples of a single value, which have several elements
	single        int  // samples of one element
	rolled        bool // it is a state, which begins with zeros
	firstConstant string
	first         *firstConv // nil where the model says nothing about its input
}

// NewDoctor prepares an examination. g is the model as it was loaded, before batch normalisation is folded into weights: the
// statistics of the batch normalisation tell what the first convolution saw in training. With a nil g this comparison is left
// out. pre may be nil.
func NewDoctor(spec InputSpec, g *graph.Graph, pre *plan.Preprocess) *Doctor {
	d := &Doctor{pre: pre, g: g, seen: map[[32]byte]string{}}
	for _, in := range spec {
		f := &inputFacts{in: in, lo: math.Inf(1), hi: math.Inf(-1), whole: true}
		if g != nil && in.DType == tensor.Float32 {
			f.first = findFirstConv(g, in)
		}
		d.inputs = append(d.inputs, f)
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
		t := s.Feeds[f.in.Name]
		if t == nil {
			continue
		}
		if f.present++; t.Len() == 0 {
			continue
		}
		if f.filled++; t.DType.IsFloat() {
			f.bad = append(f.bad, NotFinites(s, []string{f.in.Name})...)
			f.rolled = f.rolled || s.Rolls(f.in.Name)
			f.observe(exec.Floats(t.ToRowMajor()), s.Name)
			continue
		}
		value, ok := single(t)
		if f.varies = f.varies || !ok || f.value != nil && f.value != value; f.value == nil {
			f.value = value
		}
	}
}

func (f *inputFacts) observe(t *tensor.Tensor, name string) {
	x := t.F32()
	lo, hi, sum := math.Inf(1), math.Inf(-1), 0.0
	n := 0.0
	for _, v := range x {
		if v-v != 0 { // NaN or infinite
			continue
		}
		v := float64(v)
		lo, hi = min(lo, v), max(hi, v)
		sum += v
		n++
		f.whole = f.whole && v == math.Trunc(v)
	}
	if n == 0 {
		return
	}
	mean, m2 := sum/n, 0.0
	for _, v := range x {
		if d := float64(v) - mean; v-v == 0 {
			m2 += float64(d * d)
		}
	}
	switch far := farthest(x); {
	case far > f.far[0]:
		f.far, f.farthest = [2]float64{far, f.far[0]}, name
	case far > f.far[1]:
		f.far[1] = far
	}
	delta := mean - f.mean
	f.m2 += m2 + delta*delta*f.n*n/(f.n+n)
	f.n += n
	f.mean += delta * n / f.n
	f.lo, f.hi = min(f.lo, lo), max(f.hi, hi)
	if len(x) == 1 {
		f.single++
	}
	if lo == hi && n == float64(len(x)) && len(x) > 1 && !f.rolled {
		if f.constant == 0 {
			f.firstConstant = name
		}
		f.constant++
	}
	if f.first != nil {
		f.first.observe(t)
	}
}

// unseen are the rules about what the samples leave out, whose cure stands in the warning.
var unseen = map[string]bool{RuleEmpty: true, RuleUnread: true, RuleBranch: true}

// Warnings are the findings in the form that other warnings have; Value is the number a warning hinges on.
func (d *Doctor) Warnings() []Warning { return Warnings(d.Findings()) }

// Warnings are findings in the form that other warnings have.
func Warnings(findings []Finding) []Warning {
	var list []Warning
	for _, f := range findings {
		if unseen[f.Rule] || f.Rule == RuleConstant && f.Level == Fault {
			f.Text += "; " + f.Fix
		}
		list = append(list, Warning{Node: f.Node, Text: f.Text, Value: f.Value})
	}
	return list
}

// Findings says what was found so far.
func (d *Doctor) Findings() []Finding {
	var list []Finding
	if d.repeated > 0 {
		list = append(list, finding(RuleRepeated, Hint, "data", float64(d.repeated), "%d of %d samples are exact repetitions (first: %s)",
			d.repeated, d.samples, d.repeats))
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
	// becomes says that what was said last is worse than a hint.
	becomes := func(level, fix string) { list[len(list)-1].Level, list[len(list)-1].Fix = level, fix }
	switch {
	case f.present > 0 && f.filled == 0:
		say(RuleEmpty, 0, "the input has no element in any of %d samples: none of its numbers was seen", f.present)
		becomes(Fault, d.record(f)+"samples in which it has elements: no range behind it is known otherwise")
	case f.value != nil && !f.varies && f.filled > 1:
		say(RuleConstant, float64(f.filled), "every element is %v in all of %d samples", f.value, f.filled)
		becomes(Hint, "record samples in which it varies (padding, for instance), unless the model never gets anything else")
	}
	f.notFinite(d, say, becomes)
	if f.n == 0 {
		return list
	}
	if f.single > 1 && f.single == f.filled && f.lo == f.hi && !f.rolled {
		say(RuleConstant, float64(f.single), "every element is %g in all of %d samples", f.lo, f.single)
		if f.lo == 0 {
			becomes(Fault, d.record(f)+"samples in which it varies: no range behind it is known otherwise")
		} else {
			becomes(Hint, "record samples in which it varies, unless the model never gets anything else")
		}
	}
	if f.constant > 0 {
		say(RuleConstant, float64(f.constant), "the input is constant in %d of %d samples (first: %s)", f.constant, d.samples, f.firstConstant)
		if f.constant == d.samples {
			becomes(Fault, d.record(f)+"samples in which it varies: no range behind it is known otherwise")
		}
	}
	if f.outlying() {
		say(RuleOutlier, f.far[0], "sample %s reaches %.3g, %.2g times as far as any other", f.farthest, f.far[0], f.far[0]/f.far[1])
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
		say(RuleNormalised, f.hi, "the input holds whole numbers from %g to %g, pixels that were not normalised: right only for a model "+
			"trained on those", f.lo, f.hi)
	case math.Abs(f.mean) > 3*std || std > 10 || std < 0.01:
		say(RuleNormalised, std, "the input has mean %.4g and standard deviation %.4g: far from 0 and 1, was it normalised?", f.mean, std)
	}
	return list
}

// record says how to come by what an input holds if it is a state; empty where it is one already.
func (d *Doctor) record(f *inputFacts) string {
	if f.rolled || d.g == nil {
		return "record "
	}
	if out := d.g.GuessState(f.in.Name); out != "" {
		return fmt.Sprintf("record the state by rolling the model over sequences: --state %s=%s; or ", f.in.Name, out)
	}
	return "record the state by running the model, or "
}

// notFinite reports what is NaN, which calibrate refuses, and what is infinite, but for a mask: an input with -Inf in most samples.
func (f *inputFacts) notFinite(d *Doctor, say func(rule string, value float64, format string, args ...any),
	becomes func(level, fix string)) {
	mask, nan := 2*len(f.bad) >= d.samples, false
	for _, b := range f.bad {
		mask = mask && b.Value < 0
		nan = nan || b.Value != b.Value
	}
	if len(f.bad) == 0 || mask && !nan {
		return
	}
	first := f.bad[0]
	for _, b := range f.bad {
		if nan && b.Value != b.Value {
			first = b
			break
		}
	}
	say(RuleNotFinite, float64(len(f.bad)), "values are not finite in %d of %d samples (first: sample %s, %s)", len(f.bad), d.samples,
		first.Sample, first)
	if nan {
		becomes(Fault, fixes[RuleNotFinite])
	}
}

// outliers is how many times as far as any other a sample has to reach to stand out.
const outliers = 1e4

func (f *inputFacts) outlying() bool {
	return f.far[1] > 0 && f.far[0] > outliers*f.far[1] && f.filled > 2
}

// Suspects are the samples that may break the model: those with an infinite value, and one that reaches far beyond all others. NaN is a
// fault in any case.
func (d *Doctor) Suspects() (names []string) {
	for _, f := range d.inputs {
		for _, b := range f.bad {
			if b.Value == b.Value {
				names = append(names, b.Sample)
			}
		}
		if f.outlying() {
			names = append(names, f.farthest)
		}
	}
	return names
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
	return []Warning{{Node: "data", Text: fmt.Sprintf("%d of %d evaluation samples were also used for calibration: the measured accuracy "+
		"is too good", shared, len(evaluation)), Value: float64(shared)}}
}
