package main

import (
	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
	"qwb/reports"
)

// printText scores a text file and prints the result.
func (e *env) printText(c *cobra.Command, file string, o *options.Eval) error {
	if err := e.checkpointsOnly(c); err != nil {
		return err
	}
	t, err := o.Language(c.Flags().Changed("mode"))
	if err != nil {
		return err
	}
	if o.JSON {
		t.Tokens = qwb.ListedTokens
	}
	r, _, err := e.project(file, "").EvalText(c.Context(), t)
	if err != nil {
		return err
	}
	return e.print(o.JSON, r, nil, func() error { return reports.LanguageText(e.stdout, r) })
}
