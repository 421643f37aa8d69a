package qwb

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// everyFormat are the schemes that the platform of these tests takes beside those of onnxruntime.
var everyFormat = struct{ weights, activations []string }{
	weights: []string{"int2-sym-g4", "int4-sym-g3", "int12-sym-channel", "e4m3-sym-g4", "e5m2-sym-channel-pow2", "e2m1-sym-tensor",
		"e2m1-sym-channel", "nf4-sym-channel",
		"nf4-sym-g64", "int8-sym-mx32", "e4m3-sym-mx32ceil", "e5m2-sym-mx32", "e2m1-sym-mx32", "e2m1-sym-mx32ceil", "e2m1-sym-nv16"},
	activations: []string{"e2m1-sym-tensor", "nf4-sym-tensor", "e4m3-sym-tensor-pow2", "e4m3-sym-dynamic-tensor", "uint16-asym-dynamic-tensor",
		"int8-sym-g4", "uint8-asym-g4", "nf4-sym-g64", "int8-sym-mx32", "e4m3-sym-mx32", "e5m2-sym-mx32ceil", "e2m1-sym-mx32", "e2m1-sym-nv16"},
}

// formatsPlatform writes formats.yaml: onnxruntime with every format and without the rules of an engine.
func formatsPlatform(t *testing.T, p *Project) {
	t.Helper()
	tg, err := p.Target("onnxruntime")
	require.NoError(t, err)
	own := *tg
	own.Name, own.Export = "formats", target.Export{MinOpset: 13, Open: true}
	all := own.Defaults()
	for to, texts := range map[*[]tqc.Scheme][]string{&all.Weight: everyFormat.weights, &all.Activation: everyFormat.activations} {
		list := append([]tqc.Scheme(nil), *to...)
		for _, text := range texts {
			s, err := tqc.ParseScheme(text)
			require.NoError(t, err)
			if !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
		*to = list
	}
	own.Schemes = all
	own.Ops = append([]target.Op(nil), own.Ops...)
	for i := range own.Ops {
		own.Ops[i].Schemes = target.Schemes{}
	}
	put(t, p.job().Files(), "formats.yaml", own.YAML())
}

// Every format of weights and activations is decided, derives to the same plan again whatever the number of threads, is simulated, and
// taken back.
func TestFormatsAreDecided(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	formatsPlatform(t, p)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "formats.yaml", Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	before := withoutRedo(t, p)
	tg, err := p.Target("onnxruntime")
	require.NoError(t, err)
	var words []string
	for key, lists := range map[string][]string{"weights": everyFormat.weights, "activations": everyFormat.activations} {
		own := tg.Schemes.Weight
		if key == "activations" {
			own = tg.Schemes.Activation
		}
		for _, s := range own {
			lists = append(lists, s.String())
		}
		for _, s := range lists {
			words = append(words, key+"="+s)
		}
	}
	slices.Sort(words)
	seen, tried := map[string]bool{}, 0
	for i, word := range words {
		if i%4 != 0 && !longtest.Wanted(t) {
			continue
		}
		tried++
		for _, selector := range []string{"type:Conv", "gemm"} {
			if strings.HasSuffix(word, "dynamic-token") && selector != "gemm" {
				continue
			}
			_, _, err := p.Set(ctx, selector, []string{word}, 1)
			require.NoError(t, err, "%s %s", selector, word)
			derivesAgain(t, p)
			one, text := simulatedNSR(t, p, 1), withoutRedo(t, p)
			require.False(t, math.IsNaN(one) || math.IsInf(one, 0), "%s %s", selector, word)
			require.Equal(t, one, simulatedNSR(t, p, 7), "%s %s: threads", selector, word)
			_, _, err = p.Undo(ctx, 1)
			require.NoError(t, err)
			require.Equal(t, before, withoutRedo(t, p), "%s %s", selector, word)
			_, _, err = p.Redo(ctx, 7)
			require.NoError(t, err)
			require.Equal(t, text, withoutRedo(t, p), "%s %s: threads", selector, word)
			_, _, err = p.Undo(ctx, 1)
			require.NoError(t, err)
			seen[fmt.Sprintf("%s %g", selector, one)] = true
		}
	}
	require.Greater(t, len(seen), 3*tried/2, "formats give numbers of their own")
}

// simulatedNSR is the noise of the plan's simulation at the first output.
func simulatedNSR(t *testing.T, p *Project, threads int) float64 {
	t.Helper()
	r, _, err := p.Analyze(context.Background(), AnalyzeOptions{Config: analysis.Config{Graphwise: true, Threads: threads}})
	require.NoError(t, err)
	return r.Outputs[0].NSR
}

// Floats of less precision are domains: the simulation rounds, more the fewer bits there are, what is computed together goes along, the
// plan keeps it, and so do programs and files, as tensors of that type or rounded by Casts, unless told otherwise.
func TestFloatDomainsAreDecided(t *testing.T) {
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	nsr := map[string]float64{}
	for _, d := range []string{"fp32", "tf32", "fp16", "bf16"} {
		_, _, err := p.Set(ctx, "*", []string{"domain=" + d}, 1)
		require.NoError(t, err)
		derivesAgain(t, p)
		nsr[d] = simulatedNSR(t, p, 1)
		for _, n := range planIn(t, p).Nodes {
			require.Equal(t, strings.ToUpper(d), n.Domain.String(), n.Name)
		}
	}
	require.Zero(t, nsr["fp32"])
	require.Greater(t, nsr["tf32"], 0.0)
	require.Greater(t, nsr["fp16"], 0.0)
	require.Greater(t, nsr["bf16"], 10*nsr["fp16"])
	_, _, err = p.Set(ctx, "*", []string{"domain=int"}, 1)
	require.NoError(t, err)
	_, _, err = p.Set(ctx, "relu1", []string{"domain=fp16"}, 1)
	require.Error(t, err, "decided int with its operator")
	_, _, err = p.Unset(ctx, "*", 1)
	require.NoError(t, err)
	_, _, err = p.Set(ctx, "conv1", []string{"domain=fp16"}, 1)
	require.NoError(t, err)
	domains := map[string]string{}
	for _, n := range planIn(t, p).Nodes {
		domains[n.Name] = n.Domain.String()
	}
	require.Equal(t, "FP16", domains["conv1"])
	require.Equal(t, "FP16", domains["relu1"], "computed together")
	v, _, err := p.Verify(ctx, VerifyOptions{Threads: 1})
	require.NoError(t, err)
	require.Equal(t, analysis.VerdictEqual, v.Verdict)
	for half, want := range map[string]struct {
		conv  tensor.DType
		casts int
	}{"": {tensor.Float16, 2}, "rounded": {tensor.Float32, 6}, "float32": {tensor.Float32, 0}} {
		o := ExportOptions{Platform: "onnxruntime", Out: "q.onnx"}
		if half != "" {
			o.Options = map[string]string{"half": half}
		}
		r, warnings, err := p.Export(ctx, o)
		require.NoError(t, err)
		if half == "float32" {
			require.Contains(t, fmt.Sprint(warnings, r.Warnings), "the file has float32 there")
		} else {
			require.NotContains(t, fmt.Sprint(warnings, r.Warnings), "the file has float32 there")
		}
		b := get(t, p, "q.onnx")
		m, _, err := onnx.Read(bytes.NewReader(b), int64(len(b)), nil)
		require.NoError(t, err)
		require.Empty(t, graph.InferShapes(m.Graph))
		id, _ := m.Graph.LookupNode("conv1")
		require.Equal(t, want.conv, m.Graph.Value(m.Graph.Node(id).Inputs[1]).DType, half)
		casts := 0
		for _, id := range m.Graph.Nodes() {
			if m.Graph.Node(id).Op == "Cast" {
				casts++
			}
		}
		require.Equal(t, want.casts, casts, half)
	}
}

// A target has a precision for its float operators: they have that domain unless somebody decided otherwise, or numbers would overflow.
// What is decided against that is a warning.
func TestTargetsHaveFloatDomains(t *testing.T) {
	ctx := context.Background()
	p := placeOf(t, `
graph main
opset 17
input x: f32[1,3,8,8]
const w: f32[64,192] = normal(seed=1, std=0.2)
const big: f32[1] = [20000]
const back: f32[1] = [0.00005]
f = Flatten(x) "flatten"
g = Gemm(f, w) {transB=1} "gemm"
m = Mul(g, big) "scale"
l = Abs(m) "root"
n = Mul(g, back) "less"
y = Exp(n) "exp"
output y: f32[1,64]
output l: f32[1,64]
`)
	own := target.TRTInt8
	own.Name, own.Island = "half", qmath.FP16
	p.job().Files().(*Memory).Write("half.yaml", own.YAML())
	_, warnings, err := p.Calibrate(ctx, CalibrateOptions{Platform: "half.yaml", Data: DataOptions{Paths: []string{"m"}}, Threads: 1})
	require.NoError(t, err)
	domains := func() map[string]string {
		list := map[string]string{}
		for _, n := range planIn(t, p).Nodes {
			list[n.Name] = n.Domain.String()
		}
		return list
	}
	require.Equal(t, map[string]string{"flatten": "FP16", "gemm": "FP16", "scale": "FP32", "root": "FP32", "less": "FP16", "exp": "FP16"},
		domains())
	for _, n := range planIn(t, p).Nodes {
		if n.Name == "scale" {
			require.Regexp(t, `; fp32: "m" has \d+, with too little room below the end of fp16$`, n.Why)
		}
	}
	require.NotContains(t, fmt.Sprint(warnings), "fp16")
	derivesAgain(t, p)
	_, warnings, err = p.Set(ctx, "scale", []string{"domain=fp16"}, 1)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(warnings, planIn(t, p).Warnings), `scale is decided to be fp16, which holds numbers up to 65504; "m" has`)
	_, _, err = p.Set(ctx, "exp", []string{"domain=fp32"}, 1)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"flatten": "FP16", "gemm": "FP16", "scale": "FP16", "root": "FP32", "less": "FP16", "exp": "FP32"},
		domains())
	_, _, err = p.Export(ctx, ExportOptions{Platform: "half", Out: "q.onnx", Unverified: true})
	require.NoError(t, err)
}
