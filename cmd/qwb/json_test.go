package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// keys are those that the contract of --json fixes, per command; objects in lists by a path with [].
var keys = []struct {
	args []string
	keys map[string][]string
}{
	{[]string{"inspect", "m.onnx"}, map[string][]string{
		"":          {"model", "opset", "inputs", "outputs", "nodes", "parameters", "macs", "unsupported"},
		"inputs[]":  {"name", "dtype", "shape"},
		"outputs[]": {"name", "dtype", "shape"},
		"nodes[]":   {"name", "op", "inputs", "outputs", "shape", "macs", "bytes", "intensity"},
	}},
	{[]string{"inspect", "m.onnx", "--platform", "onnxruntime", "--model-explorer", "where.json"}, map[string][]string{
		"support":          {"platform", "format", "engine", "profile", "known", "tried", "counts", "nodes"},
		"support.counts[]": {"where", "nodes", "macs"},
		"support.nodes[]":  {"node", "op", "tensor", "where", "rule", "reason", "macs"},
	}},
	{[]string{"calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8"}, map[string][]string{
		"": {"plan", "stats", "samples", "seconds", "forward_seconds", "peak_rss_bytes", "warnings"},
	}},
	{[]string{"analyze"}, map[string][]string{
		"":              {"graphwise", "layerwise", "statistical", "seconds", "forwards"},
		"graphwise[]":   {"node", "op", "nsr", "mse", "cosine"},
		"layerwise[]":   {"node", "op", "nsr", "mse", "cosine", "local", "clip", "round"},
		"statistical[]": {"tensor", "min", "max", "mean", "std", "zeros"},
	}},
	{[]string{"dispatch", "--auto", "--max-nsr", "0.0001", "--force"}, map[string][]string{
		"": {"plan", "fp32", "evaluations", "before", "after", "goal", "fit", "claimed", "needed", "refused", "formats"},
	}},
	{[]string{"eval", "m.onnx", "--data", "data", "--labels", "labels.tsv"}, map[string][]string{
		"": {"mode", "n", "top1", "top5", "seconds"},
	}},
	{[]string{"eval", "m.plan.json", "--labels", "labels.tsv", "--mode", "sim"}, map[string][]string{
		"": {"mode", "backend", "n", "top1", "top5", "seconds", "flips", "flip_rate", "drop", "drop_error"},
	}},
	{[]string{"export", "--platform", "trt_int8", "-o", "out.onnx"}, map[string][]string{
		"": {"platform", "file", "sha256", "warnings"},
	}},
	{[]string{"version"}, map[string][]string{"": {"version", "revision", "go", "platform", "cpu", "cuda"}}},
}

// With --json, standard output is one object with all the keys, and no list is null.
func TestJSON(t *testing.T) {
	workplace(t)
	write(t, "labels.tsv", []byte("00.npy\t3\n01.npy\t1\n02.npy\t0\n03.npy\t9\n"))
	for _, c := range keys {
		o := done(t, append(slices.Clone(c.args), "--json")...).object(t)
		for at, want := range c.keys {
			for _, part := range parts(t, o, at) {
				have := slices.Collect(maps.Keys(part))
				require.Subsetf(t, have, want, "qwb %v: %s", c.args, at)
				for _, k := range want {
					require.NotNilf(t, part[k], "qwb %v: %s %s is null", c.args, at, k)
				}
			}
		}
	}
}

// parts returns the object itself, an object in it, or the objects of a list in it, of which there has to be one.
func parts(t *testing.T, o map[string]any, at string) []map[string]any {
	if in, rest, deeper := strings.Cut(at, "."); deeper {
		return parts(t, o[in].(map[string]any), rest)
	}
	if at == "" {
		return []map[string]any{o}
	}
	if !strings.HasSuffix(at, "[]") {
		return []map[string]any{o[at].(map[string]any)}
	}
	list, ok := o[at[:len(at)-2]].([]any)
	require.Truef(t, ok && len(list) > 0, "%s is %v", at, o[at[:len(at)-2]])
	var out []map[string]any
	for _, e := range list {
		m, ok := e.(map[string]any)
		require.True(t, ok, at)
		out = append(out, m)
	}
	return out
}

// The numbers are the ones the text shows, and hang together.
func TestJSONContent(t *testing.T) {
	calibrated(t)
	o := done(t, "analyze", "--json", "--layerwise", "--samples", "2").object(t)
	for _, p := range parts(t, o, "layerwise[]") {
		require.InDelta(t, p["local"], p["clip"].(float64)+p["round"].(float64), 1e-9, p["node"])
		require.GreaterOrEqual(t, p["nsr"], 0.0)
	}
	require.Empty(t, o["graphwise"])
	require.Empty(t, o["statistical"])
	e := done(t, "export", "--platform", "trt_int8", "--json").object(t)
	require.Equal(t, "m.trt_int8.onnx", e["file"])
	require.Contains(t, tree(t, ".")["m.trt_int8.onnx"], e["sha256"])
	i := done(t, "inspect", "m.onnx", "--json").object(t)
	require.EqualValues(t, 16*3*9*64+16*16*9*64+10*2048, i["macs"])
	require.EqualValues(t, 16*27+16+16*16*9+16+10*2048+10, i["parameters"])
}
