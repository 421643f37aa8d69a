package main

import (
	"cmp"
	"io"
	"path/filepath"
	"strings"

	"qwb"
	"qwb/analysis"
	"qwb/reports"
)

// writeVerification writes the report of a verification as HTML.
func writeVerification(path, planFile string, v *analysis.Verification) error {
	title := cmp.Or(strings.TrimSuffix(filepath.Base(planFile), qwb.PlanSuffix), planFile)
	_, err := qwb.WriteFile(qwb.OS{}, path, func(w io.Writer) error { return reports.VerificationHTML(w, title, v) })
	return err
}
