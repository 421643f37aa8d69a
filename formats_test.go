package qwb

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// everyFormat are the schemes that the platform of these tests takes beside those of onnxruntime.
var everyFormat = struct{ weights, activations []string }{
	weights: []string{"int2-sym-g4", "int4-sym-g3", "int12-sym-channel", "e4m3-sym-g4", "e5m2-sym-channel-pow2", "e2m1-sym-tensor", "e2m1-sym-channel", "nf4-sym-channel",
		"nf4-sym-g64", "int8-sym-mx32", "e4m3-sym-mx32ceil", "e5m2-sym-mx32", "e2m1-sym-mx32", "e2m1-sym-mx32ceil", "e2m1-sym-nv16"},
	activations: []string{"e2m1-sym-tensor", "nf4-sym-tensor", "e4m3-sym-tensor-pow2", "e4m3-sym-dynamic-tensor", "uint16-asym-dynamic-tensor", "int8-sym-g4", "uint8-asym-g4",
		"nf4-sym-g64", "int8-sym-mx32", "e4m3-sym-mx32", "e5m2-sym-mx32ceil", "e2m1-sym-mx32", "e2m1-sym-nv16"},
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
			list = append(list, s)
		}
		*to = list
	}
	own.Schemes = all
	own.Ops = append([]target.Op(nil), own.Ops...)
	for i := range own.Ops {
		own.Ops[i].Schemes = target.Schemes{}
	}
	put(t, p.store(), "formats.yaml", own.YAML())
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
	seen := map[string]bool{}
	for _, word := range words {
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
	require.Greater(t, len(seen), 3*len(words)/2, "formats give numbers of their own")
}

// simulatedNSR is the noise of the plan's simulation at the first output.
func simulatedNSR(t *testing.T, p *Project, threads int) float64 {
	t.Helper()
	r, _, err := p.Analyze(context.Background(), AnalyzeOptions{Config: analysis.Config{Graphwise: true, Threads: threads}})
	require.NoError(t, err)
	return r.Outputs[0].NSR
}

// Floats of less precision are domains: the simulation rounds, more the fewer bits there are, what is computed together goes along, the plan keeps
// it, programs and files say that they have float32.
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
	r, warnings, err := p.Export(ctx, ExportOptions{Platform: "onnxruntime", Out: "q.onnx", Unverified: true})
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(warnings, r.Warnings), "the file has float32 there")
}
