package reports

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"qwb/analysis"
	"qwb/internal/plain"
)

// GateChecks is what a gate found: of what, against what, and each limit.
type GateChecks struct {
	Subject, Baseline string // baseline: empty for float
	Held              bool
	Samples           int
	Checks            []analysis.GateCheck
	Headlines         []string // what counts more than the figures
}

func (g *GateChecks) title() string {
	verdict := "failed"
	if g.Held {
		verdict = "passed"
		for _, c := range g.Checks {
			if c.Verdict == analysis.GateNoted {
				verdict = "passed with notes"
			}
		}
	}
	baseline := "float"
	if g.Baseline != "" {
		baseline = g.Baseline
	}
	return fmt.Sprintf("gate %s: %s against %s, %s", verdict, g.Subject, baseline, plain.Count(g.Samples, "sample"))
}

// cells are value and limit of a check.
func gateCells(c *analysis.GateCheck) (value, limit string) {
	write := func(x float64) string {
		if c.Unit != "" {
			return fmt.Sprintf("%.2f", x)
		}
		return small(x)
	}
	unit := strings.TrimSuffix(" "+c.Unit, " ")
	if c.Value != nil {
		if value = write(*c.Value); c.Error != nil && c.Unit == "" {
			value = WithError(*c.Value, c.Error)
		} else if c.Error != nil {
			value += " ± " + write(*c.Error)
		}
		value += unit
	}
	if c.Limit != nil {
		limit = Number(*c.Limit) + unit
	}
	return value, limit
}

// GateText writes the checks for a terminal.
func GateText(w io.Writer, g *GateChecks) error {
	t := &tables{w: w}
	t.begin(g.title(), "check", "verdict", "value", "limit", "")
	for i := range g.Checks {
		c := &g.Checks[i]
		value, limit := gateCells(c)
		t.row(c.Check, c.Verdict, value, limit, c.Note)
	}
	t.end()
	for _, line := range g.Headlines {
		t.printf("%s\n", plain.Text(line))
	}
	return t.err
}

// GateMarkdown writes the checks as GitHub shows them, in the summary of a job or a comment.
func GateMarkdown(w io.Writer, g *GateChecks) error {
	escape := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "`", "'")
	cell := func(s string) string { return escape.Replace(plain.Text(s)) }
	t := &tables{w: w}
	title := g.title()
	t.printf("### %s\n\n| check | verdict | value | limit | note |\n|---|---|---|---|---|\n", cell(strings.ToUpper(title[:1])+title[1:]))
	for i := range g.Checks {
		c := &g.Checks[i]
		value, limit := gateCells(c)
		t.printf("| %s | %s | %s | %s | %s |\n", cell(c.Check), cell(c.Verdict), value, limit, cell(c.Note))
	}
	for i, line := range g.Headlines {
		if i == 0 {
			t.printf("\n")
		}
		t.printf("- %s\n", cell(line))
	}
	return t.err
}

type junitSuites struct {
	XMLName  xml.Name   `xml:"testsuites"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Suite    junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
	Out      string      `xml:"system-out,omitempty"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// GateJUnit writes the checks in the XML that CI systems read: a test case for each limit. It holds no times.
func GateJUnit(w io.Writer, g *GateChecks) error {
	s := junitSuite{Name: plain.Text(g.Subject), Tests: len(g.Checks), Out: plain.Text(strings.Join(g.Headlines, "\n"))}
	for i := range g.Checks {
		c := &g.Checks[i]
		value, limit := gateCells(c)
		k := junitCase{Name: plain.Text(c.Check), Class: "qwb.gate",
			Out: plain.Text(strings.TrimSpace(fmt.Sprintf("%s %s", value, map[bool]string{true: "(limit " + limit + ")"}[limit != ""])))}
		switch c.Verdict {
		case analysis.GateFailed:
			s.Failures++
			k.Failure = &junitFailure{Message: plain.Text(c.Note), Type: "limit", Text: k.Out}
		case analysis.GateNoted:
			k.Out += "\nnote: " + plain.Text(c.Note)
		}
		s.Cases = append(s.Cases, k)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(junitSuites{Name: "qwb gate", Tests: s.Tests, Failures: s.Failures, Suite: s}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
