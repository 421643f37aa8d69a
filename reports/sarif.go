package reports

import (
	"io"
	"path/filepath"
	"slices"

	"qwb/analysis"
	"qwb/internal/strictjson"
)

// Remark is something that a check says about a file. Level is error, warning or note; Fix may be empty.
type Remark struct {
	Rule, Level string
	File        string // that it is about, as it was named
	At          string // operator, tensor or check in it; may be empty
	Text, Fix   string
}

// Levels of a Remark, as SARIF calls them.
const (
	RemarkError   = "error"
	RemarkWarning = "warning"
	RemarkNote    = "note"
)

type sarifText struct {
	Text string `json:"text"`
}

type sarifRule struct {
	ID    string    `json:"id"`
	Short sarifText `json:"shortDescription"`
	Help  sarifText `json:"help"`
}

type sarifResult struct {
	Rule      string          `json:"ruleId"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
	} `json:"physicalLocation"`
	Logical []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifLogical struct {
	Name string `json:"fullyQualifiedName"`
	Kind string `json:"kind"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"semanticVersion"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	Results []sarifResult `json:"results"`
}

// SARIF writes remarks in the Static Analysis Results Interchange Format 2.1.0 (OASIS), as code hosts show them beside a change. Files are
// named relative to the folder that the command ran in.
func SARIF(w io.Writer, version string, remarks []Remark) error {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "qwb", Version: version, Rules: []sarifRule{}}
	for _, r := range remarks {
		if !slices.ContainsFunc(run.Tool.Driver.Rules, func(known sarifRule) bool { return known.ID == r.Rule }) {
			help := r.Fix
			if help == "" {
				help = r.Rule
			}
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{r.Rule, sarifText{r.Rule}, sarifText{help}})
		}
		text := r.Text
		if r.Fix != "" {
			text += "; fix: " + r.Fix
		}
		var at sarifLocation
		at.Physical.Artifact.URI = filepath.ToSlash(r.File)
		if r.At != "" {
			at.Logical = []sarifLogical{{r.At, "element"}}
			text = r.At + ": " + text
		}
		run.Results = append(run.Results, sarifResult{r.Rule, r.Level, sarifText{text}, []sarifLocation{at}})
	}
	text, err := strictjson.Indented(struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}{"https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json", "2.1.0", []sarifRun{run}})
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// Remarks are the checks of a gate that did not pass, and its headlines.
func (g *GateChecks) Remarks() (list []Remark) {
	for i := range g.Checks {
		c := &g.Checks[i]
		level, ok := map[string]string{analysis.GateFailed: RemarkError, analysis.GateNoted: RemarkNote}[c.Verdict]
		if !ok {
			continue
		}
		value, limit := gateCells(c)
		text := c.Verdict
		if value != "" {
			text = value + ", limit " + limit
		}
		if c.Note != "" {
			text += ": " + c.Note
		}
		list = append(list, Remark{Rule: "gate/" + c.Check, Level: level, File: g.Subject, Text: text})
	}
	for _, line := range g.Headlines {
		list = append(list, Remark{Rule: "gate/headline", Level: RemarkWarning, File: g.Subject, Text: line})
	}
	return list
}
