package tune

import "qwb/analysis"

// Step is what came of one proposer's proposals for one operator.
type Step struct {
	By     string `json:"by"` // what made the best of them
	Trials int    `json:"trials"`
	Kept   bool   `json:"kept"`
	Why    string `json:"why,omitempty"` // it was not kept
	// Change is by how much the best of them changes the NSR at the operator's own output on the held-out samples, everything in front of it
	// quantized and tuned: the mean over the samples, paired, with its standard error.
	Change      float64  `json:"change"`
	ChangeError *float64 `json:"change_error"`
}

// measured notes what the best of a step's trials changes. A change that is not finite, which only outputs that are not give, is none: JSON
// has no such numbers.
func (s *Step) measured(e analysis.Estimate) {
	if e.Mean-e.Mean == 0 {
		s.Change, s.ChangeError = e.Mean, analysis.NewSpread(e).NSRError
	}
}

// better reports whether a change lowers an error more than another, which may be no number.
func better(a, b analysis.Estimate) bool {
	return a.Mean < b.Mean || b.Mean != b.Mean && a.Mean == a.Mean
}

// Layer is what a method did to one operator.
type Layer struct {
	Node string `json:"node"`
	Kept bool   `json:"kept"`          // something was
	Why  string `json:"why,omitempty"` // nothing was kept
	// Change is that of all that was kept together; where nothing was, of the best that was tried. See Step.
	Change      float64  `json:"change"`
	ChangeError *float64 `json:"change_error"`
	Tried       []Step   `json:"tried"`
}

// conclude sums the steps up; all is the change of what was kept.
func (l *Layer) conclude(all analysis.Estimate) {
	var best *Step
	for i := range l.Tried {
		s := &l.Tried[i]
		l.Kept = l.Kept || s.Kept
		if best == nil || s.Change < best.Change {
			best = s
		}
	}
	switch {
	case l.Kept:
		var s Step
		s.measured(all)
		l.Change, l.ChangeError = s.Change, s.ChangeError
	case best != nil:
		l.Why, l.Change, l.ChangeError = best.Why, best.Change, best.ChangeError
	default:
		l.Why = "nothing was proposed"
	}
}

// Report is the outcome of a method. Before and After are of the whole graph on the held-out samples; see Judge.
type Report struct {
	Name   string       `json:"name"`
	Layers []Layer      `json:"layers"`
	Kept   int          `json:"kept"`
	Before analysis.NSR `json:"before"`
	After  analysis.NSR `json:"after"`
	// Change is the mean of after - before over the held-out samples, paired. Typical is by what factor the typical sample's error changes
	// (the geometric mean of after / before), TypicalError the standard error of its logarithm. Confirmed: see Judge.
	Change       float64  `json:"change"`
	ChangeError  *float64 `json:"change_error"`
	Typical      float64  `json:"typical"`
	TypicalError *float64 `json:"typical_error"`
	Confirmed    bool     `json:"confirmed"`
	Note         string   `json:"note,omitempty"`
	Failed       bool     `json:"failed,omitempty"` // with the note as its error
}

// kept counts the layers at which something was kept.
func (r *Report) kept() (n int) {
	for i := range r.Layers {
		if r.Layers[i].Kept {
			n++
		}
	}
	return n
}

// takenBack reports whether something was kept at an operator and nothing as a whole.
func (r *Report) takenBack() bool {
	for i := range r.Layers {
		for _, s := range r.Layers[i].Tried {
			if s.Kept && r.Kept == 0 {
				return true
			}
		}
	}
	return false
}
