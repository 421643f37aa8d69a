package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/kind"
	"qwb/quantizer/plan"
)

// spares refuses to write something people read over a file that other commands read.
func spares(flag, path string) error {
	if is := kind.Of(path); path != "" && is != kind.Unknown {
		return fmt.Errorf("--%s %s would overwrite a file that is %s", flag, path, is)
	}
	return nil
}

// planPath is where the plan of a model goes unless -o says otherwise: into the current folder.
func planPath(model, out string) (string, error) {
	if out == "" {
		return qwb.BaseName(model) + qwb.PlanSuffix, nil
	}
	if !strings.HasSuffix(out, qwb.PlanSuffix) {
		return "", usagef("-o %s: the name of a plan ends in %s", out, qwb.PlanSuffix)
	}
	return out, nil
}

// findPlan returns the plan named by the arguments, or the only one in the current folder; of several that for the platform, where one is
// given and one plan fits.
func findPlan(args []string, platform string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	plans, err := filepath.Glob("*" + qwb.PlanSuffix)
	if err != nil {
		return "", err
	}
	fit := plans
	if len(plans) > 1 && platform != "" {
		fit = slices.DeleteFunc(slices.Clone(plans), func(file string) bool {
			p, err := plan.Read(file)
			return err != nil || p.Platform != platform
		})
	}
	if len(fit) == 1 {
		return fit[0], nil
	}
	if len(plans) == 0 {
		return "", usagef("no plan: name one, or run qwb calibrate first (no *%s in the current folder)", qwb.PlanSuffix)
	}
	return "", usagef("%d plans in the current folder: name one of %s", len(plans), strings.Join(plans, ", "))
}

// onPlan is a command about the plan that it names, or about the only one in the current folder.
func onPlan(do func(c *cobra.Command, plan string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		file, err := findPlan(args, "")
		if err != nil {
			return err
		}
		return do(c, file)
	}
}
