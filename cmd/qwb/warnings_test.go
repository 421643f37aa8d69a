package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/plan"
)

// What a plan says about its scales is the same on standard error and in the plan, and another dispatch does not lose it.
func TestWarningsOfAPlanAreSaidAndStay(t *testing.T) {
	calibrated(t)
	for _, args := range [][]string{
		{"calibrate", "m.onnx", "--data", "synthetic:4", "--platform", "trt_int8"},
		{"dispatch", "--fp32", "type:Gemm"},
		{"dispatch", "--reset"},
	} {
		r := done(t, args...)
		p, err := plan.Read("m.plan.json")
		require.NoError(t, err)
		require.NotEmpty(t, p.Warnings, args)
		all := ""
		for _, w := range p.Warnings {
			require.Contains(t, r.stderr, w.Text, args)
			all += w.Text
		}
		require.Contains(t, all, "synthetic", args)
	}
	r := done(t, "analyze", "--statistical", "--samples", "2", "--json")
	for _, w := range parts(t, r.object(t), "warnings[]") {
		require.Contains(t, r.stderr, w["text"])
	}
}
