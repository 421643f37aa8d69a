package main

import (
	"io"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/reports"
)

// printLanguageLayers ranks the matrices of a language model and prints the result.
func (e *env) printLanguageLayers(c *cobra.Command, file string, o qwb.TextOptions, html string, asJSON bool) error {
	for _, name := range []string{"data", "preprocess", "graphwise", "statistical", "explain", "split", "png", "mem"} {
		if c.Flags().Changed(name) {
			return usagef("--%s is not for a checkpoint", name)
		}
	}
	switch {
	case o.Text == "":
		return usagef("analyze of a checkpoint needs --text")
	case !o.Quantizes():
		return usagef("analyze of a checkpoint needs --group-size, --bits or --method: how to quantize its weights")
	}
	if err := o.Check(); err != nil {
		return err
	}
	r, _, err := e.project(file, "").AnalyzeText(c.Context(), o)
	if err != nil {
		return err
	}
	if html != "" {
		if _, err := qwb.WriteFile(qwb.OS{}, html, func(w io.Writer) error { return reports.LanguageLayersHTML(w, r) }); err != nil {
			return err
		}
	}
	if asJSON {
		return e.printJSON(r)
	}
	return reports.LanguageLayersText(e.stdout, r)
}
