package analysis

import (
	"fmt"
	"math"
	"slices"
)

// SliceError is the error of one part of an output over all samples.
type SliceError struct {
	Name   string `json:"name"`
	Output string `json:"output,omitempty"`
	Axis   int    `json:"axis"`
	From   int    `json:"from"`
	To     int    `json:"to"`
	// Period: the elements whose index along the axis, modulo Period, lies between From and To. Left out where it is the whole axis.
	Period int `json:"period,omitempty"`
	// NSR is sum((q-f)^2) over sum(f^2), both over all samples; its error is that of the noise.
	NSR      float64  `json:"nsr"`
	NSRError *float64 `json:"nsr_error"`
	// Correlation of quantized and float values; null where one of them does not vary.
	Correlation *float64 `json:"correlation"`
	// Levels is how many different values the quantized slice has, up to 256, and Codes their share of 256.
	Levels int     `json:"levels"`
	Codes  float64 `json:"codes"`
	// Signal says that float has a signal in it and that the quantized network still has. Finding says why not.
	Signal  bool   `json:"signal"`
	Finding string `json:"finding,omitempty"`
	// Judged says that the slice counts in the verdict of the output. Part: it is no single index.
	Judged bool `json:"judged"`
	Part   bool `json:"part,omitempty"`
	// Mismatch says that it is an integer output beside others that are float: NSR is the share of its elements that differ,
	// and it is lost where most do.
	Mismatch bool `json:"mismatch,omitempty"`
}

// estimate is the error with what stands beside it.
func (s *SliceError) estimate() NSR {
	e := Estimate{Mean: s.NSR, Error: math.Inf(1)}
	if s.NSRError != nil {
		e.Error = *s.NSRError
	}
	return NewNSR(e)
}

// Findings of a SliceError.
const (
	SignalLost = "no signal left"
	SignalNone = "no signal in these samples"
)

// SliceGroup is a part, or neighbouring indices of an axis, that the same was found of.
type SliceGroup struct {
	Names []string    // of all slices in it
	First *SliceError // with the range of all
}

// Name says where the group lies.
func (g *SliceGroup) Name() string {
	s := g.First
	if s.Mismatch {
		return s.Output
	}
	at := fmt.Sprintf("%d..%d of axis %d of %s", s.From, s.To-1, s.Axis, s.Output)
	if s.Period > 0 {
		at = fmt.Sprintf("%d..%d of every %d of axis %d of %s", s.From, s.To-1, s.Period, s.Axis, s.Output)
	}
	if s.Part {
		return s.Name + " (" + at + ")"
	}
	return at
}

// Text says what was found of it.
func (g *SliceGroup) Text() string {
	text := g.First.Finding
	if g.First.Mismatch {
		return fmt.Sprintf("%s: %.3g %% of its elements differ", text, 100*g.First.NSR)
	}
	if text == SignalLost {
		text += fmt.Sprintf(": NSR %.2g", g.First.NSR)
		if g.First.Levels == 1 {
			text += ", all values are one"
		}
	}
	return text
}

// Found puts together the slices of which one of the findings was made. Indices in a part that is named are not named again.
func Found(list []SliceError, finding string) (out []SliceGroup) {
	for _, s := range list {
		if s.Finding != finding {
			continue
		}
		at := slices.IndexFunc(out, func(g SliceGroup) bool {
			f := g.First
			inside, next := f.From <= s.From && s.To <= f.To, !s.Part && !f.Part && f.To == s.From
			return f.Output == s.Output && f.Axis == s.Axis && f.Period == s.Period && (inside || next)
		})
		if at < 0 {
			out = append(out, SliceGroup{nil, &s})
			at = len(out) - 1
		}
		g := &out[at]
		g.Names, g.First.To = append(g.Names, s.Name), max(g.First.To, s.To)
	}
	return out
}

// hidden is how much smaller the mean square of a single index has to be than that of its output for the index to be judged by itself:
// where indices are about as large as others, the error of the output shows theirs.
const hidden = 0.01

// faintShare is half a step of 8 bits between 0 and 1: probabilities below it are 0 to whoever reads them.
const faintShare = 1.0 / 512

// signal reports whether float has a signal in what was summed up.
func (s *sum) hasSignal(share bool, samples int) bool {
	return s.signal > nsrFloor*float64(samples) && !(share && s.top < faintShare)
}

// judged says which outputs and slices count, from float values alone, so that all plans are judged by the same. An output counts if it has
// a signal, or if none has; a part if it has a signal that varies; a single index if it is small beside its output too.
func (j *Judge) judged(total []sum, samples int) []bool {
	n, some := len(j.logits), false
	out := make([]bool, len(total))
	for k := range n {
		out[k] = j.integer(k) || total[k].hasSignal(j.share[k], samples)
		some = some || out[k]
	}
	for k := range n {
		out[k] = out[k] || !some // then NoSignal says nothing
	}
	for i, s := range j.slices {
		t, whole := &total[n+i], &total[s.Output]
		small := t.signal*float64(whole.n) < hidden*whole.signal*float64(t.n)
		out[n+i] = t.hasSignal(s.Share, samples) && t.varies() > steady && (s.Part || small)
	}
	return out
}

// integer reports whether an output is no float.
func (j *Judge) integer(k int) bool { return !j.g.Value(j.g.Outputs[k]).DType.IsFloat() }

// weighed is what turns the noise of a sample into amounts: 0 for what does not count.
type weighed struct {
	of    []float64 // by output and slice
	empty []empty   // by output
}

// weigh finds the factors of the slices that count: samples over the signal of all. Those of outputs are 1, but for samples that are empty.
func (j *Judge) weigh(t *tally) weighed {
	w := weighed{make([]float64, len(t.total)), j.empties(t)}
	for i, counts := range j.judged(t.total, t.samples) {
		switch {
		case counts && i < len(j.logits):
			w.of[i] = 1
		case counts:
			w.of[i] = float64(t.samples) / (t.total[i].signal + nsrFloor*float64(t.samples))
		}
	}
	return w
}

// plain reports whether nothing but all outputs counts.
func (w weighed) plain(outputs int) bool {
	return !slices.Contains(w.of[:outputs], 0) && !slices.ContainsFunc(w.of[outputs:], func(x float64) bool { return x > 0 })
}

// row puts behind the losses of a sample by output those of all slices; what does not count loses nothing.
func (w weighed) row(sample int, losses []float64, noise func(i int) float64) []float64 {
	out := make([]float64, len(w.of))
	for i := range w.of {
		switch {
		case i < len(losses):
			out[i] = losses[i] * w.of[i] * w.empty[i].weight(sample)
		case w.of[i] > 0:
			out[i] = noise(i) * w.of[i]
		}
	}
	return out
}

// outputs are the losses by output alone, weighed.
func (w weighed) outputs(l Losses) Losses {
	out := make(Losses, len(l))
	for k, row := range l {
		out[k] = make([]float64, len(row))
		for i, x := range row {
			out[k][i] = x * w.of[i] * w.empty[i].weight(k)
		}
	}
	return out
}

// verdicts are the errors of all slices, by output, and of every output whether float has a signal in it.
func (j *Judge) verdicts(t *tally) (bySlice [][]SliceError, signal []bool) {
	n := len(j.logits)
	bySlice = make([][]SliceError, n)
	judged := j.judged(t.total, t.samples)
	for i, s := range j.slices {
		x := &t.total[n+i]
		list := make([]float64, t.samples)
		scale := float64(t.samples) / (x.signal + nsrFloor*float64(t.samples))
		for k := range list {
			list[k] = t.noise[k][n+i] * scale
		}
		e := t.blocks.Estimate(list)
		r := SliceError{Name: s.Name, Output: j.g.Value(j.g.Outputs[s.Output]).Name, Axis: s.Axis, From: s.From, To: s.To, NSR: e.Mean,
			NSRError: figure(e.Error), Signal: true, Judged: judged[n+i], Part: s.Part, Correlation: figure(x.correlation())}
		if shape := j.g.Value(j.g.Outputs[s.Output]).Shape; s.Period > 0 && (s.Axis >= len(shape) || shape[s.Axis].N != int64(s.Period)) {
			r.Period = s.Period
		}
		if x.codes != nil {
			r.Levels = len(x.codes.of)
			r.Codes = float64(r.Levels) / mostLevels
		}
		switch {
		case !x.hasSignal(s.Share, t.samples) || x.varies() <= steady:
			r.Signal, r.Finding = false, SignalNone
		case x.lost(e):
			r.Signal, r.Finding, r.Judged = false, SignalLost, true
		}
		bySlice[s.Output] = append(bySlice[s.Output], r)
	}
	for k := range n {
		if j.float && j.integer(k) && t.total[k].n > 0 {
			bySlice[k] = append(bySlice[k], j.mismatches(k, t))
		}
	}
	return bySlice, judged[:n]
}

// mostDiffer is from which share of mismatches on an integer output is lost. Below it says so itself:
// indices of numbers that are nearly equal change places.
const mostDiffer = 0.5

// mismatches is the verdict on an integer output beside others that are float.
func (j *Judge) mismatches(k int, t *tally) SliceError {
	list := make([]float64, t.samples)
	for i := range list {
		list[i] = t.noise[i][k] * float64(t.samples) / t.total[k].signal
	}
	e, name := t.blocks.Estimate(list), j.g.Value(j.g.Outputs[k]).Name
	r := SliceError{Name: name, Output: name, NSR: e.Mean, NSRError: figure(e.Error), Signal: true, Mismatch: true}
	if e.Mean >= mostDiffer {
		r.Signal, r.Judged, r.Finding = false, true, SignalLost
	}
	return r
}

// Mismatches are those of a list that stand for integer outputs beside float ones.
func Mismatches(list []SliceError) []SliceError {
	return slices.DeleteFunc(slices.Clone(list), func(s SliceError) bool { return !s.Mismatch })
}

// list is the errors of all slices of all outputs.
func (j *Judge) list(t *tally) (all []SliceError) {
	by, _ := j.verdicts(t)
	for _, list := range by {
		all = append(all, list...)
	}
	return all
}

// bySample is the loss of every sample: the largest over the outputs, or that of a slice, which is named, where its mean is larger.
func (j *Judge) bySample(losses Losses, w weighed) (list []float64, name string) {
	n := len(j.logits)
	whole := make(Losses, len(losses))
	for i, row := range losses {
		whole[i] = row[:n]
	}
	list = whole.PerSample()
	worst := NewEstimate(list).Mean
	for i := n; i < len(w.of); i++ {
		if l := losses.of(i); w.of[i] > 0 && NewEstimate(l).Mean > worst {
			list, worst, name = l, NewEstimate(l).Mean, j.slices[i-n].Name
		}
	}
	return list, name
}

// WorstPart names the part of an output that losses are largest of; empty where that is a whole output. The losses are an Evaluator's for
// the same graph and parts.
func (j *Judge) WorstPart(losses Losses) (name string) {
	n := len(j.logits)
	var worst float64
	for i := range min(losses.outputs(), n+len(j.slices)) {
		x := NewEstimate(losses.of(i)).Mean
		if i < n || x <= worst {
			worst = max(worst, x)
			continue
		}
		worst, name = x, j.slices[i-n].Name
	}
	return name
}

// lost reports whether nothing is left of a slice that varies in float: its error is as large as itself, its values are all one, or they
// have nothing to do with those of float.
func (s *sum) lost(e Estimate) bool {
	const (
		all       = 0.99
		most      = 0.5  // with an error that reaches 1
		visible   = 1e-4 // variance over mean square: less is rounding of something else
		few       = 8
		unrelated = 0.2
	)
	switch {
	case e.Mean >= all, e.Mean >= most && finite(e.Error) && e.Mean+2*e.Error >= 1:
		return true
	case s.varies() < visible || s.n < few:
		return false
	}
	return s.lo == s.hi || s.correlation()+1/math.Sqrt(float64(s.n)) < unrelated
}
