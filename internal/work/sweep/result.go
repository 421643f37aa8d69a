package sweep

import (
	"encoding/json"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/internal/work/journal"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// Row is one plan that was tried.
type Row struct {
	Platform    string       `json:"platform"`
	Observer    tqc.Observer `json:"observer"`
	Granularity string       `json:"granularity"`
	Dispatcher  string       `json:"dispatcher"`
	Format      string       `json:"format"`
	// The centred NSR of the outputs on the held-out samples; of the output where it is largest.
	analysis.NSR
	*Answered
	// Integers are the integer outputs beside float ones: the NSR of each is the share of its elements that differ.
	Integers []analysis.SliceError `json:"integer_outputs,omitempty"`
	// Behind is by how much the NSR is larger than that of the plan chosen, over the same samples, and its standard error.
	Behind      float64  `json:"behind"`
	BehindError *float64 `json:"behind_error"`
	// Rank is from 1; rows with the same rank cannot be told apart from the best of them. See analysis.Rank.
	Rank    int            `json:"rank"`
	Cost    *analysis.Cost `json:"cost"`
	MACs    float64        `json:"macs_int8"`         // share of the multiply-accumulates that run on integers
	Bytes   int64          `json:"constant_bytes"`    // of all formats
	Default bool           `json:"default,omitempty"` // calibrate does this by itself on the platform
	Chosen  bool           `json:"chosen,omitempty"`
}

// Answered is how often a plan answers right, where samples have labels.
type Answered struct {
	Top1      int     `json:"top1"`
	Drop      float64 `json:"drop"` // against float, in percentage points of top-1, and its standard error from the pairs
	DropError float64 `json:"drop_error"`
	Flips     int     `json:"flips"`
}

// Skipped is a combination that there is no plan for.
type Skipped struct {
	Platform    string       `json:"platform"`
	Observer    tqc.Observer `json:"observer"`
	Granularity string       `json:"granularity"`
	Dispatcher  string       `json:"dispatcher"`
	Format      string       `json:"format"`
	Why         string       `json:"why"`
}

// Result is what sweep --json prints.
type Result struct {
	Rows    []Row     `json:"rows"` // the best first
	Skipped []Skipped `json:"skipped"`
	Plan    string    `json:"plan"`    // empty where none was written
	Command string    `json:"command"` // the qwb calibrate that gives the scales of the plan chosen
	Samples int       `json:"samples"`
	HeldOut int       `json:"held_out"`
	// HeldOutKind is what the samples that judge are worth: analysis.HeldOutUnseen, or "kept", a hint.
	HeldOutKind string `json:"held_out_kind"`
	// Mismatches says that no output is float: NSRs are shares of elements that differ.
	Mismatches  bool          `json:"mismatches,omitempty"`
	FloatTop1   *int          `json:"float_top1,omitempty"` // on the held-out samples
	Seconds     float64       `json:"seconds"`
	Calibration float64       `json:"calibration_seconds"` // what one calibration on all samples takes, from what it took here
	Warnings    []tqc.Warning `json:"warnings"`
}

// HeldOutKept says that plans were judged on the samples that statistics keep: their scales were fitted on these samples.
const HeldOutKept = "kept"

// Evidence is what a calibration was chosen on, as the plan keeps it: the plan was calibrated on the samples that are not held out, and
// its error is that on the others. The scales that the plan holds come from both.
type Evidence struct {
	Sweep       int    `json:"sweep"` // how many plans were tried
	Samples     int    `json:"samples"`
	HeldOut     int    `json:"held_out"`
	HeldOutKind string `json:"held_out_kind"`
	analysis.NSR
	*Answered
	Confirmed bool `json:"confirmed"` // there were enough held-out samples
}

// Figures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var Figures = journal.WithSearch(func(r *Result) json.RawMessage {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Chosen })
	if i < 0 {
		return journal.Object(struct {
			Rows int `json:"rows"`
		}{len(r.Rows)})
	}
	return journal.Picked[Row]("platform observer granularity rank nsr nsr_error top1 drop drop_error")(&r.Rows[i])
}, (*Result).Search)

// Search is what the sweep found, as pages show it.
func (r *Result) Search() *reports.Search {
	s := &reports.Search{Command: "sweep", Metric: analysis.ErrorName(r.Mismatches), Cost: "bytes"}
	for i := range r.Rows {
		x := &r.Rows[i]
		p := reports.SearchPoint{Label: fmt.Sprintf("%s, %s, per %s", x.Platform, x.Observer, x.Granularity), Metric: x.NSR.NSR,
			Error: x.NSRError, Chosen: x.Chosen, Tied: x.Rank == r.Rows[0].Rank}
		if x.Format != FormatDefault && x.Format != "" {
			p.Label += ", " + x.Format
		}
		if x.Cost != nil {
			p.Cost = float64(x.Cost.TotalBytes())
		}
		p.Pareto = true
		for k := range r.Rows {
			if y := &r.Rows[k]; y.Cost != nil && float64(y.Cost.TotalBytes()) <= p.Cost && y.NSR.NSR < p.Metric {
				p.Pareto = false
			}
		}
		s.Points = append(s.Points, p)
	}
	return s
}
