package main

import (
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/reports"
)

func newRun(e *env) *cobra.Command {
	var f flags
	var o qwb.RunOptions
	c := &cobra.Command{
		Use:   "run MODEL --input name=x.npy --output DIR | run MODEL|PLAN --data D --output DIR",
		Short: "Run a model or a plan and write its outputs as npy files",
		Long: `Run executes a model as it is (float, or with Q/DQ pairs), or a plan in one of the modes fp32, sim (simulated
INT8) and int8 (the integer program).

With --input it runs once, on npy files or on one npz file with all inputs by name. It writes each output to
DIR; the file has the name of the output. With --data it runs on every sample and writes one file per sample,
with the names that qwb preprocess uses: npy for a model with one output, npz for several outputs. Without
both, a plan uses its own data.

--all writes every tensor that is computed, in an npz for each run: of a plan in --mode int8 the tensors of the
integer program, otherwise the values of the graph. qwb verify --against takes such a file.`,
		Args: exactly(1, "one model or plan"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			model, plan := args[0], ""
			if strings.HasSuffix(args[0], qwb.PlanSuffix) {
				model, plan = "", args[0]
			}
			switch {
			case o.Output == "":
				return usagef("run needs --output DIR")
			case len(o.Inputs) > 0 && len(f.data) > 0:
				return usagef("run takes --input or --data")
			case len(o.Inputs) > 0 && (f.samples > 0 || f.preprocess != ""):
				return usagef("--samples and --preprocess need --data; files of --input are used as they are")
			}
			if err := modeOf(f.mode, plan != "", model, o.Backend, o.Profile); err != nil {
				return err
			}
			o.Mode, o.Data, o.Threads, o.Memory = f.mode, f.dataOptions(), f.workers(), f.budget()
			r, _, err := e.project(model, plan).Run(c.Context(), o)
			switch {
			case err != nil:
				return err
			case f.json:
				return e.printJSON(r)
			}
			return reports.PlacedText(e.stdout, r.Placed)
		},
	}
	f.addData(c)
	f.addTokenizer(c)
	c.Flags().StringArrayVar(&o.Inputs, "input", nil, "`NAME=FILE`.npy, once per input; or FILE.npz with all inputs")
	c.Flags().StringVarP(&o.Output, "output", "o", "", "folder for the outputs")
	c.Flags().BoolVar(&o.All, "all", false, "write every tensor that is computed: one npz for each run")
	c.Flags().StringVar(&f.mode, "mode", "fp32", "fp32; with a plan also sim (simulated INT8) or int8 (the integer program)")
	c.Flags().StringVar(&o.Backend, "backend", defaultBackend().Name, "backend of --mode int8: "+backends())
	c.Flags().StringVar(&o.Profile, "profile", "", "arithmetic profile of --mode int8 (default: the target's): "+profiles())
	f.addRun(c)
	f.addBudget(c)
	f.addJSON(c)
	return c
}

// modeOf refuses modes that are none, that need a plan, and flags that only mode int8 has.
func modeOf(mode string, isPlan bool, model, backend, profile string) error {
	switch {
	case mode != "fp32" && mode != "sim" && mode != "int8":
		return usagef("--mode %s: one of fp32, sim, int8", mode)
	case mode != "fp32" && !isPlan:
		return usagef("--mode %s needs a plan; calibrate %s first", mode, model)
	case profile != "" && mode != "int8":
		return usagef("--profile is for --mode int8 only; add --mode int8")
	case backend != defaultBackend().Name && mode != "int8":
		return usagef("--backend is for --mode int8 only; add --mode int8")
	}
	_, err := knownBackend(backend)
	return err
}
