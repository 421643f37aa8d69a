package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// Formats of one layer of a trained network: decided, simulated, exported and taken back to the bytes that were there. Fewer bits are worse
// at the operator, and the noise is the same for any number of threads.
func TestFormatsOfSqueezenet(t *testing.T) {
	longtest.Need(t, "a trained network")
	model := shared(t, "models", "classifiers", "squeezenet1.0.onnx")
	data := shared(t, "data", "pets", "calibration")
	platform, err := filepath.Abs("../../examples/formats/formats.yaml")
	require.NoError(t, err)
	inFolder(t)
	done(t, "calibrate", model, "--data", data, "--samples", "2", "--seed", "1", "--preprocess", "imagenet-caffe", "--platform", platform,
		"-o", "m.plan.json")
	before := read(t, "m.plan.json")
	nsr := func(threads string, words ...string) float64 {
		t.Helper()
		done(t, slices.Concat([]string{"set", "m.plan.json", "Conv_fire9/expand3x3_1"}, words)...)
		var r struct {
			Graphwise []struct {
				Node string  `json:"node"`
				NSR  float64 `json:"nsr"`
			} `json:"graphwise"`
		}
		require.NoError(t, json.Unmarshal([]byte(done(t, "analyze", "m.plan.json", "--graphwise", "--samples", "2", "--threads", threads,
			"--json").stdout), &r))
		done(t, "plan", "undo", "m.plan.json")
		for _, g := range r.Graphwise {
			if g.Node == "Conv_fire9/expand3x3_1" {
				return g.NSR
			}
		}
		t.Fatal("the operator is not in the report")
		return 0
	}
	noise := map[string]float64{}
	for _, w := range []string{"int16-sym-channel", "int8-sym-channel", "e4m3-sym-channel", "int4-sym-g32", "e2m1-sym-nv16", "e2m1-sym-mx32",
		"nf4-sym-g64", "int2-sym-g32"} {
		noise[w] = nsr("1", "weights="+w)
		require.Equal(t, noise[w], nsr("7", "weights="+w), w)
	}
	for _, w := range []string{"int4-sym-g32", "e2m1-sym-mx32", "nf4-sym-g64"} {
		require.Less(t, noise["int16-sym-channel"], noise[w], w)
		require.Less(t, noise[w], noise["int2-sym-g32"], w)
	}
	for _, a := range []string{"int16-sym-tensor", "e4m3-sym-tensor", "e4m3-sym-dynamic-tensor", "e2m1-sym-nv16"} {
		require.Equal(t, nsr("1", "activations="+a), nsr("7", "activations="+a), a)
	}
	done(t, "plan", "gc", "m.plan.json")
	after := read(t, "m.plan.json")
	var x, y map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(before, &x))
	require.NoError(t, json.Unmarshal(after, &y))
	delete(y, "redo")
	require.Equal(t, x, y, "undone")
}
