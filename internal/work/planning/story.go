package planning

import (
	"encoding/json"
	"fmt"
	"strings"

	"qwb/analysis"
	"qwb/internal/plain"
	"qwb/quantizer/decision"
	"qwb/reports"
)

// SearchEvidence is what a decision by a search was made on, as the plan keeps it. Plans from before have fewer keys.
type SearchEvidence struct {
	Samples     int                    `json:"samples"`
	Fit         *analysis.BudgetFigure `json:"fit"`
	HeldOut     *analysis.BudgetFigure `json:"held_out"`
	Confirmed   bool                   `json:"confirmed"`
	Evaluations int                    `json:"evaluations"`
	Before      float64                `json:"before"`
	After       float64                `json:"after"`
	Cost        *analysis.CostChange   `json:"cost,omitempty"`
}

// story is one line about a search.
func (e *SearchEvidence) story() []string {
	if e.HeldOut == nil {
		return []string{fmt.Sprintf("%.3g before, %.3g after on %s; not confirmed: nothing was held out", e.Before, e.After,
			plain.Count(e.Samples, "sample"))}
	}
	word := "confirmed"
	if !e.Confirmed {
		word = "not confirmed"
	}
	text := fmt.Sprintf("%.3g before; %s on %d held-out samples (%s) of %d", e.Before, reports.WithError(e.HeldOut.Value, e.HeldOut.Error),
		e.HeldOut.Samples, e.HeldOut.Kind, e.Samples)
	if e.HeldOut.Upper != nil {
		text += fmt.Sprintf(", limit %.3g", *e.HeldOut.Upper)
	}
	return []string{text + ": " + word}
}

// TuneEvidence is what a decision by tune was made on, as the plan keeps it.
type TuneEvidence struct {
	Samples     int                  `json:"samples"`
	HeldOut     int                  `json:"held_out"`
	HeldOutKind string               `json:"held_out_kind"`
	Before      analysis.NSR         `json:"before"`
	After       analysis.NSR         `json:"after"`
	Change      float64              `json:"change"`
	ChangeError *float64             `json:"change_error"`
	Confirmed   bool                 `json:"confirmed"`
	Steps       int                  `json:"steps,omitempty"` // that keep the float function, and what they leave of it
	FloatNSR    *float64             `json:"float_nsr,omitempty"`
	OnIntegers  *analysis.OnIntegers `json:"on_integers,omitempty"` // plans from before have none
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

// Story tells in lines what a decision by tune or by a search did and what that is worth; nothing for other decisions.
func (l *Logged) Story() []string {
	if l.By == decision.BySearch && l.Evidence != nil {
		var e SearchEvidence
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
	return append(lines, fmt.Sprintf("NSR of the outputs %s before, %s after; change %s on %d held-out samples (%s) of %d: %s",
		reports.WithError(e.Before.NSR, e.Before.NSRError),
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
