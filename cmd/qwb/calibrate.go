package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

func newCalibrate(e *env) *cobra.Command {
	var f flags
	var merge []string
	var reduce, perTensor, minMaxOnly bool
	var backend, dispatcher, shard string
	var recipes []string
	var labels string
	var offset int
	var borderCost float64
	var fresh bool
	c := &cobra.Command{
		Use:   "calibrate MODEL --data D --platform P",
		Short: "Run the model on data, choose scales, write plan and statistics",
		Long: `Calibrate runs the float model on real data and records the range of every tensor. From these statistics it
chooses all scales and zero points for a target (--platform). It writes MODEL.plan.json and MODEL.stats to the
current folder; -o X.plan.json changes both names.

Once the statistics exist, another target or another --observer needs no data. An interrupted run keeps its
statistics: repeat the command and it continues. --merge A.stats B.stats merges the statistics of parts of a
data set. Plan and statistics are then, byte for byte, the same as from one run over all the data.

If the plan exists already, its decisions (qwb set, qwb dispatch) are kept; --fresh drops them. --recipe
applies the decisions of a file.

--backend cuda runs and observes the model on a GPU. If the GPU computes exactly as the CPU does, the
statistics are the same bytes. The first sample runs on both, and differences are reported.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("calibrate takes a model")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			var models []string
			for _, a := range args { // statistics after the first of --merge arrive as arguments
				if len(merge) > 0 && strings.HasSuffix(a, ".stats") {
					merge = append(merge, a)
				} else {
					models = append(models, a)
				}
			}
			if len(models) != 1 {
				return usagef("calibrate takes one model, not %d (%s)", len(models), strings.Join(models, ", "))
			}
			switch {
			case !minMaxOnly:
			case len(f.data) == 0:
				return usagef("--minmax-only needs --data")
			case f.observer != "" && f.observer != string(tqc.ObserverMinMax):
				return usagef("--minmax-only works with --observer minmax only; remove one of the two flags")
			default:
				f.observer = string(tqc.ObserverMinMax)
			}
			if len(merge) > 0 && len(f.data) > 0 {
				return usagef("--merge replaces --data: give only one of them")
			}
			if !slices.Contains([]string{qwb.FloatCPU, qwb.FloatCUDA, qwb.FloatPTX}, backend) {
				return usagef("unknown backend %q: one of %s, %s, %s", backend, qwb.FloatCPU, qwb.FloatCUDA, qwb.FloatPTX)
			}
			if backend != qwb.FloatCPU && len(f.data) == 0 {
				return usagef("--backend needs --data: it selects what runs the model")
			}
			part, err := qwb.ParseShard(shard)
			if err != nil {
				return err
			}
			data := f.dataOptions()
			data.Labels, data.LabelOffset = labels, offset
			if shard != "" {
				return e.calibratePart(c.Context(), models[0], &f, merge, qwb.CalibrateOptions{Data: data, Threads: f.workers(), Batch: f.batch, MinMaxOnly: minMaxOnly, Backend: backend, Shard: part})
			}
			file, err := planPath(models[0], f.out)
			if err != nil {
				return err
			}
			o := qwb.CalibrateOptions{Platform: f.platform, Data: data, Merge: merge, Threads: f.workers(), Batch: f.batch, MinMaxOnly: minMaxOnly, Backend: backend,
				Observer: tqc.Observer(f.observer), ReduceRange: reduce, PerTensor: perTensor, Dispatcher: dispatcher, Recipes: recipes, Fresh: fresh}
			if c.Flags().Changed("border-cost") {
				o.BorderCost = &borderCost
			}
			defer debug.SetGCPercent(debug.SetGCPercent(calibrateGarbage))
			o.Memory, _ = f.memory()
			r, _, err := e.project(models[0], file).Calibrate(c.Context(), o)
			if r == nil {
				return err
			}
			if f.json {
				return errors.Join(e.printJSON(r), err)
			}
			for _, g := range r.Gates {
				if _, werr := fmt.Fprintln(e.stdout, g); werr != nil {
					return werr
				}
			}
			if err != nil {
				return err
			}
			share := ""
			if r.IntegerShare != nil {
				share = ", " + reports.IntegerShare(r.IntegerShare)
			}
			_, err = fmt.Fprintf(e.stdout, "%s and %s: %d samples, %.2f s%s\n", r.Plan, r.Stats, r.Samples, r.Seconds, share)
			return err
		},
	}
	f.addData(c)
	f.addTokenizer(c)
	f.addRun(c)
	c.Flags().StringVar(&f.mem, "mem", "2G", "memory for activations and for samples read in advance, for example 512M or 4G; limits --batch and the number of samples in work")
	f.addPlatform(c, "target to quantize for: "+platforms()+", or a YAML file")
	c.Flags().IntVar(&f.batch, "batch", 1, "samples per forward pass, if the model takes batches; results do not depend on it")
	c.Flags().StringVar(&labels, "labels", "", "TSV or MNIST label file: statistics and plan then say which classes the samples cover (nothing else depends on it)")
	c.Flags().IntVar(&offset, "label-offset", 0, "number to add to each label to get the class index of the model")
	f.addOut(c, "plan to write, ending in "+qwb.PlanSuffix)
	f.addJSON(c)
	c.Flags().StringVar(&f.observer, "observer", "", "calibration method for activations: auto, "+observerNames()+", or percentile(0.999) (default: the target's); or the range that another tool chooses: "+peerNames())
	c.Flags().StringArrayVar(&merge, "merge", nil, "`STATS` files to merge instead of running data: --merge A.stats B.stats")
	addShard(c, &shard, "part of the data, `I/N`: process part I of N and write its statistics to -o PART; qwb merge combines all parts")
	c.Flags().BoolVar(&minMaxOnly, "minmax-only", false, "record only minimum and maximum: faster, but the statistics work with --observer minmax only")
	c.Flags().StringVar(&backend, "backend", qwb.FloatCPU, "what runs the float model: "+floatBackends)
	c.Flags().StringVar(&dispatcher, "dispatcher", "", "strategy that selects the operators to quantize: "+dispatchers())
	c.Flags().Float64Var(&borderCost, "border-cost", 0, "multiply-accumulates that must be quantized to pay for converting one element between float and integer; 0: conversion is free (default: the target's)")
	c.Flags().StringArrayVar(&recipes, "recipe", nil, "`FILE` with decisions, tuning and gates, applied after these options (qwb plan recipe writes one); or preset:NAME ("+presets()+"), nncf:FILE, ort:FILE or trt:FILE; may be given several times")
	c.Flags().BoolVar(&fresh, "fresh", false, "drop the decisions of an existing plan")
	c.Flags().BoolVar(&reduce, "reduce-range", false, "7-bit weights, for CPUs whose 16-bit sums saturate (x86 without VNNI)")
	c.Flags().BoolVar(&perTensor, "per-tensor", false, "one scale per weight tensor instead of one per channel")
	return c
}

func presets() string {
	var names []string
	for _, p := range decision.Presets {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

func dispatchers() string {
	var names []string
	for _, s := range dispatch.Strategies {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// calibrateGarbage is how much garbage may lie beside what is in use, in percent. Calibration makes little of it but keeps much
// (weights, statistics), and looking through that is fast, since it is numbers.
const calibrateGarbage = 20

func platforms() string {
	return strings.Join((&qwb.Catalog{}).Targets().Names(), ", ")
}

func observerNames() string { return namesOf(observers.All) }

func peerNames() string { return namesOf(observers.Peers()) }

func namesOf(list []*observers.Method) string {
	var names []string
	for _, m := range list {
		names = append(names, string(m.Name))
	}
	return strings.Join(names, ", ")
}
