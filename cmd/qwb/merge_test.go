package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Parts of a calibration, in any order and by any number of threads, give the statistics and the plan of one run.
func TestMergeOfCalibrationParts(t *testing.T) {
	tunable(t, "onnxruntime")
	stats, plan := read(t, "m.stats"), read(t, "m.plan.json")
	for i := range 3 {
		r := done(t, "calibrate", "m.onnx", "--data", "data", "--shard", fmt.Sprintf("%d/3", i+1), "-o", fmt.Sprintf("p%d", i), "--threads",
			fmt.Sprint(1+3*i), "--json").object(t)
		require.EqualValues(t, 16, r["samples"])
		require.EqualValues(t, 48, r["total"])
	}
	r := done(t, "merge", "p2", "p0", "p1", "-o", "all.stats", "--json").object(t)
	require.EqualValues(t, 3, r["parts"])
	require.EqualValues(t, 48, r["samples"])
	require.Equal(t, stats, read(t, "all.stats"))
	require.NoError(t, os.Remove("m.plan.json"))
	done(t, "merge", "p0", "p1", "p2", "-o", "m.stats")
	done(t, "calibrate", "m.onnx", "--platform", "onnxruntime")
	require.Equal(t, plan, read(t, "m.plan.json"))

	done(t, "calibrate", "m.onnx", "--data", "data", "--shard", "1/2", "-o", "half")
	done(t, "calibrate", "m.onnx", "--data", "data", "--shard", "1/3", "--samples", "30", "-o", "fewer")
	for want, args := range map[string]string{
		"part 2 of 3 is missing":              "p0 p2",
		"p0 and p0 are both part 1/3":         "p0 p1 p0 p2",
		"it is one of 2 parts":                "p0 p1 half",
		"fewer is not a part of the same run": "p1 fewer p2",
		"fewer .* same run as p1":             "fewer p1 p2",
		"fewer and p1 are parts of diff":      "fewer p1",
		"not a part that qwb":                 "m.stats p0",
		"m.stats: not a part":                 "p0 m.stats",
		"no such file":                        "p0 p9",
	} {
		fails(t, exitFailed, want, append(append([]string{"merge"}, strings.Fields(args)...), "-o", "x.stats")...)
	}
	fails(t, exitFailed, "qwb merge puts all parts together", "calibrate", "m.onnx", "--platform", "onnxruntime", "--merge",
		"p0", "--fresh")
	fails(t, exitFailed, "would be replaced", "merge", "p0", "p1", "p2", "-o", "m.onnx")
	fails(t, exitUsage, `part I of N`, "calibrate", "m.onnx", "--data", "data", "--shard", "4/3", "-o", "x")
	fails(t, exitUsage, `needs -o`, "calibrate", "m.onnx", "--data", "data", "--shard", "1/3")
	fails(t, exitUsage, `needs --data`, "calibrate", "m.onnx", "--shard", "1/3", "-o", "x")
	fails(t, exitUsage, `merge needs -o`, "merge", "p0")
	fails(t, exitUsage, `merge takes`, "merge")
}

// Parts of Gram statistics, in any order, by any number of threads and in any number of passes, give those of one run.
func TestMergeOfGramParts(t *testing.T) {
	tunable(t, "onnxruntime")
	plan := read(t, "m.plan.json")
	r := done(t, "tune", "--shard", "1/1", "-o", "whole", "--threads", "1", "--json").object(t)
	require.EqualValues(t, 48, r["samples"])
	require.EqualValues(t, 4, r["operators"])
	require.EqualValues(t, 1, r["passes"])
	require.InDelta(t, 24, r["held_out"], 12)
	for i := range 3 {
		args := []string{"tune", "--shard", fmt.Sprintf("%d/3", i+1), "-o", fmt.Sprintf("p%d", i), "--threads", fmt.Sprint(1 + 3*i)}
		done(t, args...)
	}
	done(t, "merge", "p1", "p2", "p0", "-o", "all")
	require.Equal(t, read(t, "whole"), read(t, "all"))
	require.Equal(t, plan, read(t, "m.plan.json"))
	done(t, "merge", "whole", "-o", "again")
	require.Equal(t, read(t, "whole"), read(t, "again"))

	done(t, "tune", "--shard", "1/2", "-o", "half")
	done(t, "tune", "--shard", "1/3", "--samples", "30", "-o", "fewer")
	for want, args := range map[string]string{
		"part 2 of 3 is missing":              "p0 p2",
		"p0 and p0 are both part 1 of 3":      "p0 p1 p0 p2",
		"it is one of 2 parts":                "p0 p1 half",
		"fewer is not a part of the same run": "p1 fewer p2",
		"fewer .* same run as p1":             "fewer p1 p2",
		"fewer and p1 are parts of diff":      "fewer p1",
		"not a file of Gram statistics":       "p0 m.stats",
	} {
		fails(t, exitFailed, want, append(append([]string{"merge"}, strings.Fields(args)...), "-o", "x")...)
	}
	b := read(t, "p1")
	b[len(b)/2] ^= 1
	write(t, "p1", b)
	fails(t, exitFailed, "p1.*damaged", "merge", "p0", "p1", "p2", "-o", "x")
	fails(t, exitUsage, "tunes nothing", "tune", "--shard", "1/2", "--method", "bias", "-o", "x")
	fails(t, exitUsage, "needs -o", "tune", "--shard", "1/2")
	fails(t, exitUsage, "-o needs --shard", "tune", "--method", "bias", "-o", "x")
	fails(t, exitFailed, "would be replaced", "tune", "--shard", "1/2", "-o", "m.stats")
}

// Rounding on Gram statistics takes no sample to fit on and is as good as rounding on samples, about; what needs a quantized prefix is
// refused.
func TestTuneOnGramStatistics(t *testing.T) {
	tunable(t, "onnxruntime")
	done(t, "set", "*", "weights=int8-sym-tensor")
	done(t, "tune", "--shard", "1/1", "-o", "g")
	done(t, "tune", "--shard", "1/2", "-o", "half")
	for want, args := range map[string]string{
		"bias: needs samples of the quantized graph.*--gram works with bias-analytic, gptq": "--method bias,gptq --gram g",
	} {
		fails(t, exitUsage, want, append([]string{"tune"}, strings.Fields(args)...)...)
	}
	fails(t, exitFailed, "part 1 of 2: combine all parts with qwb merge", "tune", "--method", "gptq", "--gram", "half")
	fails(t, exitFailed, "m.stats: this is a file of statistics, not a file of Gram statistics", "tune", "--method", "gptq",
		"--gram", "m.stats")

	saveModel(t, "other.onnx", strings.ReplaceAll(means, "seed=2", "seed=20"))
	done(t, "calibrate", "other.onnx", "--data", "data", "--platform", "onnxruntime")
	fails(t, exitFailed, "of another model", "tune", "other.plan.json", "--method", "gptq", "--gram", "g")

	plan := read(t, "m.plan.json")
	nsr := func(r map[string]any, at string) float64 { return r[at].(map[string]any)["nsr"].(float64) }
	r := done(t, "tune", "m.plan.json", "--method", "gptq", "--gram", "g", "--threads", "1", "--json").object(t)
	require.Equal(t, r["held_out"], r["samples"], "no sample to fit on is read")
	require.NotEmpty(t, r["overlay"])
	require.Less(t, nsr(r, "after"), nsr(r, "before"))
	tuned := read(t, r["overlay"].(string))

	write(t, "m.plan.json", plan)
	again := done(t, "tune", "m.plan.json", "--method", "gptq", "--gram", "g", "--threads", "3", "--json").object(t)
	require.Equal(t, tuned, read(t, again["overlay"].(string)))

	write(t, "m.plan.json", plan)
	auto := done(t, "tune", "m.plan.json", "--method", "auto", "--gram", "g", "--json")
	require.Regexp(t, "skipped.*: .*\\bbias\\b", auto.stderr)
	require.LessOrEqual(t, nsr(auto.object(t), "after"), nsr(r, "before"))
}
