package main

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"qwb/internal/options"
)

func newTarget(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "target",
		Short: "List the targets, print one as YAML, check a YAML file",
		Long: `A target describes an inference engine as a table: the operators it runs on integers and the conditions, the
quantization schemes, where Q/DQ pairs stand, the fused operators, and the rules for exported files.
--platform takes the name of a built-in target or a YAML file:

  qwb target show onnxruntime > mynpu.yaml     then change the name and the table
  qwb target check mynpu.yaml
  qwb calibrate model.onnx --data images/ --platform ./mynpu.yaml

docs/targets.md explains the keys.`,
	}
	c.AddCommand(newTargetList(e), newTargetShow(e), newTargetCheck(e))
	return c
}

func newTargetList(e *env) *cobra.Command {
	var asJSON bool
	return e.takes(&cobra.Command{
		Use:     "list",
		Short:   "List the built-in targets",
		Example: lines("qwb target list"),
		Args:    exactly(0, "no argument"),
		RunE: func(c *cobra.Command, args []string) error {
			list := e.project("", "").Catalog.ListTargets()
			if asJSON {
				return e.printJSON(list)
			}
			w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "platform\tquantizers stand\tactivations\tweights\tbias\tprofile\tthe engine's\tdoc")
			for _, t := range list {
				name := t.Name
				if t.Foreign {
					name += " (import only)"
				}
				known, doc := "not known", t.Doc
				if t.EngineKnown {
					known = "compared"
				}
				if t.Experimental != "" {
					doc += "; EXPERIMENTAL: " + t.Experimental
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, t.Placement, t.Activation, t.Weight, t.Bias, t.Profile, known, doc)
			}
			return w.Flush()
		},
	}, options.JSON(&asJSON))
}

func newTargetShow(e *env) *cobra.Command {
	var asJSON bool
	return e.takes(&cobra.Command{
		Use:     "show NAME",
		Short:   "Print a target as YAML",
		Example: lines("qwb target show onnxruntime"),
		Args:    exactly(1, "one platform"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return options.PlatformsHere(e.catalog()), cobra.ShellCompDirectiveDefault // files of platforms elsewhere too
		},
		RunE: func(c *cobra.Command, args []string) error {
			t, err := e.project("", "").KnownTarget(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return e.printJSON(t)
			}
			_, err = e.stdout.Write(t.YAML())
			return err
		},
	}, options.JSON(&asJSON))
}

func newTargetCheck(e *env) *cobra.Command {
	var asJSON bool
	return e.takes(&cobra.Command{
		Use:               "check FILE",
		Short:             "Check the YAML file of a target: errors, and what it contradicts itself in",
		Example:           lines("qwb target check mynpu.yaml"),
		ValidArgsFunction: files("yaml", "yml"),
		Long: `Reads the YAML file of a target. A key or a word that does not exist is an error (exit code 1). A target that can be read is
held against itself: number formats, operators, fusions and placement against the arithmetic of its profile and against what integer
programs can compute, and its export format against those that there are. What cannot all be true is listed (exit code 3).`,
		Args: exactly(1, "one file"),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := e.project("", "").CheckTarget(args[0])
			switch {
			case r == nil:
				return err
			case asJSON:
				return errors.Join(e.printJSON(r), err)
			}
			fmt.Fprintf(e.stdout, "%s: %d operators, hash %s\n", r.Name, r.Operators, r.SHA256)
			for _, n := range r.Notes {
				fmt.Fprintf(e.stdout, "  note: %s\n", n)
			}
			for _, c := range r.Contradictions {
				fmt.Fprintf(e.stdout, "  %s\n", c)
			}
			return err
		},
	}, options.JSON(&asJSON))
}
