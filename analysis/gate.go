package analysis

import (
	"fmt"
	"math"
	"sort"
)

// Verdicts of a GateCheck.
const (
	GatePassed = "passed"
	GateNoted  = "passed with a note"
	GateFailed = "failed"
)

// GateCheck is one limit of a gate.
type GateCheck struct {
	Check   string   `json:"check"`
	Verdict string   `json:"verdict"`
	Value   *float64 `json:"value,omitempty"`
	Error   *float64 `json:"error,omitempty"` // standard error of the value
	Limit   *float64 `json:"limit,omitempty"`
	Unit    string   `json:"unit,omitempty"` // pp, %
	Samples int      `json:"samples,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// gateSamples is the smallest number of samples whose spread says what noise is.
const gateSamples = 16

// manySamples are more than anybody has.
const manySamples = 1 << 40

// fewEnough are samples that somebody might have; near the limit their number is beyond all bounds and says nothing.
const fewEnough = 10_000

// Gate holds a measured value against an upper limit. A value at or below the limit passes. One above it fails, unless the difference lies
// within the noise of the samples: the lower confidence limit (ClaimRisk, one-sided) is not above the limit, and there are at least 16
// samples. Then it passes with a note; strict lets nothing above the limit pass. A value that passes has a note too where the samples do
// not show that the limit holds: its upper confidence limit is above. size, unless it is 0, is by how much one sample that changes differs
// from one that does not: samples of which none or few changed do not show that others do not (Guarded).
func Gate(check string, e Estimate, size, limit float64, unit string, strict bool) GateCheck {
	c := GateCheck{Check: check, Value: figure(e.Mean), Error: figure(e.Error), Limit: &limit, Unit: unit, Samples: e.N}
	lower, upper := e.Lower(ClaimRisk), e.guarded(size).Upper(ClaimRisk)
	text := func(x float64) string {
		if unit != "" {
			return fmt.Sprintf("%.2f %s", x, unit)
		}
		return fmt.Sprintf("%.3g", x)
	}
	switch {
	case math.IsNaN(e.Mean):
		c.Verdict, c.Note = GateFailed, "it is not defined on these samples"
	case e.Mean <= limit && upper <= limit:
		c.Verdict = GatePassed
	case e.Mean <= limit:
		c.Verdict = GateNoted
		c.Note = fmt.Sprintf("undecided: %s ± %s against %s; %d samples decide differences of about %s", text(e.Mean),
			text(e.Error), text(limit), e.N, text(upper-e.Mean))
		if math.IsInf(upper, 1) {
			c.Note = "one sample shows nothing"
		}
		short := func(n int) bool {
			return Estimate{e.Mean, e.Error * math.Sqrt(float64(e.N)/float64(n)), n}.guarded(size).Upper(Attempt(0)) > limit
		}
		if n := e.N + sort.Search(manySamples, func(i int) bool { return !short(e.N + i) }); n > e.N && n <= fewEnough {
			c.Note += fmt.Sprintf("; about %d samples would decide this one", n)
		}
	case strict || lower > limit:
		c.Verdict, c.Note = GateFailed, fmt.Sprintf("above the limit by %s", text(e.Mean-limit))
	case e.N < gateSamples:
		c.Verdict, c.Note = GateFailed, fmt.Sprintf("above the limit by %s; %d samples are too few to call that noise", text(e.Mean-limit), e.N)
	default:
		c.Verdict, c.Note = GateNoted, fmt.Sprintf("above the limit by %s, which is within the noise of %d samples (with 95 %% the value "+
			"lies above %s)", text(e.Mean-limit), e.N, text(lower))
	}
	return c
}

// GateReport is what gate --json prints.
type GateReport struct {
	A       string      `json:"a"`
	B       string      `json:"b,omitempty"`
	Held    bool        `json:"held"`
	Strict  bool        `json:"strict"`
	Samples int         `json:"samples"`
	Metric  string      `json:"metric,omitempty"`
	Paired  bool        `json:"paired"` // both were measured on the same samples, one by one
	Checks  []GateCheck `json:"checks"`
	// Headlines say of A what counts more than the figures; see Headlines.
	Headlines []string `json:"headlines,omitempty"`
	Seconds   float64  `json:"seconds"`
}
