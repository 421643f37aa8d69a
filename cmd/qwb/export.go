package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/export"
	"qwb/internal/kind"
	"qwb/internal/options"
	"qwb/reports"
)

func newExport(e *env) *cobra.Command {
	var o options.Export
	formats := e.catalog().Formats
	return e.takes(&cobra.Command{
		Use:   "export [PLAN] [--platform P] [--format F] -o FILE | export CHECKPOINT --format F -o FILE",
		Short: "Write the quantized model: ONNX with Q/DQ pairs, C, or the checkpoint of a language model",
		Example: lines(
			"qwb export --platform trt_int8 -o model.int8.onnx",
			"qwb export model.plan.json --format c -o model.c",
			"qwb export stories15M.bin --format gguf --weights q4_0 -o stories15M.gguf"),
		Long: `Export writes the quantized model of a plan. In ONNX, a Q/DQ pair stands exactly where the simulation
quantizes. Export checks the file against the rules of the target before the file gets its name. If an export
has several files, it writes all of them or none.

A plan must be verified before export. If it is not, or has changed since, export verifies it first on 8
samples of its data, as qwb verify does. So it does where the plan was verified on fewer samples, on synthetic
data, or under another profile. With --backend cuda or ptx it verifies there each time. If the verification
fails, nothing is written (exit code 3). --unverified skips it; plan and file then say so.

For a checkpoint (a llama2.c or GGUF file, or a Hugging Face folder) export quantizes the weights. It needs no
data and no plan. It reads the new file back, compares it with the checkpoint and runs it before the file gets
its name.

` + formatHelp(formats),
		Args: atMost(1, "one plan or checkpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.List {
				return e.printFormats(formats, o.JSON)
			}
			o.Options = o.Given()
			file := ""
			if len(args) == 1 && !strings.HasSuffix(args[0], qwb.PlanSuffix) && kind.Of(args[0]) == kind.Checkpoint {
				file = args[0]
				switch {
				case c.Flags().Changed("backend"):
					return usagef("--backend is not for a checkpoint: its weights are verified on the processor")
				case o.Beside.Card+o.Beside.MLBOM+o.Beside.Base != "":
					return usagef("--card and --ml-bom are of a plan's export, not of a checkpoint's")
				case c.Flags().Changed("samples"):
					return usagef("--samples is not for a checkpoint: all of its weights are verified")
				}
			}
			project := e.project(file, "")
			if file == "" {
				plan, err := findPlan(args, o.Platform)
				if err != nil {
					return err
				}
				project.Plan = plan
				if _, err := os.Stat(plan); err == nil { // whoever opens a plan that is not there says so
					if err := e.checkPlanFlags(&o.ExportOptions); err != nil {
						return err
					}
				}
			}
			r, _, err := project.Export(c.Context(), o.ExportOptions)
			return e.printExport(r, err, o.JSON)
		},
	}, &o)
}

// checkPlanFlags validates what concerns plans and does not need one.
func (e *env) checkPlanFlags(o *qwb.ExportOptions) error {
	if err := options.CheckBackend(e.catalog(), o.Backend); err != nil {
		return err
	}
	if o.Platform == "" && o.Format == "" { // the plan's platform says which format it is
		return nil
	}
	f, err := export.ForPlatform(e.catalog().Formats, o.Platform, o.Format)
	if err != nil {
		return qwb.UsageError{Err: err}
	}
	_, err = f.Resolve(o.Options)
	if err != nil {
		return qwb.UsageError{Err: err}
	}
	return nil
}

// printExport prints the result of an export, or returns its error. JSON has the result of one that a check stopped, too.
func (e *env) printExport(r *qwb.ExportResult, err error, json bool) error {
	switch check := (qwb.CheckError{}); {
	case json && errors.As(err, &check):
		return errors.Join(e.printJSON(r), err)
	case err != nil:
		return err
	case json:
		return e.printJSON(r)
	}
	line := r.File + ": " + r.Format
	if r.Platform != "" {
		line += " for " + r.Platform
	}
	if r.Profile != "" {
		line += ", profile " + r.Profile
	}
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		line += fmt.Sprintf(", %s %d", strings.ReplaceAll(name, "_", " "), r.Figures[name])
	}
	if len(r.Files) > 1 {
		line += fmt.Sprintf(", %d files", len(r.Files))
	}
	lines := []string{line + ", SHA-256 " + r.SHA256}
	for _, f := range r.Files[min(1, len(r.Files)):] {
		if len(r.Files) <= 8 {
			lines = append(lines, f.Path+": SHA-256 "+f.SHA256)
		}
	}
	if share := reports.IntegerShare(r.IntegerShare); share != "" {
		lines = append(lines, share)
	}
	_, err = fmt.Fprintln(e.stdout, strings.Join(lines, "\n"))
	return err
}

// formatHelp lists formats as text, in columns as far apart as those of flags.
func formatHelp(formats []export.Format) string {
	var b strings.Builder
	for _, from := range [][]export.Source{{export.Plan, export.Program}, {export.Checkpoint}} {
		title := "Formats of plans:"
		if from[0] == export.Checkpoint {
			title = "Formats of checkpoints:"
		}
		fmt.Fprintln(&b, title)
		w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
		for i := range formats {
			f := &formats[i]
			if !slices.Contains(from, f.From) {
				continue
			}
			doc := f.Doc
			if f.Note != "" {
				doc += " (" + f.Note + ")"
			}
			if f.Targets != nil {
				doc += "; for " + strings.Join(f.Targets, ", ")
			}
			if f.Experimental != "" {
				doc += "; EXPERIMENTAL: " + f.Experimental
			}
			fmt.Fprintf(w, "  %s\t%s\n", f.Name, doc)
		}
		_ = w.Flush() // into memory
	}
	return strings.TrimRight(b.String(), "\n")
}

// formatInfo is a format in JSON.
type formatInfo struct {
	Name         string          `json:"name"`
	Doc          string          `json:"doc"`
	Note         string          `json:"note,omitempty"`
	Experimental string          `json:"experimental,omitempty"`
	Needs        export.Source   `json:"needs"`
	Ext          string          `json:"ext"`
	Platforms    []string        `json:"platforms,omitempty"` // none: all
	Options      []export.Option `json:"options"`
}

// printFormats lists the formats with their options.
func (e *env) printFormats(formats []export.Format, json bool) error {
	list := make([]formatInfo, len(formats))
	for i := range formats {
		f := &formats[i]
		list[i] = formatInfo{f.Name, f.Doc, f.Note, f.Experimental, f.From, f.Ext, f.Targets, append([]export.Option{}, f.AllOptions()...)}
	}
	if json {
		return e.printJSON(map[string]any{"formats": list})
	}
	for _, f := range list {
		doc := f.Doc
		if f.Experimental != "" {
			doc += "; EXPERIMENTAL: " + f.Experimental
		}
		fmt.Fprintf(e.stdout, "%s (%s): %s\n", f.Name, f.Needs, doc)
		for _, o := range f.Options {
			choices := ""
			if len(o.Choices) > 0 {
				choices = " (" + strings.Join(o.Choices, ", ") + ")"
			}
			if _, err := io.WriteString(e.stdout, fmt.Sprintf("    --%s: %s%s\n", o.Name, o.Doc, choices)); err != nil {
				return err
			}
		}
	}
	return nil
}
