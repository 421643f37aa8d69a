package analysis

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is the mean of a quantity over samples, with the standard error of that mean.
type Estimate struct {
	Mean float64
	// Error is sqrt(sum((x-mean)^2) / (n*(n-1))), the standard error of the mean; +Inf for fewer than two samples, which tell nothing
	// about it.
	Error float64
	N     int
}

// NewEstimate returns the mean of the values and its standard error. Without values the mean is 0. The sums are added in the order
// of the values.
func NewEstimate(values []float64) Estimate {
	e := Estimate{N: len(values), Error: math.Inf(1)}
	if e.N == 0 {
		return e
	}
	n := float64(e.N)
	for _, x := range values {
		e.Mean += x
	}
	e.Mean /= n
	if e.N < 2 {
		return e
	}
	var squares float64
	for _, x := range values {
		squares += float64((x - e.Mean) * (x - e.Mean))
	}
	e.Error = math.Sqrt(squares / (n * (n - 1)))
	return e
}

// Paired returns the estimate of after[i] - before[i] over samples that were measured both ways. What both have in common, a sample
// that is hard for instance, drops out, so that its error is usually much smaller than those of the two means. The lists have the
// same length.
func Paired(before, after []float64) Estimate {
	d := make([]float64, len(before))
	for i := range d {
		d[i] = after[i] - before[i]
	}
	return NewEstimate(d)
}

// Below reports whether the mean lies below zero by more than times its standard error. Two times is what one comparison needs;
// Trials tells how many several need.
func (e Estimate) Below(times float64) bool { return e.Mean < -times*e.Error }

// Trials returns how many standard errors a difference must exceed where n of them are tried, so that chance alone passes one of
// them as seldom as it passes a single one at two standard errors (2.3 %, one-sided): the Bonferroni correction of the normal
// distribution. n below 1 counts as 1.
func Trials(n int) float64 {
	const single = 0.022750131948179212 // P(z > 2)
	return math.Sqrt2 * math.Erfinv(1-2*single/float64(max(n, 1)))
}

// Student is the number of standard errors that has for n samples the chance that so many have for a normal distribution.
func Student(times float64, n int) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	return quantile(n-1, distuv.UnitNormal.CDF(-times))
}

// SQNR is the signal-to-quantization-noise ratio in decibels, -10 log10(nsr); +Inf where there is no noise.
func SQNR(nsr float64) float64 { return -10 * math.Log10(nsr) }

// Spread stands beside a mean NSR: how sure it is, and the same in decibels.
type Spread struct {
	NSRError *float64 `json:"nsr_error"` // standard error of the NSR over the samples; null for fewer than two
	SQNR     *float64 `json:"sqnr_db"`   // -10 log10 of the NSR; null where there is no noise
}

// NewSpread returns what stands beside the mean of an estimated NSR.
func NewSpread(e Estimate) Spread { return Spread{figure(e.Error), figure(SQNR(e.Mean))} }

// figure is a number as JSON has it: nil where it is not finite.
func figure(x float64) *float64 {
	if !finite(x) {
		return nil
	}
	return &x
}

// NSR is a mean NSR with its standard error, as results print it.
type NSR struct {
	NSR float64 `json:"nsr"`
	Spread
}

// ErrorName is what the error of the outputs is called. Where none of them is float, it is no NSR: the share of elements that differ.
func ErrorName(mismatches bool) string {
	if mismatches {
		return "mismatches"
	}
	return "NSR"
}

// NewNSR returns the plain form of an estimate.
func NewNSR(e Estimate) NSR { return NSR{e.Mean, NewSpread(e)} }
