package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// What a plan says about its scales is said when it is calibrated and stands in the plan. Other commands keep it there, and say how many
// there are instead of all of them again.
func TestWarningsOfAPlanAreSaidOnceAndStay(t *testing.T) {
	calibrated(t)
	warnings := func() []tqc.Warning {
		p, err := plan.Read("m.plan.json")
		require.NoError(t, err)
		require.NotEmpty(t, p.Warnings)
		return p.Warnings
	}
	r := done(t, "calibrate", "m.onnx", "--data", "synthetic:4", "--platform", "trt_int8")
	all := ""
	for _, w := range warnings() {
		require.Contains(t, r.stderr, w.Text)
		all += w.Text
	}
	require.Contains(t, all, "synthetic")
	for _, args := range [][]string{{"dispatch", "--fp32", "type:Gemm"}, {"dispatch", "--reset"},
		{"analyze", "--statistical", "--samples", "2", "--json"}} {
		before := warnings()
		r := done(t, args...)
		require.NotContains(t, r.stderr, "warnings that came with the plan: ", args)
		for _, w := range before {
			require.Contains(t, done(t, "plan", "show", "m.plan.json").stdout, w.Text)
		}
		for _, w := range before[1:] {
			require.NotContains(t, r.stderr, w.Text, args)
		}
		require.NotContains(t, r.stderr, "warning: "+before[0].Text, args)
		if args[0] == "analyze" {
			said := r.stdout
			for _, w := range before {
				require.Contains(t, said, w.Text, "JSON has all of them")
			}
		}
		for _, w := range warnings() {
			if !slices.Contains(before, w) {
				require.Contains(t, r.stderr, w.Text, args)
			}
		}
	}
}

// Names of nodes of several hundred letters made warnings unreadable.
func TestWarningsShortenNames(t *testing.T) {
	var stderr bytes.Buffer
	name := strings.Repeat("Wire/Frame/Model/", 20) + "Conv2D:0"
	events{&env{stderr: &stderr}}.Warning(tqc.Warning{Node: name, Text: "ranges move"})
	require.Contains(t, stderr.String(), "Model/Conv2D:0: ranges move\n")
	require.Less(t, stderr.Len(), 100)
}

// A flag of calibrate that an earlier decision overrules is not passed over in silence.
func TestCalibratingAgainSaysWhatStands(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8")
	require.NotContains(t, done(t, "calibrate", "m.onnx", "--platform", "trt_int8", "--observer", "minmax").stderr, "stand over")
	done(t, "set", "*", "observer=percentile")
	r := done(t, "calibrate", "m.onnx", "--platform", "trt_int8", "--observer", "kl")
	require.Contains(t, r.stderr, "1 earlier decisions about operators and tensors stay in force")
}
