package reports

import (
	"encoding/json"
	"io"

	"qwb/analysis"
	"qwb/analysis/language"
	"qwb/reports/page"
)

// View is all that a page about a plan shows. Parts that are not known are nil; Missing has the command that finds them out.
type View struct {
	Version  string           `json:"version"` // of qwb
	Title    string           `json:"title"`
	Model    string           `json:"model"`
	Plan     string           `json:"plan"`
	Platform string           `json:"platform"`
	Verdict  *Verdict         `json:"verdict"`
	Report   *analysis.Report `json:"report"` // exactly as analyze --json prints it
	Picture  *Picture         `json:"picture"`
	Nodes    []NodeFigures    `json:"nodes"` // what the report does not have of operators
	// Calibrated are the tensors as calibration saw them, where the report has none: without moments, which are 0 here.
	Calibrated []analysis.TensorStatistics `json:"calibrated,omitempty"`
	// Decisions are those of plan log --json.
	Decisions any     `json:"decisions"`
	Search    *Search `json:"search"` // the last search or sweep
	// Stale says that the report is of another state of the plan.
	Stale   bool              `json:"stale"`
	Missing map[string]string `json:"missing,omitempty"` // by the JSON name of the part
	Whys    map[string]string `json:"whys,omitempty"`    // what the settings' "why" mean, in words
}

// Verdict says how good the plan is, in a few figures.
type Verdict struct {
	// Metric and the figures below it are of the last eval of the plan; the name is empty where there was none.
	Metric    string   `json:"metric"`
	Percent   bool     `json:"percent"`    // shares of 1; the drop is in percentage points
	Float     *float64 `json:"float"`      // the score of the float model
	Quantized *float64 `json:"quantized"`  // and of the plan
	Drop      *float64 `json:"drop"`       // how much worse the plan is
	DropError *float64 `json:"drop_error"` // paired standard error of Drop
	Flips     *int     `json:"flips"`      // predictions that changed
	Scored    int      `json:"scored"`     // samples of the metric
	Profile   string   `json:"profile"`    // of the integers, where they were run
	// Shift is by how much another label offset is larger that makes ShiftRight of the answers correct, many more than now; 0: there is none.
	Shift      int     `json:"shift,omitempty"`
	ShiftRight int     `json:"shift_right,omitempty"`
	Budget     *Budget `json:"budget"`
	*analysis.NSR
	Centred bool `json:"centred"` // the NSR is of class scores without their mean
	// Mismatches says that no output is float: the NSR is the share of the elements that differ, and there is no Level.
	Mismatches bool   `json:"mismatches,omitempty"`
	Output     string `json:"output"`  // at which the NSR is the largest
	Level      string `json:"level"`   // what the NSR usually means: "small", "visible" or "large"
	Samples    int    `json:"samples"` // of the NSR
	Bytes      *Bytes `json:"size_bytes"`
	Work       []Work `json:"work"` // multiply-accumulates by format, the most first
}

// LevelOf says in a word what an NSR of the outputs usually means for the accuracy of a network; docs/reports.md has the rule of thumb.
func LevelOf(nsr float64) string {
	switch {
	case nsr < 0.01:
		return "small"
	case nsr <= 0.1:
		return "visible"
	}
	return "large"
}

// Budget is what a search was to hold.
type Budget struct {
	Metric string   `json:"metric"`
	Limit  float64  `json:"limit"` // what Value is held to
	Value  *float64 `json:"value"` // what was measured, in the unit of Limit
	Error  *float64 `json:"error"` // standard error of Value
	Met    *bool    `json:"met"`
}

// Bytes are those of constants: as the float model stores them, and as the plan does.
type Bytes struct {
	Float     int64 `json:"float"`
	Quantized int64 `json:"quantized"`
}

// Work is the part of the multiply-accumulates that is done in one format.
type Work struct {
	Format string  `json:"format"`
	MACs   int64   `json:"macs"`  // of one sample
	Share  float64 `json:"share"` // of all, 0 to 1
}

// NodeFigures are what is known of one operator beside the report. nil: not known.
type NodeFigures struct {
	Node string `json:"node"`
	// Saturation is the share of neighbouring products that leave 16 bits for some input, on processors without VNNI.
	Saturation *float64 `json:"saturation,omitempty"`
	// Gain is by how much the NSR of the outputs is expected to fall by the advice for the operator.
	Gain *float64 `json:"gain,omitempty"`
	Dead *int     `json:"dead_channels,omitempty"`
}

// Search is what a search or a sweep found: choices by their error and their cost.
type Search struct {
	Command string        `json:"command"`
	Metric  string        `json:"metric"`  // of the error: "NSR", "top-1 drop"
	Percent bool          `json:"percent"` // errors are percentage points
	Cost    string        `json:"cost"`    // what is to be small: "MACs in FP32"
	Budget  *float64      `json:"budget"`  // on the error
	Points  []SearchPoint `json:"points"`
}

// SearchPoint is one choice.
type SearchPoint struct {
	Label  string   `json:"label"`
	Metric float64  `json:"metric"` // the error, in the unit of the search
	Error  *float64 `json:"error"`  // standard error of the metric
	Cost   float64  `json:"cost"`   // what Search.Cost says
	Pareto bool     `json:"pareto"` // none has a smaller error at a smaller cost
	Chosen bool     `json:"chosen"`
	Tied   bool     `json:"tied"`           // cannot be told from float, or from the best
	FP32   []string `json:"fp32,omitempty"` // operators that it keeps in float
	// Command makes this choice the plan's.
	Command string `json:"command,omitempty"`
}

// HTML writes the view as one file that needs nothing else. The report stands in it as JSON in the element "report", the rest in "view".
func (v *View) HTML(w io.Writer) error {
	rest := *v
	rest.Report = nil
	return writePage(w, v.Title+": quantization report", "report.js", block{"report", v.Report}, block{"view", &rest})
}

// VerificationHTML writes a verification as one file that needs nothing else. The whole of it stands in the file as JSON too, in the
// element "verification".
func VerificationHTML(w io.Writer, title string, v *analysis.Verification) error {
	return writePage(w, title+": verification", "verification.js", block{"verification", v})
}

// LanguageLayersHTML writes what quantizing each matrix of a language model does as one file that needs nothing else; the result stands in
// it as JSON too, in the element "report".
func LanguageLayersHTML(w io.Writer, r *language.Layers) error {
	return writePage(w, r.Model+": quantization report", "language_report.js", block{"report", r})
}

// block is a value that a page finds in the element of its id.
type block struct {
	id    string
	value any
}

// writePage writes one file with a page and the values that it shows.
func writePage(w io.Writer, title, entry string, blocks ...block) error {
	d := page.Document{Title: title, Entry: entry, Styles: []string{"graph.css", "flow.css"}}
	for _, b := range blocks {
		text, err := json.Marshal(b.value) // with <, > and & escaped
		if err != nil {
			return err
		}
		d.Data = append(d.Data, page.Data{ID: b.id, JSON: text})
	}
	return d.Write(w)
}
