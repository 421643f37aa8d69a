package trt_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/export/trt"
	"qwb/graph/onnx"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// network has a pool and a concatenation between its convolutions, and a residual Add.
const network = `
input x: f32[1,2,4,4]
const w1: f32[4,2,1,1] = normal(seed=1, std=0.5)
const b1: f32[4] = normal(2)
const w2: f32[4,8,1,1] = normal(seed=3, std=0.4)
a: f32[1,4,4,4] = Conv(x, w1, b1) "conv1"
r: f32[1,4,4,4] = Relu(a) "relu"
p: f32[1,4,2,2] = MaxPool(r) {kernel_shape=[2,2], strides=[2,2]} "pool"
q: f32[1,4,2,2] = MaxPool(r) {kernel_shape=[1,1], strides=[2,2]} "pick"
k: f32[1,8,2,2] = Concat(p, q) {axis=1} "join"
y: f32[1,4,2,2] = Conv(k, w2) "conv2"
f: f32[1,16] = Flatten(y) "flat"
output f
`

// files writes a format into memory.
func files(t *testing.T, format string, given map[string]string) (map[string]string, *export.Format, error) {
	t.Helper()
	g, set, _ := lowertest.Configured(t, network, "trt10_int8")
	for i := range trt.Formats() {
		f := &trt.Formats()[i]
		if f.Name != format {
			continue
		}
		values, err := f.Resolve(given)
		require.NoError(t, err)
		in := &export.Input{Options: values, Set: set, Target: &target.TRT10, Model: &onnx.Model{Graph: g}, Producer: "qwb"}
		if err := f.Check(in); err != nil {
			return nil, f, err
		}
		store := memory{}
		out := f.NewOutput("m.onnx", store)
		defer out.Discard()
		_, err = f.Write(context.Background(), in, out)
		require.NoError(t, err)
		if err := f.Conforms(context.Background(), in, out); err != nil {
			return nil, f, err
		}
		_, err = out.Commit()
		return store, f, err
	}
	t.Fatal(format)
	return nil, nil, nil
}

// A cache has the scales of what convolutions read, and of what pools, concatenations and reshapes make of them, in the order of the graph.
func TestCache(t *testing.T) {
	got, _, err := files(t, "trt-cache", map[string]string{"trt-version": "8601"})
	require.NoError(t, err)
	text := got["m.cache"]
	header, list, err := trt.ParseCache([]byte(text))
	require.NoError(t, err)
	require.Equal(t, "TRT-8601-EntropyCalibration2", header)
	var names []string
	scales := map[string]float32{}
	for _, e := range list {
		names, scales[e.Name] = append(names, e.Name), e.Scale
	}
	require.Equal(t, []string{"x", "r", "p", "q", "k"}, names, text)
	require.Equal(t, scales["k"], scales["r"])
	require.NotEqual(t, scales["k"], scales["x"])
	require.Equal(t, text, string(trt.Cache(8601, "EntropyCalibration2", list)), "read and written again")
	require.Contains(t, got, "m.onnx")
}

// The form of the lines, by hand: 0.03125 is 3d000000. A name has colons and blanks, as TensorRT gives them.
func TestCacheByHand(t *testing.T) {
	text := "TRT-8601-EntropyCalibration2\nimages: 3b66eddc\n(Unnamed Layer* 0) [Convolution]_output: 3d000000\na:b: 3f800000\n"
	header, list, err := trt.ParseCache([]byte(text))
	require.NoError(t, err)
	require.Equal(t, "TRT-8601-EntropyCalibration2", header)
	require.Equal(t, []trt.Entry{{"images", math.Float32frombits(0x3b66eddc)}, {"(Unnamed Layer* 0) [Convolution]_output", 0.03125},
		{"a:b", 1}}, list)
	for text, want := range map[string]string{
		"images: 3b66eddc\n": `line 1: "images: 3b66eddc" is no header`, "": `line 1: "" is no header`,
		"TRT-8601-Entropy\n":                           `is no header`,
		"TRT-8601-MinMaxCalibration\na 3f800000\n":     "line 2: no colon",
		"TRT-8601-MinMaxCalibration\na: 3f8000\n":      `line 2: "3f8000" is not the 8 hexadecimal digits`,
		"TRT-8601-MinMaxCalibration\n\na: 3f8000zz\n":  `line 3: "3f8000zz" is not`,
		"TRT-8601-MinMaxCalibration\na: 1.0\nb: 3f800": `line 2: "1.0" is not`,
	} {
		_, _, err := trt.ParseCache([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

// Ranges are symmetric, 127 times the scale, in our form and in PPQ's, and both are read again.
func TestRanges(t *testing.T) {
	ours, _, err := files(t, "trt-ranges", nil)
	require.NoError(t, err)
	cache, _, err := files(t, "trt-cache", nil)
	require.NoError(t, err)
	_, want, err := trt.ParseCache([]byte(cache["m.cache"]))
	require.NoError(t, err)
	got, err := trt.Parse([]byte(ours["m.ranges.json"]))
	require.NoError(t, err)
	require.Equal(t, want, got)
	ppq, _, err := files(t, "ppq-trt", nil)
	require.NoError(t, err)
	got, err = trt.Parse([]byte(ppq["m.json"]))
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
	lines := strings.Split(strings.TrimSpace(ppq["m.wts"]), "\n")
	require.Equal(t, "3", lines[0])
	require.Regexp(t, `^w1 8( [0-9a-f]{8}){8}$`, lines[1])
	require.Regexp(t, `^b1 4( [0-9a-f]{8}){4}$`, lines[2])
	for text, want := range map[string]string{`{}`: "neither ranges nor act_quant_info",
		`{"ranges":[{"name":"a","min":-1,"max":2}]}`:           "symmetric",
		`{"ranges":[{"name":"a","min":-1,"max":1,"scale":3}]}`: "not 127 times", `{"act_quant_info": 3}`: "cannot unmarshal"} {
		_, err := trt.Parse([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

// What a range does not say is refused.
func TestRefusals(t *testing.T) {
	for platform, want := range map[string]string{"onnxruntime": `"x" is uint8: TensorRT's ranges are of symmetric int8 tensors`,
		"trt11_int8": "trt11_int8 reads Q/DQ only"} {
		g, set, _ := lowertest.Configured(t, network, platform)
		tg, err := target.Find(platform)
		require.NoError(t, err)
		for _, f := range trt.Formats() {
			require.ErrorContains(t, f.Check(&export.Input{Set: set, Target: tg, Model: &onnx.Model{Graph: g}}), want, f.Name)
		}
	}
}

// Every rule finds what is planted for it, and nothing in what is written.
func TestPlantedFaults(t *testing.T) {
	planted := map[string]map[string]func(string) string{
		"trt-cache": {
			"form":     func(s string) string { return strings.Replace(s, "TRT-", "TRT", 1) },
			"once":     func(s string) string { return s + "x: 3d000000\n" },
			"known":    func(s string) string { return s + "nothing: 3d000000\n" },
			"positive": func(s string) string { return s[:strings.LastIndex(s, ": ")+2] + "80000000\n" },
			"inputs":   func(s string) string { at := strings.Index(s, "r: "); return s[:at] + s[at+12:] },
		},
		"trt-ranges": {"form": func(s string) string { return strings.Replace(s, `"max": `, `"max": 1`, 1) }},
		"ppq-trt": {
			"form":       func(s string) string { return strings.Replace(s, `"k":`, `"x": 1, "k":`, 1) },
			"parameters": func(s string) string { return strings.Replace(s, "w2 32", "w2 33", 1) },
		},
	}
	for format, faults := range planted {
		clean, f, err := files(t, format, nil)
		require.NoError(t, err)
		side := map[string]string{"trt-cache": "m.cache", "trt-ranges": "m.ranges.json", "ppq-trt": "m.json"}[format]
		diagnose := func(store map[string]string) []export.Finding {
			list, err := f.Diagnose(context.Background(), &export.DoctorInput{FS: memory(store), Name: "m.onnx", Target: &target.TRT10})
			require.NoError(t, err)
			return list
		}
		require.Empty(t, diagnose(clean))
		for rule, plant := range faults {
			name := side
			if rule == "parameters" {
				name = "m.wts"
			}
			broken := memory{}
			for k, v := range clean {
				broken[k] = v
			}
			broken[name] = plant(clean[name])
			require.NotEqual(t, clean[name], broken[name], rule)
			found := diagnose(broken)
			require.NotEmpty(t, found, "%s %s", format, rule)
			require.Equal(t, rule, found[0].Rule, "%s: %v", format, found)
			require.NotEmpty(t, found[0].Fix)
		}
		if format != "trt-ranges" {
			continue
		}
		for _, r := range f.Rules {
			_, ok := planted["trt-cache"][r.Name]
			require.True(t, ok, "no fault is planted for %s", r.Name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("TRT-8601-EntropyCalibration2\nimages: 3b66eddc\n"))
	f.Add([]byte(`{"ranges":[{"name":"a","min":-1,"max":1}]}`))
	f.Add([]byte(`{"act_quant_info":{"a":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := trt.Parse(b)
		if err == nil && len(list) > len(b) {
			t.Fatal("more entries than bytes")
		}
	})
}
