package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/kind"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
)

func newExport(e *env) *cobra.Command {
	var f flags
	var unverified bool
	var backend string
	var source qwb.SourceOptions
	var language qwb.CheckpointOptions
	format := qwb.FormatONNX
	c := &cobra.Command{
		Use:   "export [PLAN] --platform P -o FILE | export CHECKPOINT --format F -o FILE",
		Short: "Write the quantized model: ONNX with Q/DQ pairs, C, or the checkpoint of a language model",
		Long: fmt.Sprintf(`Export writes what the plan says: a Q/DQ pair exactly where the simulation quantizes. The file is checked against the rules of the
platform before it gets its name.

With --format c it writes the integer program as one C99 file with its weights and a main that reads and writes .npy files; see
docs/c.md.

A plan that holds no verification of what it is now is verified first, as qwb verify does, on 8 samples of its own data. Where that does
not hold nothing is written (exit code 3). With --unverified it is not even tried, and plan and file say so.

Of a checkpoint (a file of llama2.c or GGUF, or a folder of Hugging Face) the weights are quantized and written in the format of a small
engine, without data and without a plan. The file is read back, compared with the checkpoint and run before it gets its name:

%s`, formatLines()),
		Args: atMost(1, "one plan or checkpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && !strings.HasSuffix(args[0], qwb.PlanSuffix) && kind.Of(args[0]) == kind.Checkpoint {
				language.Format, language.Out, language.Threads, language.Unverified = format, f.out, f.workers(), unverified
				for _, name := range append([]string{"platform", "backend"}, sourceFlags...) {
					if c.Flags().Changed(name) {
						return usagef("--%s is not for a checkpoint", name)
					}
				}
				return e.printCheckpoint(c.Context(), args[0], language, f.json)
			}
			for _, name := range checkpointFlags {
				if c.Flags().Changed(name) {
					return usagef("--%s is for a checkpoint", name)
				}
			}
			file, err := findPlan(args)
			if err != nil {
				return err
			}
			if _, err := program.BackendNamed(backend); err != nil {
				return qwb.UsageError{Err: err}
			}
			if format == qwb.FormatC {
				source.Backend = backend
				source.Platform, source.Out, source.Threads, source.Unverified = f.platform, f.out, f.workers(), unverified
				return e.printSource(c.Context(), file, source, f.json)
			}
			if format != qwb.FormatONNX {
				return usagef("unknown format %q: %s or %s; of a checkpoint %s", format, qwb.FormatONNX, qwb.FormatC, qwb.FormatNames())
			}
			for _, name := range sourceFlags {
				if c.Flags().Changed(name) {
					return usagef("--%s is for --format %s", name, qwb.FormatC)
				}
			}
			if f.platform == "" {
				return usagef("export needs --platform: %s", platforms())
			}
			if _, err := target.Known(f.platform); err != nil {
				return qwb.UsageError{Err: err}
			}
			r, _, err := e.project("", file).Export(c.Context(), qwb.ExportOptions{Platform: f.platform, Out: f.out, Threads: f.workers(),
				Unverified: unverified, Backend: backend})
			return e.printExport(r, err, f.json, func() string { return fmt.Sprintf("%s: %s, SHA-256 %s", r.File, r.Platform, r.SHA256) })
		},
	}
	f.addPlatform(c, "platform of the plan: "+platforms())
	f.addOut(c, "file to write (default: MODEL.PLATFORM.onnx, MODEL.c, CHECKPOINT.FORMAT.bin)")
	f.addRun(c)
	f.addJSON(c)
	c.Flags().StringVar(&backend, "backend", defaultBackend().Name, "what runs the integers of the verification: "+backends())
	c.Flags().BoolVar(&unverified, "unverified", false, "export without a verification, and say so in plan and file")
	c.Flags().StringVar(&format, "format", format, "what to write: "+qwb.FormatONNX+" or "+qwb.FormatC+"; of a checkpoint: "+qwb.FormatNames())
	addSource(c, &source)
	addCheckpoint(c, &language)
	return c
}

// printExport prints the result of an export, or returns its error. JSON has the result of one that a check stopped, too.
func (e *env) printExport(result any, err error, json bool, line func() string) error {
	switch check := (qwb.CheckError{}); {
	case json && errors.As(err, &check):
		return errors.Join(e.printJSON(result), err)
	case err != nil:
		return err
	case json:
		return e.printJSON(result)
	}
	_, err = fmt.Fprintln(e.stdout, line())
	return err
}
