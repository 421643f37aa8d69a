package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
)

var benchKeys = []string{"name", "backend", "threads", "batch", "mode", "seconds", "gops", "share_of_peak", "min_seconds", "max_seconds",
	"rounds", "quiet_rounds", "foreign_cpu"}

// brief keeps a benchmark short.
var brief = []string{"--rounds", "2", "--span", "1ms", "--json"}

func TestBenchJSON(t *testing.T) {
	calibrated(t)
	for _, c := range []struct {
		args       string
		keys, more []string // of the object, and of each result
		results    int
	}{
		{"bench kernels --only ^add.n=32768", nil, []string{"speed", "unit", "peak", "peak_speed"}, 0},
		{"bench model m.onnx --threads 1", []string{"model", "macs", "ratios", "peak_rss_bytes"}, []string{"peak"}, 1},
		{"bench model m.plan.json --mode sim,fp32,int8 --threads 2", []string{"ratios"}, nil, 3},
		{"bench model m.plan.json --mode int8 --threads 1", []string{"macs"}, nil, 1},
		{"bench calibration m.onnx --data data", []string{"model", "samples", "peak_rss_bytes"}, []string{"over_forward", "observe_seconds"}, 6},
		{"bench layerwise m.plan.json --threads 1 --samples 2", []string{"plan", "samples", "operators", "forwards", "forwards_counted",
			"bound_macs", "bound_time", "naive", "ppq", "peak_rss_bytes"}, nil, 2},
	} {
		o := done(t, append(strings.Fields(c.args), brief...)...).object(t)
		for _, k := range append(c.keys, "machine") {
			require.NotNilf(t, o[k], "%s: %s", c.args, k)
		}
		for _, k := range []string{"cpu", "isa", "cores"} {
			require.NotEmptyf(t, o["machine"].(map[string]any)[k], "%s: machine %s", c.args, k)
		}
		results := parts(t, o, "results[]")
		require.Truef(t, c.results == 0 || len(results) == c.results, "%s: %d results", c.args, len(results))
		for _, r := range results {
			for _, k := range append(c.more, benchKeys...) {
				require.Containsf(t, r, k, "%s", c.args)
			}
			require.EqualValuesf(t, 2, r["rounds"], "%s", c.args)
		}
	}
}

// One row of each operation is the one that is used, and a speed is the work over the time.
func TestBenchKernels(t *testing.T) {
	o := done(t, append(strings.Fields("bench kernels --only ^gemm.m=512|^limit.n=32768"), brief...)...).object(t)
	picked := map[any]int{}
	for _, r := range parts(t, o, "results[]") {
		if r["picked"] == true {
			picked[r["name"]]++
		}
		work := map[any]float64{"gemm m=512 n=512 k=512": 2 * 512 * 512 * 512, "limit n=32768": 8 * 32768}[r["name"]]
		require.InEpsilon(t, work/r["seconds"].(float64)/1e9, r["speed"], 1e-9, r["backend"])
	}
	require.Equal(t, map[any]int{"gemm m=512 n=512 k=512": 1, "limit n=32768": 1}, picked)
}

// Every operator of the network is in one step, and the steps' work is the network's.
func TestBenchPerNode(t *testing.T) {
	workplace(t)
	o := done(t, append(strings.Fields("bench model m.onnx --threads 1 --per-node"), brief...)...).object(t)
	operators, share, macs, last := map[string]int{}, 0.0, 0.0, 1e9
	for _, n := range parts(t, o, "nodes[]") {
		operators[n["op"].(string)]++
		if fused, ok := n["fused"].([]any); ok {
			for _, f := range fused {
				operators[f.(string)]++
			}
		}
		share += n["share"].(float64)
		macs += n["macs"].(float64)
		require.LessOrEqual(t, n["seconds"], last, "slowest first")
		last = n["seconds"].(float64)
		require.Positive(t, n["bytes"], n["node"])
		require.Contains(t, []any{"compute", "memory"}, n["bound"])
	}
	require.Equal(t, 2, operators["Conv"])
	require.Equal(t, 1, operators["Gemm"])
	require.Equal(t, 1, operators["MaxPool"])
	require.InDelta(t, 1, share, 1e-9)
	require.Equal(t, o["macs"], macs)
	require.EqualValues(t, 16*3*9*64+16*16*9*64+10*2048, macs)
	require.Len(t, o["read_bandwidth"], 4)
}

// A batch is as many times the work.
func TestBenchBatch(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", "graph g\nopset 17\ninput x: f32[N,64]\nconst w: f32[64,10] = normal(seed=1)\ny = MatMul(x, w)\n"+
		"output y: f32[N,10]\n")
	o := done(t, append(strings.Fields("bench model m.onnx --batch 3"), brief...)...).object(t)
	require.EqualValues(t, 3*640, o["macs"])
	require.EqualValues(t, 3, parts(t, o, "results[]")[0]["batch"])
}

// The least that analysis can cost: of conv1, conv2 and gemm in a row with their shares of the work.
func TestBenchLayerwise(t *testing.T) {
	calibrated(t)
	o := done(t, append(strings.Fields("bench layerwise m.plan.json --threads 1"), brief...)...).object(t)
	first, second, third := 16.*3*9*64, 16.*16*9*64, 10.*2048
	total := first + second + third
	var want float64
	for _, l := range parts(t, done(t, "analyze", "--layerwise", "--json", "--samples", "1").object(t), "layerwise[]") {
		want += map[any]float64{"conv1": total, "conv2": second + third, "add": third, "max": third, "concat": third, "gemm": third}[l["node"]]
	}
	require.Greater(t, want, total)
	require.InDelta(t, 1+want/total, o["bound_macs"].(map[string]any)["suffix"], 1e-9)
}

// --paced answers line by line.
func TestBenchPaced(t *testing.T) {
	workplace(t)
	var out, messages bytes.Buffer
	root := newRoot(&env{stdout: &out, stderr: &messages})
	root.SetArgs(strings.Fields("bench model m.onnx --paced --threads 1 --span 1ms"))
	root.SetIn(strings.NewReader("\n\n"))
	require.NoError(t, root.ExecuteContext(context.Background()), messages.String())
	lines := json.NewDecoder(&out)
	var ready struct {
		Ready bool
	}
	require.NoError(t, lines.Decode(&ready))
	require.True(t, ready.Ready)
	for range 2 {
		var x struct {
			Seconds float64
		}
		require.NoError(t, lines.Decode(&x))
		require.Positive(t, x.Seconds)
	}
	require.False(t, lines.More())
}

func TestBenchText(t *testing.T) {
	calibrated(t)
	for args, want := range map[string]string{
		"bench kernels --only ^add.n=32768":                   `(?m)^ +add n=32768 +\*? +add-`,
		"bench model m.plan.json --mode fp32,sim --per-node":  `(?s)sim takes [\d.]+ of fp32 .*of roofline.* gemm`,
		"bench calibration m.onnx --data data":                `(?m)^ +all-methods .*(?s).*4 samples, peak memory`,
		"bench layerwise m.plan.json --samples 2 --threads 2": `\d+ operators, 2 samples: `,
	} {
		r := done(t, append(strings.Fields(args), "--rounds", "1", "--span", "1ms")...)
		require.Regexp(t, want, r.stdout)
	}
}

func TestBenchMistakes(t *testing.T) {
	calibrated(t)
	saveInputs(t, "one", 1, 1, 1, 3, 8, 8)
	saveModel(t, "joined.onnx", "input x: f32[1,4]\nconst c: f32[1,4] = fill(1)\ny: f32[2,4] = Concat(x, c) {axis=0} \"join\"\noutput y\n")
	for _, c := range []struct {
		code       int
		args, want string
	}{
		{exitUsage, "bench", `bench takes what to measure: kernels, model, cuda, calibration, layerwise, generate, checkpoint or device`},
		{exitUsage, "bench speed", `unknown benchmark "speed"`},
		{exitUsage, "bench kernels --only [", `--only: .*missing closing`},
		{exitUsage, "bench kernels --only nothing", `--only "nothing": no case and row of that name`},
		{exitUsage, "bench kernels --rounds 0", `--rounds 0`},
		{exitUsage, "bench model", `model takes one model or plan, not 0 arguments`},
		{exitUsage, "bench model m.onnx --mode int4", `--mode int4: one of fp32, sim, int8`},
		{exitUsage, "bench model m.onnx --mode int8", `--mode int8 needs a plan; calibrate m\.onnx first`},
		{exitUsage, "bench model m.plan.json --mode int8,fp32 --per-node", `--per-node needs fp32 or sim as the first mode`},
		{exitUsage, "bench model m.onnx --mode sim", `--mode sim needs a plan; calibrate m\.onnx first`},
		{exitUsage, "bench model m.plan.json --mode sim,sim", `sim is named twice`},
		{exitUsage, "bench model m.onnx --paced --per-node", `--paced takes one mode and no --per-node`},
		{exitUsage, "bench layerwise m.onnx", `layerwise takes a plan; calibrate m\.onnx first`},
		{exitFailed, "bench model none.onnx", `none\.onnx`},
		{exitFailed, "bench model joined.onnx --batch 2", `batch: node "join" .*does not have the samples of a batch`},
		{exitFailed, "bench calibration m.onnx --data one", `1 samples are too few`},
	} {
		fails(t, c.code, c.want, strings.Fields(c.args)...)
	}
}

// A benchmark can be interrupted.
func TestBenchInterrupted(t *testing.T) {
	workplace(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := invokeContext(ctx, watcher{}, "bench", "model", "m.onnx")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "qwb: interrupted", r.lastLine())
}

// The peaks of this machine as a device file, which reads back.
func TestBenchDevice(t *testing.T) {
	inFolder(t)
	done(t, "bench", "device", "--threads", "1", "--rounds", "2", "--span", "1ms", "-o", "device.yaml")
	text, err := os.ReadFile("device.yaml")
	require.NoError(t, err)
	d, err := analysis.ParseDevice(text)
	require.NoError(t, err)
	for _, format := range []string{"fp32", "int16", "int8"} {
		require.Positive(t, d.GOPS[format], format)
	}
	require.Len(t, d.Read, 4)
	fails(t, exitUsage, "bench device needs -o: the file to write", "bench", "device")
}
