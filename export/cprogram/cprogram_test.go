package cprogram_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/cprogram"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/internal/targettest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// The small networks on both targets. Three of them have, together, every operator in all its forms: those run under every profile.
func TestNetworksEqualTheReference(t *testing.T) {
	compiler(t)
	long := longtest.Wanted(t)
	for n, name := range slices.Sorted(maps.Keys(lowertest.Networks)) {
		for k, tg := range targettest.Distinct() {
			if !long && (n+k)%2 != 0 {
				continue
			}
			profiles := []string{tg.Profile}
			if tg.Name == "onnxruntime" {
				profiles = append(profiles, "tflite2")
			}
			if len(profiles) > 1 && slices.Contains([]string{"mobilenet", "residual", "windows"}, name) {
				profiles = nil
				for _, p := range inC() {
					profiles = append(profiles, p.Name)
				}
			}
			if !long {
				profiles = []string{tg.Profile}
			}
			for _, profile := range profiles {
				t.Run(name+"/"+tg.Name+"/"+profile, func(t *testing.T) {
					t.Parallel()
					g, set, feeds := lowertest.Configured(t, lowertest.Networks[name], tg.Name)
					if !slices.Contains(set.Domains, tqc.DomainInt) {
						t.Skip("does not apply: nothing of it runs on integers")
					}
					p, err := lowered(g, set, tg, profile)
					if err != nil {
						t.Skip("does not apply: " + err.Error())
					}
					require.Positive(t, compared(t, p, feeds, bound(g, feeds), strict))
				})
			}
		}
	}
}

// Integers of other widths, weights with zero points and scales that are powers of two.
func TestSchemesEqualTheReference(t *testing.T) {
	compiler(t)
	longtest.Need(t, "compiles dozens of programs")
	schemes := map[string]func(tg *target.Target){
		"int16": func(tg *target.Target) {
			tg.Activation = tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear,
				Format: qmath.Format{Bits: 16, QMin: -1 << 15, QMax: 1<<15 - 1}, Observer: tqc.ObserverMinMax}
			tg.Ops = slices.Clone(tg.Ops)
			for i := range tg.Ops {
				tg.Ops[i].FixedScale, tg.Ops[i].Finer = 0, 0 // it comes with a zero point
			}
		},
		"uint16": func(tg *target.Target) {
			tg.Activation = tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 16, QMin: 0, QMax: 1<<16 - 1},
				Observer: tqc.ObserverMinMax}
		},
		"weights with zero points": func(tg *target.Target) {
			tg.Weight.Policy, tg.Weight.QMin, tg.Weight.QMax = tqc.Asymmetric|tqc.PerChannel|tqc.Linear, 0, 255
		},
		"powers of two": func(tg *target.Target) {
			tg.Activation.Policy |= tqc.PowerOf2
			tg.Weight.Policy |= tqc.PowerOf2
		},
	}
	for _, scheme := range slices.Sorted(maps.Keys(schemes)) {
		for _, name := range []string{"mobilenet", "resnet", "matrices", "windows"} {
			profiles := []string{"tflite2", "ort"}
			if scheme == "powers of two" {
				profiles = []string{"pow2", "pow2-floor", "pow2-half-away", "pow2-half-even"}
			}
			for _, profile := range profiles {
				t.Run(scheme+"/"+name+"/"+profile, func(t *testing.T) {
					t.Parallel()
					tg := target.ONNXRuntime
					schemes[scheme](&tg)
					g, set, feeds := lowertest.ConfiguredFor(t, lowertest.Networks[name], &tg)
					p, err := lowered(g, set, &tg, profile)
					if err != nil {
						t.Skip("does not apply: " + err.Error())
					}
					require.Positive(t, compared(t, p, feeds, nil, strict))
				})
			}
		}
	}
}

// Nothing that C leaves undefined happens, and no memory but the program's own is touched.
func TestSanitizers(t *testing.T) {
	compiler(t)
	for _, c := range []struct{ network, profile string }{{"residual", "ort"}, {"windows", "tflite2"}, {"mobilenet", "tflite2"},
		{"matrices", "ort"},
		{"moves", "tvm-a64"}, {"resnet", "trt"}, {"where", "rndnu"}, {"residual", "avx2-saturating"}} {
		t.Run(c.network+"/"+c.profile, func(t *testing.T) {
			t.Parallel()
			tg, err := target.Find("onnxruntime")
			require.NoError(t, err)
			g, set, feeds := lowertest.Configured(t, lowertest.Networks[c.network], tg.Name)
			p, err := lowered(g, set, tg, c.profile)
			require.NoError(t, err)
			require.Positive(t, compared(t, p, feeds, nil, sanitized))
		})
	}
}

// Under an integer profile nothing between the borders is float.
func TestIntegerProfilesHaveNoFloat(t *testing.T) {
	tg := lowertest.Whole()
	for _, network := range []string{"mobilenet", "residual", "matrices"} {
		g, set, _ := lowertest.ConfiguredFor(t, lowertest.Networks[network], tg)
		p, err := lowered(g, set, tg, "tflite2")
		require.NoError(t, err)
		p.Steps = slices.DeleteFunc(p.Steps, func(s lower.Step) bool {
			_, in := s.Op.(*lower.Quantize)
			_, out := s.Op.(*lower.Dequantize)
			return in || out
		})
		p.Inputs, p.Outputs = integerBorders(p)
		var text bytes.Buffer
		_, err = cprogram.Write(&text, p, cprogram.Options{})
		require.NoError(t, err)
		code := text.Bytes()[bytes.Index(text.Bytes(), []byte("/* Arithmetic and operators. */")):]
		for _, line := range bytes.Split(code, []byte("\n")) {
			require.NotRegexp(t, `\b(float|double)\b`, string(line), network)
		}
	}
}

// integerBorders are the tensors of integers that no step computes, and the last one that is computed.
func integerBorders(p *lower.Program) (in, out []lower.TensorID) {
	computed := map[lower.TensorID]bool{}
	for _, s := range p.Steps {
		for _, id := range s.Inputs {
			if !computed[id] && p.Tensors[id].Const == nil && !slices.Contains(in, id) {
				in = append(in, id)
			}
		}
		for _, id := range s.Outputs {
			computed[id] = true
		}
		out = s.Outputs
	}
	return in, out
}

func TestErrors(t *testing.T) {
	tg, err := target.Find("onnxruntime")
	require.NoError(t, err)
	g, set, _ := lowertest.Configured(t, lowertest.Networks["dynamic"], tg.Name)
	p, err := lowered(g, set, tg, "ort")
	require.NoError(t, err)
	var text bytes.Buffer
	_, err = cprogram.Write(&text, p, cprogram.Options{})
	require.EqualError(t, err, `export c: input "x" is f32[N,L,8]: the C program needs sizes for all of its dimensions`)
	_, err = cprogram.Write(&text, p, cprogram.Options{Sizes: map[string]int64{"N": 1, "L": 3}})
	require.EqualError(t, err, `export c: input "p" is f32[1,3,H,W]: the C program needs sizes for all of its dimensions`)
	require.Zero(t, text.Len(), "nothing is written")

	g = graphtest.Parse(t, "input x: f32[1,4]\nconst w: f32[4,4] = normal(seed=1)\na = MatMul(x, w) \"a\"\ny = Cos(a) \"cosine\"\noutput y\n")
	set, _ = lowertest.Configure(t, g, tg)
	p, err = lowered(g, set, tg, "ort")
	require.NoError(t, err)
	_, err = cprogram.Write(&text, p, cprogram.Options{})
	require.ErrorContains(t, err, `node "cosine" (Cos`)
	require.ErrorContains(t, err, "the operator has no form in C")

	// On integers, with scales of run time and of the plan.
	for i := range 2 {
		cells := target.TFLiteInt8
		cells.Ops, cells.BorderCost = slices.Clone(cells.Ops), 0
		at := slices.IndexFunc(cells.Ops, func(o target.Op) bool { return o.Type == "LSTM" })
		cells.Ops[at].Asked, cells.Ops[at].Schemes.Activation = false, cells.Ops[at].Schemes.Activation[i:]
		g = graphtest.Parse(t, "input x: f32[3,1,4]\nconst w: f32[1,8,4] = normal(seed=1)\nconst r: f32[1,8,2] = normal(seed=2)\n"+
			"y: f32[3,1,1,2] = LSTM(x, w, r) {hidden_size=2} \"cells\"\noutput y\n")
		set, _ = lowertest.Configure(t, g, &cells)
		p, err = lowered(g, set, &cells, "tflite2")
		require.NoError(t, err)
		_, err = cprogram.Write(&text, p, cprogram.Options{})
		require.ErrorContains(t, err, `node "cells" (LSTM`)
		require.ErrorContains(t, err, "LSTM on integers (RunTime) has no form in C")
	}
}

// The same program gives the same bytes.
func TestWriteIsDeterministic(t *testing.T) {
	tg, err := target.Find("trt_int8")
	require.NoError(t, err)
	g, set, _ := lowertest.Configured(t, lowertest.Networks["resnet"], tg.Name)
	var first string
	for range 3 {
		p, err := lowered(g, set, tg, "trt")
		require.NoError(t, err)
		var text bytes.Buffer
		_, err = cprogram.Write(&text, p, cprogram.Options{})
		require.NoError(t, err)
		if first == "" {
			first = text.String()
		}
		require.Equal(t, first, text.String())
	}
}
