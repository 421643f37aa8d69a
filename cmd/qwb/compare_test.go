package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// contested is a workplace with plans a (percentile) and b (minmax), an export of a, what it answers on 24 samples, and their labels.
func contested(t *testing.T) {
	t.Helper()
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--observer", "percentile(0.9)", "-o", "a.plan.json")
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--observer", "minmax", "-o", "b.plan.json")
	done(t, "export", "a.plan.json", "--platform", "trt_int8", "-o", "a.onnx")
	saveInputs(t, "eval", 900, 24, 1, 3, 8, 8)
	var labels strings.Builder
	for i := range 24 {
		fmt.Fprintf(&labels, "%02d.npy\t%d\n", i, i%10)
	}
	require.NoError(t, os.WriteFile("labels.tsv", []byte(labels.String()), 0o644))
}

func TestCompare(t *testing.T) {
	contested(t)
	pairs := func(args ...string) []any {
		return done(t, append(append([]string{"compare"}, args...), "--json")...).object(t)["pairs"].([]any)
	}
	get := func(p any, key string) any { return p.(map[string]any)[key] }

	all := pairs("a.plan.json", "b.plan.json", "a.onnx", "m.onnx", "--data", "eval")
	require.Len(t, all, 6)
	require.Equal(t, []any{"a.plan.json", "b.plan.json"}, []any{get(all[0], "a"), get(all[0], "b")})
	require.Equal(t, true, get(all[0], "nsr_significant"), "a clips a tenth")
	require.Negative(t, get(all[0], "nsr_change"))
	require.NotEmpty(t, get(all[0], "layers"))
	require.Equal(t, 0.0, get(all[1], "apart"), "a plan and its export")
	require.Equal(t, 1.0, get(all[1], "nsr_p"))

	e := done(t, "eval", "a.plan.json", "--data", "eval", "--labels", "labels.tsv", "--mode", "sim", "--json").object(t)
	o := done(t, "compare", "m.onnx", "a.plan.json", "--data", "eval", "--labels", "labels.tsv", "--json").object(t)
	p := o["pairs"].([]any)[0]
	require.Equal(t, e["drop"], get(p, "drop"), "float and a plan: as eval says")
	require.Equal(t, e["flips"], get(p, "flips"))
	require.Nil(t, o["agreement"])

	for _, mode := range []string{"sim", "int8"} {
		done(t, "run", "a.plan.json", "--mode", mode, "--data", "eval", "-o", mode)
		p := pairs("a.plan.json", mode, "--mode", mode, "--data", "eval")[0]
		require.Equal(t, 0.0, get(p, "apart"), "what run recorded")
	}
	text := done(t, "compare", "a.plan.json", "b.plan.json", "sim", "--data", "eval").stdout
	require.True(t, strings.HasPrefix(text, "By top1: "), text)
	require.Contains(t, text, "top1, fp32 taken for right")
	require.Contains(t, done(t, "compare", "b.plan.json", "a.plan.json", "--data", "eval").stdout, "a.plan.json")
}

func TestCompareRefuses(t *testing.T) {
	contested(t)
	done(t, "run", "a.plan.json", "--mode", "sim", "--data", "eval", "-o", "out")
	require.NoError(t, os.Remove("out/00003_03.npy"))
	fails(t, exitUsage, "two or more", "compare", "a.plan.json")
	fails(t, exitUsage, "nothing says which float network", "compare", "a.onnx", "out", "--data", "eval")
	fails(t, exitFailed, "quantized model", "compare", "a.onnx", "out", "--float", "a.onnx", "--data", "eval")
	fails(t, exitFailed, "sample 03.npy: out: there are no outputs for it: neither out/00003_03 nor out/03", "compare", "a.plan.json", "out",
		"--data", "eval")
	fails(t, exitFailed, `output "y" is f32\[1,3,8,8\]: one row is needed for each of the 24 samples`, "compare", "a.plan.json", "eval/00.npy",
		"--data", "eval")
	fails(t, exitUsage, `no metric "top"`, "compare", "a.plan.json", "b.plan.json", "--data", "eval", "--metric", "top")
	fails(t, exitUsage, "--layers -1", "compare", "a.plan.json", "b.plan.json", "--layers", "-1")
	fails(t, exitUsage, "unknown --mode", "compare", "a.plan.json", "b.plan.json", "--mode", "fp32")
	fails(t, exitFailed, "no.plan.json", "compare", "a.plan.json", "no.plan.json")
	write(t, "few.tsv", []byte("00.npy\t1\n"))
	fails(t, exitFailed, "23 of 24 samples have no label", "compare", "a.plan.json", "b.plan.json", "--data", "eval", "--labels", "few.tsv")
}
