package qwb

import (
	"encoding/json"
	"fmt"
	"strings"

	"qwb/analysis"
	"qwb/quantizer/decision"
	"qwb/reports"
)

// params are those of a decision by tune: what to do it again with, but for data that were named. nil for the defaults.
func (o *TuneOptions) params(r *TuneResult) (json.RawMessage, error) {
	p := decision.Tuning{Force: o.Force, AllowFP32: o.AllowFP32, Profile: o.Profile}
	if len(o.Data.Paths) == 0 {
		p.Samples = o.Data.Samples
	}
	limit := r.Budget
	if work, err := parseBudget(o.Budget); err == nil && work.Limit > 0 {
		limit = work.Limit
	}
	if limit > 0 {
		p.Budget = fmt.Sprintf("%.0f forwards", limit)
	}
	b, err := json.Marshal(p)
	if err != nil || string(b) == "{}" {
		return nil, err
	}
	return b, nil
}

// TuneEvidence is what a decision by tune was made on, as the plan keeps it.
type TuneEvidence struct {
	Samples     int          `json:"samples"`
	HeldOut     int          `json:"held_out"`
	HeldOutKind string       `json:"held_out_kind"`
	Before      analysis.NSR `json:"before"`
	After       analysis.NSR `json:"after"`
	Change      float64      `json:"change"`
	ChangeError *float64     `json:"change_error"`
	Confirmed   bool         `json:"confirmed"`
	Steps       int          `json:"steps,omitempty"` // that keep the float function, and what they leave of it
	FloatNSR    *float64     `json:"float_nsr,omitempty"`
	OnIntegers  *OnIntegers  `json:"on_integers,omitempty"` // plans from before have none
	// Methods are those that were tried, in this order. Plans from before have none.
	Methods []MethodEvidence `json:"methods,omitempty"`
}

// MethodEvidence is what came of one method: operators that it was tried at and kept at, the error of the outputs before and after.
type MethodEvidence struct {
	Name   string  `json:"name"`
	Tried  int     `json:"tried"`
	Kept   int     `json:"kept"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Note   string  `json:"note,omitempty"`
}

func tuneEvidence(r *TuneResult) *TuneEvidence {
	e := &TuneEvidence{Samples: r.Samples, HeldOut: r.HeldOut, HeldOutKind: r.HeldOutKind, Before: r.Before, After: r.After, Change: r.Change,
		ChangeError: r.ChangeError, Confirmed: r.Confirmed, Steps: r.Steps, FloatNSR: r.FloatNSR, OnIntegers: &r.OnIntegers}
	for _, m := range r.Methods {
		e.Methods = append(e.Methods, MethodEvidence{m.Name, len(m.Layers), m.Kept, m.Before.NSR, m.After.NSR, m.Note})
	}
	return e
}

// Story tells in lines what a decision by tune or by a search did and what that is worth; nothing for other decisions.
func (l *Logged) Story() []string {
	if l.By == decision.BySearch && l.Evidence != nil {
		var e searchEvidence
		if json.Unmarshal(l.Evidence, &e) != nil {
			return nil
		}
		return e.story()
	}
	var e TuneEvidence
	if l.By != decision.ByTune || l.Evidence == nil || json.Unmarshal(l.Evidence, &e) != nil {
		return nil
	}
	var lines []string
	for _, m := range e.Methods {
		lines = append(lines, m.String())
	}
	var p decision.Tuning
	if l.Params != nil && json.Unmarshal(l.Params, &p) == nil && p.Budget != "" {
		lines = append(lines, "budget: "+p.Budget)
	}
	if e.FloatNSR != nil {
		lines = append(lines, fmt.Sprintf("%d steps keep the float function: NSR %.2g against the model", e.Steps, *e.FloatNSR))
	}
	if e.OnIntegers != nil {
		lines = append(lines, e.OnIntegers.Words...)
	}
	word := "confirmed"
	if !e.Confirmed {
		word = "not confirmed"
	}
	return append(lines, fmt.Sprintf("NSR of the outputs %s before, %s after; change %s on %d held-out samples (%s) of %d: %s", reports.WithError(e.Before.NSR, e.Before.NSRError),
		reports.WithError(e.After.NSR, e.After.NSRError), reports.WithError(e.Change, e.ChangeError), e.HeldOut, e.HeldOutKind, e.Samples, word))
}

// String is one line about a method.
func (m MethodEvidence) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: kept at %d of %d operators", m.Name, m.Kept, m.Tried)
	if m.Kept > 0 {
		fmt.Fprintf(&b, ", NSR of the outputs %.3g to %.3g", m.Before, m.After)
	}
	if m.Note != "" {
		fmt.Fprintf(&b, " (%s)", m.Note)
	}
	return b.String()
}

// Lines is one line about each method of a tuning.
func (r *TuneResult) Lines() []string {
	var lines []string
	for _, m := range tuneEvidence(r).Methods {
		lines = append(lines, m.String())
	}
	return lines
}

// WithError writes a figure with its error, where there is one.
func WithError(x float64, err *float64) string { return reports.WithError(x, err) }
