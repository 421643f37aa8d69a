package analysis

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// ClaimRisk is the probability, at most, with which a claim about a budget may be wrong by chance: claims hold at 95 %, one-sided.
const ClaimRisk = 0.05

// Upper returns the one-sided upper confidence limit of the mean at 1 - risk, by Student's t with N-1 degrees of freedom; +Inf for fewer
// than two values, and for NaN in them.
func (e Estimate) Upper(risk float64) float64 {
	if e.N < 2 || math.IsNaN(e.Mean) || math.IsNaN(e.Error) {
		return math.Inf(1)
	}
	return e.Mean + quantile(e.N-1, risk)*e.Error
}

// Lower returns the one-sided lower confidence limit of the mean at 1 - risk; -Inf for fewer than two values.
func (e Estimate) Lower(risk float64) float64 {
	return -Estimate{Mean: -e.Mean, Error: e.Error, N: e.N}.Upper(risk)
}

// quantile is how many standard errors Student's t with so many degrees of freedom exceeds with probability risk.
func quantile(freedom int, risk float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(freedom)}.Quantile(1 - risk)
}

// CanFall reports whether the mean of n values of which some are known can still turn out to lie below zero, by Upper at this risk,
// whatever the others are. Those that serve it best are all alike, x: it is asked whether (S + rx)^2 (n-1+q^2) > q^2 n (Q + rx^2) for an x
// with S + rx < 0, r of them, where S and Q are the sums of the known values and of their squares, and q is the quantile.
func CanFall(known []float64, n int, risk float64) bool {
	if n < 2 {
		return false
	}
	var s, q float64
	for _, x := range known {
		s, q = s+x, q+x*x
	}
	r := float64(n - len(known))
	t := quantile(n-1, risk)
	t *= t
	c := (float64(n-1) + t) / (t * float64(n))
	if c*r > 1-1e-9 { // enough are left, if they are far enough below
		return true
	}
	return s < 0 && c*s*s/(1-c*r) > q*(1-1e-9)
}

// Attempt returns the risk that the n-th attempt (from 0) at one claim may take, so that all attempts together take at most ClaimRisk: half
// of what is left each time.
func Attempt(n int) float64 { return math.Ldexp(ClaimRisk, -(n + 1)) }

// Guarded returns the estimate of the mean of paired differences for a claim about it: two differences of the given size and opposite sign
// are added, so that samples among which nothing happened do not pass for certainty. With size 1 and differences of -1, 0 and 1 (an answer
// that became right, stayed, became wrong) this is the interval of Bonett and Price for paired proportions (Statistics in Medicine 31,
// 2012).
func Guarded(differences []float64, size float64) Estimate {
	return NewEstimate(append(append(make([]float64, 0, len(differences)+2), differences...), size, -size))
}

// guarded is Guarded of the differences that e estimates the mean of.
func (e Estimate) guarded(size float64) Estimate {
	if size == 0 || e.N < 2 {
		return e
	}
	n := float64(e.N)
	g := Estimate{Mean: e.Mean * n / (n + 2), N: e.N + 2}
	squares := e.Error*e.Error*n*(n-1) + n*e.Mean*e.Mean + 2*size*size
	g.Error = math.Sqrt((squares - (n+2)*g.Mean*g.Mean) / ((n + 2) * (n + 1)))
	return g
}
