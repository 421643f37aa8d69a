package main

import (
	"io"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
	"qwb/reports"
)

// printLanguageLayers ranks the matrices of a language model and prints the result.
func (e *env) printLanguageLayers(c *cobra.Command, file string, o *options.Analyze) error {
	if err := e.checkpointsOnly(c); err != nil {
		return err
	}
	t, err := o.Language()
	if err != nil {
		return err
	}
	r, _, err := e.project(file, "").AnalyzeText(c.Context(), t)
	if err != nil {
		return err
	}
	if o.HTML != "" {
		if _, err := qwb.WriteFile(qwb.OS{}, o.HTML, func(w io.Writer) error { return reports.LanguageLayersHTML(w, r) }); err != nil {
			return err
		}
	}
	return e.print(o.JSON, r, nil, func() error { return reports.LanguageLayersText(e.stdout, r) })
}
