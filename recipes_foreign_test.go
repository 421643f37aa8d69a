package qwb

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/quantizer/decision"
)

// made lists what a recipe decides about the network of place: selectors and properties.
func made(t *testing.T, name, text string) (string, error) {
	t.Helper()
	ctx := context.Background()
	p := place(t, new(Memory), "m", 3)
	if text != "" {
		put(t, p.job().Files(), name[strings.IndexByte(name, ':')+1:], []byte(text))
	}
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}},
		Recipes: []string{name}, Threads: 1})
	if err != nil {
		return "", err
	}
	var lines []string
	for _, d := range planIn(t, p).Decisions {
		if d.By == decision.ByRecipe {
			lines = append(lines, strings.TrimPrefix(d.String(), "recipe: "))
		}
	}
	derivesAgain(t, p)
	same := string(get(t, p, p.Plan))
	_, _, err = p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Recipes: []string{name}, Threads: 1})
	require.NoError(t, err)
	require.Equal(t, same, string(get(t, p, p.Plan)), "twice is once")
	return strings.Join(lines, "\n"), nil
}

func TestForeignRecipes(t *testing.T) {
	p := place(t, new(Memory), "m", 3)
	_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "trt_int8", Data: DataOptions{Paths: []string{"m"}},
		Recipes: []string{"preset:x86"}, Threads: 1})
	require.NoError(t, err, "a target without a reduced range")
	for _, c := range []struct{ name, text, want, fails string }{
		{"preset:qnnpack", "", "observer=mse reduce_range=false per_tensor=true", ""},
		{"preset:x86", "", "observer=mse reduce_range=true per_tensor=false", ""},
		{"preset:int16", "", "* activations=int16-sym-tensor", ""},
		{"preset:fp8", "", "* weights=e4m3-sym-tensor activations=e4m3-sym-tensor", ""},
		{"preset:x68", "", "", `unknown preset "x68": one of x86, fbgemm, onednn, qnnpack, dynamic, dynamic_range, int16, fp8, corrected`},
		{"nncf:s.json", `{"names": ["conv1"], "types": ["Gemm"]}`, "nncf names: conv1 domain=fp32\nnncf types: type:Gemm domain=fp32", ""},
		{"nncf:s.json", `{"patterns": ["conv"]}`, "nncf patterns: type:Conv domain=fp32", ""},
		{"nncf:s.json", `{"patterns": ["onv"]}`, "", `s.json: pattern "onv" matches no operator of the model`},
		{"nncf:s.json", `{"patterns": ["onv", "conv1"], "validate": false}`, "nncf patterns: conv1 domain=fp32", ""},
		{"nncf:s.json", `{"patterns": ["(?=x)"]}`, "", `s.json: pattern "(?=x)": error parsing regexp`},
		{"nncf:s.json", "{\n\"name\": []}", "", `s.json:2: unknown key "name"`},
		{"nncf:s.json", "{\"preset\": \"mixed\",\n\"ignored_scope\": {\n\"name\": []}}", "", `s.json:3: unknown key "name"`},
		{"nncf:s.json", `{"subset_size": 10, "ignored_scope": {"names": ["Gemm_nncf_77"]}}`, "", "matches no operator"},
		{"modelopt:m.json", `{"quantize_mode": "int8", "calibration_method": "max", "nodes_to_exclude": ["conv1"], ` +
			`"op_types_to_exclude": ["Gemm"], "high_precision_dtype": "fp16"}`, "observer=onnxruntime/minmax\n" +
			"modelopt op_types_to_exclude: type:Gemm domain=fp32\nmodelopt nodes_to_exclude: conv1 domain=fp32", ""},
		{"modelopt:m.json", `{"quantize_mode": "fp8"}`, "* weights=e4m3-sym-tensor activations=e4m3-sym-tensor\n" +
			"modelopt small: type:Conv,type:Gemm domain=fp32", ""},
		{"modelopt:m.json", `{"quantize_mode": "fp8", "autotune": true}`, "* weights=e4m3-sym-tensor activations=e4m3-sym-tensor", ""},
		{"modelopt:m.json", `{"calibration_method": "max"}`, "observer=onnxruntime/minmax\n" +
			"modelopt small: type:Gemm domain=fp32", ""},
		{"modelopt:m.json", `{"quantize_mode": "int4"}`, "", `m.json: quantize_mode "int4": one of int8, fp8 is imported`},
		{"modelopt:m.json", `{"calibration_method": "awq"}`, "", `m.json: calibration_method "awq": one of max, entropy`},
		{"modelopt:m.json", `{"nodes_to_quantize": ["nosuch"]}`, "", `m.json: nodes_to_quantize matches no operator`},
		{"modelopt:m.json", `{"nodes_to_exclude": 3}`, "", `m.json: nodes_to_exclude: json:`},
		{"quark:q.json", `{"global_quant_config": {"calibrate_method": "CalibrationMethod.Percentile", "activation_type": "QuantType.QInt16", ` +
			`"weight_type": "QuantType.QInt8", "per_channel": true, "nodes_to_exclude": ["conv1"], "include_cle": true, ` +
			`"extra_options": {"ActivationSymmetric": true}}}`, "observer=onnxruntime/percentile(0.999999) per_tensor=false\n" +
			"onnxruntime activation_type: * activations=int16-sym-tensor\nonnxruntime nodes_to_exclude: conv1 domain=fp32", ""},
		{"quark:q.json", `{"calibrate_method": "PowerOfTwoMethod.MinMSE"}`, "",
			"gives scales that are powers of two, and onnxruntime has others: choose a platform such as xint8"},
		{"quark:q.json", `{"global_config": {"activation": {"symmetric": true, "scale_type": "ScaleType.Float32", "calibration_method": ` +
			`"CalibMethod.Percentile", "quant_granularity": "QuantGranularity.Tensor", "data_type": "Int16"}, "weight": {"symmetric": true, ` +
			`"calibration_method": "CalibMethod.MinMax", "quant_granularity": "QuantGranularity.Channel", "data_type": "Int8"}}, ` +
			`"layer_type_config": [[null, ["Gemm"]]], "specific_layer_config": [], "exclude": ["conv1"], "algo_config": [], "extra_options": {}}`,
			"observer=onnxruntime/percentile(0.999999) per_tensor=false\nonnxruntime activation_type: * activations=int16-sym-tensor\n" +
				"quark op_types_to_exclude: type:Gemm domain=fp32\nonnxruntime nodes_to_exclude: conv1 domain=fp32", ""},
		{"quark:q.json", `{"global_config": {"activation": {"symmetric": true, "scale_type": "ScaleType.PowerOf2", "calibration_method": ` +
			`"CalibMethod.MinMax", "data_type": "Int8"}}}`, "", "calibrate_method PowerOfTwoMethod.NonOverflow gives scales that are powers of two"},
		{"quark:q.json", `{"global_config": {}, "exclude": ["^conv1.*"]}`, "quark patterns: conv1 domain=fp32", ""},
		{"quark:q.json", `{"global_config": {}, "exclude": ["^(conv"]}`, "", `pattern "^(conv": error parsing regexp`},
		{"quark:q.json", `{"global_config": {}, "layer_type_config": 3}`, "", "q.json: layer_type_config"},
		{"ort:o.json", `{"nodes_to_exclude": ["conv1", "nosuch"], "per_channel": false, "calibrate_method": "CalibrationMethod.Percentile", ` +
			`"extra_options": {"CalibPercentile": 99.9, "AddQDQPairToWeight": true}}`,
			"observer=onnxruntime/percentile(0.999) per_tensor=true\nonnxruntime nodes_to_exclude: conv1 domain=fp32", ""},
		{"ort:o.json", `{"op_types_to_quantize": ["Conv"]}`, "onnxruntime op_types_to_quantize: FLOATS domain=fp32", ""},
		{"ort:o.json", `{"activation_type": "QInt16", "extra_options": {"ActivationSymmetric": true}}`,
			"onnxruntime activation_type: * activations=int16-sym-tensor", ""},
		{"ort:o.json", `{"activation_type": "QUInt8", "weight_type": "QInt8"}`, "", ""},
		{"ort:o.json", `{"activation_type": "QFloat8"}`, "", `o.json: activation_type "QFloat8": one of QInt8`},
		{"ort:o.json", `{"calibrate_method": "Distribution"}`, "", `o.json: calibrate_method "Distribution"`},
		{"ort:o.json", `{"nodes_to_excude": ["conv1"]}`, "", `o.json:1: unknown key "nodes_to_excude"`},
		{"ort:o.json", `{"x": [{"scale": 0.5, "zero_point": 3}]}`, "onnxruntime TensorQuantOverrides: input:x scale=0.5 zero_point=3", ""},
		{"ort:o.json", `{"extra_options": {"TensorQuantOverrides": {"x": [{"rmin": -1.0, "rmax": 1.55}]}}}`,
			"onnxruntime TensorQuantOverrides: input:x scale=0.01 zero_point=100", ""},
		{"ort:o.json", `{"x": [{"scale": 0.5}]}`, "", "o.json: TensorQuantOverrides: x: scale and zero_point are given together"},
		{"ort:o.json", `{"x": [{"scal": 0.5}]}`, "", `o.json:1: unknown key "scal"`},
		{"nncf:none.json", "", "", "none.json"},
		{"ort:", "", "", "ort:"},
	} {
		got, err := made(t, c.name, c.text)
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails, c.text)
			continue
		}
		require.NoError(t, err, c.text)
		if before, after, ok := strings.Cut(c.want, "FLOATS"); ok {
			require.True(t, strings.HasPrefix(got, before) && strings.HasSuffix(got, after), got)
			require.NotContains(t, got, "Conv")
			require.Contains(t, got, "type:Gemm")
			continue
		}
		require.Equal(t, c.want, got, c.text)
	}
}

// The presets of formats give plans of these formats, and say how much of the work is then on integers.
func TestPresetsOfFormats(t *testing.T) {
	for name, c := range map[string]struct {
		scheme string
		share  float64
	}{
		"dynamic": {`"WEIGHTS"`, 0}, "int16": {`"activations":"int16-sym-tensor"`, 0}, "fp8": {`"activations":"e4m3-sym-tensor"`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := place(t, new(Memory), "m", 3)
			r, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}},
				Recipes: []string{"preset:" + name}, Threads: 1})
			require.NoError(t, err)
			require.InDelta(t, c.share, *r.IntegerShare, 0.01)
			require.Contains(t, string(get(t, p, p.Plan)), c.scheme)
		})
	}
}

// On targets whose 16 bits or floats of 8 bits are others, presets choose those, and leave nothing in float whose scale is not prescribed.
func TestPresetsOfFormatsOnOtherTargets(t *testing.T) {
	for _, c := range []struct{ name, platform, scheme string }{
		{"int16", "pow2_int8", "int16-sym-tensor-pow2"}, {"int16", "qnn", "uint16-asym-tensor"}, {"int16", "tflite_16x8", "int16-sym-tensor"},
		{"int16", "espdl_int16", "int16-sym-tensor-pow2"}, {"fp8", "trt_int8", "e4m3-sym-tensor"}, {"fp8", "trt_fp8", "e4m3-sym-tensor"},
		{"fp8", "graphcore_fp8", "e4m3-sym-tensor-pow2"},
	} {
		t.Run(c.name+" "+c.platform, func(t *testing.T) {
			p := place(t, new(Memory), "m", 3)
			r, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: c.platform, Data: DataOptions{Paths: []string{"m"}},
				Recipes: []string{"preset:" + c.name}, Threads: 1})
			require.NoError(t, err)
			text := string(get(t, p, p.Plan))
			require.Contains(t, text, `"activations":"`+c.scheme+`"`)
			if c.name == "int16" {
				require.InDelta(t, 1, *r.IntegerShare, 0.01)
			}
			if c.platform == "espdl_int16" { // whose Sigmoid is a table
				require.NotContains(t, text, "fp32")
			}
			_, _, err = p.Export(context.Background(), ExportOptions{})
			require.NoError(t, err)
		})
	}
}

// A Softmax between operators of 16 bits is float, as in ONNX Runtime, and the file that has pairs around it is not taken for another.
func TestSoftmaxBetweenSixteenBits(t *testing.T) {
	p := placeOf(t, `
input x: f32[1,3,8,8]
const w: f32[8,8] = normal(seed=1)
a = MatMul(x, w) "a"
s = Softmax(a) "softmax"
y = MatMul(s, a) "b"
output y
`)
	_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}},
		Recipes: []string{"preset:int16"}, BorderCost: new(float64), Threads: 1})
	require.NoError(t, err)
	_, _, err = p.Export(context.Background(), ExportOptions{Out: "m.int16.onnx"})
	require.NoError(t, err)
}

// An LSTM whose results are read in part, as a cell's is that runs step by step, is written with scales of run time too.
func TestCellsThatAreReadInPart(t *testing.T) {
	for _, outputs := range []string{"y, h, c", "_, h, c", "_, h"} {
		p := placeOf(t, `
input x: f32[1,3,8,8]
const shape: i64[3] = [24, 1, 8]
const w: f32[1,32,8] = normal(seed=1, std=0.3)
const r: f32[1,32,8] = normal(seed=2, std=0.3)
const b: f32[1,64] = normal(seed=3, std=0.1)
s = Reshape(x, shape) "steps"
`+outputs+` = LSTM(s, w, r, b) {hidden_size=8} "cells"
output h
`)
		_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}},
			Recipes: []string{"preset:dynamic"}, BorderCost: new(float64), Threads: 1})
		require.NoError(t, err, outputs)
		_, _, err = p.Export(context.Background(), ExportOptions{Out: "m.int8.onnx"})
		require.NoError(t, err, outputs)
		require.Contains(t, string(get(t, p, "m.int8.onnx")), "DynamicQuantizeLSTM", outputs)
	}
}

// Where what a cell leaves is quantized by its reader, with a scale that is known, the file has the plan's program.
func TestACellBetweenIntegers(t *testing.T) {
	p := placeOf(t, `
input x: f32[1,3,8,8]
const shape: i64[3] = [24, 1, 8]
const first: i64[1] = [0]
const m: f32[8,8] = normal(seed=4, std=0.4)
const w: f32[1,32,8] = normal(seed=1, std=0.3)
const r: f32[1,32,8] = normal(seed=2, std=0.3)
const b: f32[1,64] = normal(seed=3, std=0.1)
const v: f32[8,4] = normal(seed=5, std=0.4)
d = MatMul(x, m) "before"
s = Reshape(d, shape) "steps"
_, h = LSTM(s, w, r, b) {hidden_size=8} "cells"
g = Squeeze(h, first) "state"
y = MatMul(g, v) "behind"
output y
`)
	ctx := context.Background()
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"m"}}, BorderCost: new(float64),
		Threads: 1})
	require.NoError(t, err)
	_, _, err = p.Set(ctx, "cells", []string{"domain=int"}, 1)
	require.NoError(t, err)
	r, _, err := p.Export(ctx, ExportOptions{Out: "m.int8.onnx"})
	require.NoError(t, err)
	require.Empty(t, r.ReadBack.Not)
	require.Contains(t, string(get(t, p, "m.int8.onnx")), "DynamicQuantizeLSTM")
}
