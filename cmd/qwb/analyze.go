package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/internal/kind"
	"qwb/internal/options"
	"qwb/reports"
	"qwb/reports/png"
)

func newAnalyze(e *env) *cobra.Command {
	var o options.Analyze
	return e.takes(&cobra.Command{
		Use:   "analyze [PLAN] | analyze CHECKPOINT --layerwise --text FILE",
		Short: "Show how large the quantization error is and which operator causes it",
		Example: lines(
			"qwb analyze model.plan.json",
			"qwb analyze --layerwise --split --html report.html",
			"qwb analyze stories15M.bin --text lines.txt --bits 4"),
		Long: fmt.Sprintf(`Analyze compares the quantized graph with the float graph:

  --graphwise    quantize everything: the accumulated error at every operator
  --layerwise    quantize one operator at a time: its error at the graph outputs, and at its own output, split into clipping and rounding
  --statistical  ranges, moments and histograms of every tensor, with the threshold of every calibration method
  --explain      split the error of the integer program into its causes: weight rounding, activation clipping, activation rounding, bias
                 rounding, tables, arithmetic profile. At the graph outputs a part is what that change does alone, and rest what they do
                 together; at every step the parts sum to its error. Of the weights' part, shift is what one number per channel repairs

With --layerwise it says what is wrong and which commands help, with their predicted effect; --try measures it.
Without any of them analyze does the first three. It prints a summary and the ten most important rows of each
table; --all prints every row. --html and --png write complete reports, --model-explorer the errors for Google's Model Explorer, which
paints them on the nodes of the graph. Without any of these, HTML and plots are written to the folder MODEL.report.
What was found is kept in MODEL.analysis.json, for qwb serve.

Analyze uses the data of the plan (at most %d samples unless --samples is given) or --data.

For a language model (a checkpoint) it quantizes one matrix at a time as --group-size, --bits and --method
say, and with --kv-cache the keys or the values of one layer. It ranks them by the divergence from the float model on at most
%[1]d lines of --text, drawn with --seed, and splits the error of a matrix's own output. See docs/language-models.md.`, qwb.AnalysisSamples),
		Args: atMost(1, "one plan or checkpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := spares("html", o.HTML); err != nil {
				return err
			}
			if len(args) == 1 && !strings.HasSuffix(args[0], qwb.PlanSuffix) && kind.Of(args[0]) == kind.Checkpoint {
				return e.printLanguageLayers(c, args[0], &o)
			}
			if err := e.networksOnly(c); err != nil {
				return err
			}
			plan, err := findPlan(args, "")
			if err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return err
			}
			p := e.project("", plan)
			r, _, check := p.Analyze(c.Context(), o.AnalyzeOptions)
			if r == nil || !checked(check) {
				return check
			}
			unwritten := e.writeReports(c.Context(), r, plan, reportFiles{o.HTML, o.PNG, o.Nodes})
			if err := p.KeepAnalysis(r); err != nil {
				e.note("qwb serve will not show this analysis: %v", err)
			} else {
				e.note("%s is written, for qwb serve", qwb.AnalysisPath(plan))
			}
			if check == nil {
				check = unwritten // what was found out is printed in any case
			}
			return e.print(o.JSON, r, check, func() error { return reports.Text(e.stdout, r, o.All) })
		},
	}, &o)
}

// reportFiles is where reports go; all empty: HTML and plots into a folder beside the plan.
type reportFiles struct {
	html  string // a file
	png   string // a folder of plots
	nodes string // a file for Model Explorer
}

// writeReports writes HTML and plots to where they are asked for, or both to the default folder, which it names on standard error.
func (e *env) writeReports(ctx context.Context, r *analysis.Report, plan string, o reportFiles) error {
	var folder string
	if o.html == "" && o.png == "" && o.nodes == "" {
		folder = strings.TrimSuffix(plan, qwb.PlanSuffix) + ".report"
		o.html, o.png = filepath.Join(folder, "report.html"), folder
	}
	s := qwb.OS{}.Stage()
	defer s.Discard()
	var view *reports.View
	if o.png != "" || o.html != "" {
		p := e.project("", plan)
		p.Events = nil // the analysis has said what there is to say
		var err error
		if view, _, err = p.View(ctx, r, false); err != nil {
			return err
		}
	}
	if o.png != "" {
		for _, im := range png.Plots(view) {
			if err := s.Add(filepath.Join(o.png, im.Name), im.Write); err != nil {
				return err
			}
		}
	}
	if o.html != "" {
		if err := s.Add(o.html, view.HTML); err != nil {
			return err
		}
	}
	if o.nodes != "" {
		if err := s.Add(o.nodes, func(w io.Writer) error { return reports.NodeData(w, r) }); err != nil {
			return err
		}
	}
	if err := s.Commit(); err != nil {
		return err
	}
	if folder != "" {
		e.note("report: %s", folder)
	}
	return nil
}
