package main

import (
	"slices"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/reports"
)

// addTexts adds the flags of commands that read a text.
func addTexts(c *cobra.Command, o *qwb.TextOptions) {
	c.Flags().StringVar(&o.Text, "text", "", "text `FILE`, one sequence per line")
	addLanguage(c, &o.LanguageOptions)
	underHeading(c, helpLanguage, append([]string{"text"}, languageFlags...)...)
}

// textsOnly refuses the flags that are for checkpoints.
func textsOnly(c *cobra.Command) error {
	for _, name := range slices.Concat([]string{"text", "against"}, languageFlags) {
		if c.Flags().Lookup(name) != nil && c.Flags().Changed(name) {
			return usagef("--%s is for a checkpoint", name)
		}
	}
	return nil
}

// printText scores a text file and prints the result.
func (e *env) printText(c *cobra.Command, file string, o qwb.TextOptions, asJSON bool) error {
	for _, name := range []string{"data", "preprocess", "labels", "label-offset", "profile", "max-drop", "batch"} {
		if c.Flags().Changed(name) {
			return usagef("--%s is not for a checkpoint", name)
		}
	}
	if o.Text == "" {
		return usagef("eval of a checkpoint needs --text")
	}
	if err := o.Check(); err != nil {
		return err
	}
	if asJSON {
		o.Tokens = qwb.ListedTokens
	}
	r, _, err := e.project(file, "").EvalText(c.Context(), o)
	if err != nil {
		return err
	}
	if asJSON {
		return e.printJSON(r)
	}
	return reports.LanguageText(e.stdout, r)
}
