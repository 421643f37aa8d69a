package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/calib/data"
	"qwb/internal/options"
	"qwb/internal/plain"
	"qwb/reports"
)

func newDoctor(e *env) *cobra.Command {
	var o options.Doctor
	return e.takes(&cobra.Command{
		Use: "doctor [MODEL|PLAN] --data D [--labels F] | " +
			"doctor [FILE] --platform P [--format F] [--engine-version V] | doctor MODEL --second-reader",
		Short: "Look for what is wrong with data, or with an exported file",
		Example: lines(
			"qwb doctor model.onnx --data images/ --labels labels.tsv",
			"qwb doctor model.plan.json --data eval/ --labels eval.tsv        # also: does it overlap with the calibration data?",
			"qwb doctor model.onnx --platform onnxruntime                     # would the engine take this file as it is meant?",
			"qwb doctor model.onnx --second-reader                            # does another reader of ONNX see the same graph?",
			"qwb doctor --platform onnxruntime --engine-version 1.26.0        # what is this version known to compute wrongly?"),
		Long: `Doctor looks for mistakes in the data of a model:

  preprocessing  with labels: runs the float model on a few samples with each preset, and with the usual ways to scale pixels, and finds
                 the preprocessing and the label offset that make most predictions correct
  labels         samples without a label, labels that are no class of the model, classes that are missing
  duplicates     samples that repeat another exactly or nearly (recompressed, brighter, scaled pictures)
  overlap        with a plan: samples of --data that are, exactly or nearly, among those it was calibrated on
  inputs         constant inputs; inputs that differ from what the first batch normalisation saw in training

Half of the samples that are tried choose, the other half has to confirm the choice (exact paired test, 1 %).
Every finding has a rule, a level and a fix. With faults the exit code is 3; hints leave it at 0. Doctor writes
nothing but the file of --sarif. See docs/data.md.

With --platform it reads a file that was exported, by qwb or another tool, and looks for what the reader of its
format would reject or compute differently: the rules that qwb export itself keeps; and for what the engine is known
to compute wrongly of a right file, in its newest version or in --engine-version. Any finding is exit code 3. Without
a file it lists these faults. See docs/targets.md and docs/engines.md.`,
		Args: atMost(1, "one model, plan or exported file"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := sparesOthers(o.SARIF); err != nil {
				return err
			}
			if o.Second {
				return e.secondReader(c, args, o.JSON)
			}
			if o.Platform != "" || o.Format != "" || o.EngineVersion != "" {
				return e.doctorFile(c, args, &o)
			}
			file, err := findPlan(args, "")
			if err != nil {
				return err
			}
			model, plan := file, ""
			if strings.HasSuffix(file, qwb.PlanSuffix) {
				model, plan = "", file
			} else if len(o.Data.Paths) == 0 {
				return usagef("doctor of a model needs --data, of an exported file --platform")
			}
			r, _, err := e.project(model, plan).Doctor(c.Context(), o.DoctorOptions)
			if r == nil {
				return err
			}
			var remarks []reports.Remark
			for _, f := range r.Findings {
				level := map[bool]string{true: reports.RemarkError, false: reports.RemarkWarning}[f.Level == data.Fault]
				remarks = append(remarks, reports.Remark{Rule: f.Rule, Level: level, File: cmp.Or(r.Plan, r.Model),
					At: f.Node, Text: f.Text, Fix: f.Fix})
			}
			if err := writeSARIF(o.SARIF, remarks); err != nil {
				return err
			}
			return e.print(o.JSON, r, err, func() error { return doctorText(e.stdout, r) })
		},
	}, &o)
}

// secondReader holds a model to what another reader makes of it.
func (e *env) secondReader(c *cobra.Command, args []string, asJSON bool) error {
	if other := otherFlags(c, "second-reader", "json"); len(other) > 0 || len(args) != 1 {
		return usagef("--second-reader takes one ONNX model, and --json alone")
	}
	r, _, err := e.project(args[0], "").SecondReading(c.Context())
	if r == nil {
		return err
	}
	return e.print(asJSON, r, err, func() error {
		_, err := fmt.Fprintf(e.stdout, "%s: %s and %s as %s reads them: %s\n", r.Model, plain.Count(r.Nodes, "operator"),
			plain.Count(r.Edges, "edge"), r.Reader, map[bool]string{true: "the same", false: strings.Join(r.Differences, "; ")}[r.Different == 0])
		return err
	})
}

// doctorFile looks at an exported file.
func (e *env) doctorFile(c *cobra.Command, args []string, o *options.Doctor) error {
	switch {
	case o.Platform == "":
		return usagef("doctor of an exported file needs --platform: %s", strings.Join(options.Platforms(e.catalog()), ", "))
	case len(args) == 0 && o.Format == "" && o.SARIF == "" && len(otherFlags(c, "platform", "engine-version", "json")) == 0:
		list, _, err := e.project("", "").EngineFaults(c.Context(), o.Platform, o.EngineVersion)
		if err != nil {
			return err
		}
		return e.print(o.JSON, list, nil, func() error { return engineFaultsText(e.stdout, o.Platform, list) })
	case len(args) != 1:
		return usagef("doctor needs one exported file")
	}
	if other := otherFlags(c, "platform", "format", "engine-version", "sarif", "json"); len(other) > 0 {
		return usagef("%s: not for an exported file, whose doctor takes --platform, --format, --engine-version and --sarif",
			strings.Join(other, ", "))
	}
	r, _, err := e.project("", "").DoctorFile(c.Context(), qwb.DoctorFileOptions{File: args[0], Platform: o.Platform, Format: o.Format,
		EngineVersion: o.EngineVersion})
	if r == nil {
		return err
	}
	var remarks []reports.Remark
	for _, f := range r.Findings {
		remarks = append(remarks, reports.Remark{Rule: f.Rule, Level: reports.RemarkError, File: r.File, At: f.Node, Text: f.Text, Fix: f.Fix})
	}
	for _, f := range r.EngineFaults {
		level := map[bool]string{true: reports.RemarkError, false: reports.RemarkWarning}[f.On == ""]
		remarks = append(remarks, reports.Remark{Rule: f.Name, Level: level, File: r.File, At: f.Nodes[0], Text: f.String(), Fix: f.Cure})
	}
	if err := writeSARIF(o.SARIF, remarks); err != nil {
		return err
	}
	return e.print(o.JSON, r, err, func() error { return doctorFileText(e.stdout, r) })
}

// sparesOthers refuses to write SARIF in the place of anything else.
func sparesOthers(sarif string) error {
	if beginsWith(sarif, `"$schema": "https://docs.oasis-open.org/sarif/`) {
		return nil
	}
	return spares("sarif", sarif)
}

// writeSARIF writes what a doctor found to a file, where one is named.
func writeSARIF(name string, remarks []reports.Remark) error {
	if name == "" {
		return nil
	}
	_, err := qwb.WriteFile(qwb.OS{}, name, func(w io.Writer) error { return reports.SARIF(w, version, remarks) })
	return err
}

// doctorFileText writes what doctor found in a file for people.
func doctorFileText(w io.Writer, r *qwb.DoctorFileResult) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s for %s, %s\n", r.File, r.Format, r.Platform, plain.Count(len(r.Rules), "rule"))
	for i, f := range r.Findings {
		fmt.Fprintln(&b, f)
		if i+1 == len(r.Findings) || r.Findings[i+1].Rule != f.Rule || r.Findings[i+1].Fix != f.Fix { // findings of a rule stand together
			fmt.Fprintf(&b, "  fix: %s\n", f.Fix)
		}
	}
	for _, f := range r.EngineFaults {
		fmt.Fprintf(&b, "the file is right, the engine is wrong: %s\n  cure: %s; known by: %s\n", f.String(), f.Cure, f.Source)
	}
	if len(r.Findings) == 0 && len(r.EngineFaults) == 0 {
		fmt.Fprintln(&b, "nothing found")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// engineFaultsText lists faults of an engine for people.
func engineFaultsText(w io.Writer, platform string, list []analysis.EngineFault) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s known of the engine that reads files for %s\n", plain.Count(len(list), "fault"), platform)
	for _, f := range list {
		fmt.Fprintf(&b, "%s\n  cure: %s\n  source: %s; %s\n", f.String(), f.Cure, f.Source, f.Held)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// doctorText writes what doctor found for people.
func doctorText(w io.Writer, r *qwb.DoctorResult) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d samples", r.Samples)
	if c := r.Classes; c != nil {
		fmt.Fprintf(&b, ", %d labelled, %d classes", c.Labelled, c.Seen)
		if c.Of > 0 {
			fmt.Fprintf(&b, " of %d", c.Of)
		}
		if fmt.Fprintf(&b, " with %d", c.Least); c.Most > c.Least {
			fmt.Fprintf(&b, " to %d", c.Most)
		}
		b.WriteString(" samples each")
	}
	fmt.Fprintln(&b)
	const most = 5
	for i, t := range r.Trials {
		if i == 0 {
			fmt.Fprintf(&b, "tried on %d samples:\n", t.Samples)
		}
		if i == most {
			fmt.Fprintf(&b, "  and %d others with at most %d correct\n", len(r.Trials)-most, t.Correct)
			break
		}
		fmt.Fprintf(&b, "  %2d correct  %s, label offset %d\n", t.Correct, t.Preprocess, t.LabelOffset)
	}
	if t := r.Best; t != nil {
		fmt.Fprintf(&b, "on %d other samples: %d correct with the best of these, %d as asked for (chance %.2g)\n", t.Samples, t.Correct,
			t.Before, t.Chance)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s: %s: %s\n  fix: %s\n", f.Level, f.Rule, f.Node, f.Text, f.Fix)
	}
	if len(r.Findings) == 0 {
		fmt.Fprintln(&b, "nothing found")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
