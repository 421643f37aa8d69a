package mnn

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/graph/onnx"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

const text = `
input x: f32[1,2,4,4]
const w: f32[3,2,1,1] = [1.27, -0.635, 0.5, 0.254, 1, 1]
const b: f32[3] = [1, -2, 3]
const d: f32[3,1,3,3] = normal(1)
c = Conv(x, w, b) "first"
r = Relu(c) "act"
e = Conv(r, d) {group=3} "wise"
y = Sigmoid(e) "s"
output y
`

func files(t testing.TB) (*export.Input, map[string][]byte) {
	t.Helper()
	tg := target.MNNInt8
	tg.BorderCost = 0
	g, set, _ := lowertest.ConfiguredFor(t, text, &tg)
	in := &export.Input{Model: &onnx.Model{Graph: g}, Set: set, Target: &tg}
	f := Format()
	in.Options, _ = f.Resolve(nil)
	dir := t.TempDir()
	out := f.NewOutput(filepath.Join(dir, "m.onnx"), nil)
	defer out.Discard()
	_, err := f.Write(context.Background(), in, out)
	require.NoError(t, err)
	require.NoError(t, f.Conforms(context.Background(), in, out))
	_, err = f.Equal(context.Background(), in, out)
	require.NoError(t, err)
	list, err := out.Commit()
	require.NoError(t, err)
	m := map[string][]byte{}
	for _, file := range list {
		m[filepath.Base(file.Path)], err = os.ReadFile(file.Path)
		require.NoError(t, err)
	}
	return in, m
}

// Every convolution on integers is a layer with the tensors around it and its activation; weights are what their integers stand for.
func TestParameters(t *testing.T) {
	in, made := files(t)
	var p pipeline
	require.NoError(t, json.Unmarshal(made["m.onnx"+Suffix], &p))
	require.Len(t, p.Algo, 1)
	layers := p.Algo[0].Params.Layer
	require.Len(t, layers, 2)
	require.Equal(t, []string{"first", "wise"}, []string{layers[0].Name, layers[1].Name})
	require.Equal(t, "x", layers[0].Input[0].Name)
	require.Equal(t, "r", layers[0].Output[0].Name, "with its activation")
	require.Equal(t, layers[0].Output[0].Scales, layers[1].Input[0].Scales)
	require.Len(t, layers[0].Weight[0].Scales, 3)
	require.Equal(t, []int32{-127, 127}, []int32{layers[0].Weight[0].Min, layers[0].Weight[0].Max})

	m, _, err := onnx.Read(bytes.NewReader(made["m.onnx"]), int64(len(made["m.onnx"])), nil)
	require.NoError(t, err)
	id, ok := m.Graph.LookupNode("first")
	require.True(t, ok)
	w := m.Graph.Const(m.Graph.Node(id).Inputs[1]).F32()
	for i, x := range w {
		s := layers[0].Weight[0].Scales[i/2]
		code := x / s
		require.InDelta(t, code, float32(int32(code+float32(0.5)*sign(code))), 1e-4)
	}
	own, _ := in.Model.Graph.LookupNode("first")
	require.Equal(t, float32(0.254), in.Model.Graph.Const(in.Model.Graph.Node(own).Inputs[1]).F32()[3], "the plan's model stays")
}

func sign(x float32) float32 {
	if x < 0 {
		return -1
	}
	return 1
}

func TestRefusals(t *testing.T) {
	in, _ := files(t)
	id, _ := in.Model.Graph.LookupNode("first")
	slot := in.Set.Slot(in.Set.Input(id, 0))
	slot.Config.Bits = 16
	_, _, err := build(in)
	require.ErrorContains(t, err, `export mnn: node "first"`)
	require.ErrorContains(t, err, "int8 with a scale for each tensor")
	in.Set = tqc.NewSet(in.Model.Graph)
	in.Set.Domains[id] = tqc.DomainInt
	_, _, err = build(in)
	require.ErrorContains(t, err, "not quantized")
}

// A MaxPool before a convolution on integers is what MNN 3.6.1 gets wrong.
func TestPoolIsWarnedOf(t *testing.T) {
	for body, want := range map[string]int{"p = MaxPool(x) {kernel_shape=[2,2]}\nr = Relu(p)\ny = Conv(r, w)": 1,
		"p = Relu(x)\ny = Conv(p, w)": 0} {
		tg := target.MNNInt8
		tg.BorderCost = 0
		g, set, _ := lowertest.ConfiguredFor(t, "input x: f32[1,2,4,4]\nconst w: f32[3,2,1,1] = normal(1)\n"+body+"\noutput y", &tg)
		require.Len(t, pooled(g, set), want)
	}
}

// Every rule has a fault that breaks it.
func TestDoctor(t *testing.T) {
	_, made := files(t)
	faults := map[string][2]string{
		"method":   {`"QUANTIZE"`, `"PRUNE"`},
		"layers":   {`"name": "r",`, `"name": "q",`},
		"scales":   {`"scales": [`, `"scales": [-1,`},
		"clamp":    {`"clampMin": -127`, `"clampMin": -300`},
		"one-grid": {`"zeroPoint": 0`, `"zeroPoint": 1`},
	}
	for _, r := range rules() {
		f, ok := faults[r.Name]
		require.True(t, ok, r.Name)
		js := string(made["m.onnx"+Suffix])
		at := strings.LastIndex(js, f[0])
		if r.Name == "one-grid" { // of the input of the second layer
			at = strings.LastIndex(js[:at], f[0])
		}
		if r.Name == "layers" {
			at = strings.Index(js, f[0])
		}
		js = js[:at] + f[1] + js[at+len(f[0]):]
		found, err := doctor(context.Background(), &export.DoctorInput{Name: "m.onnx", FS: fstest.MapFS{
			"m.onnx": &fstest.MapFile{Data: made["m.onnx"]}, "m.onnx" + Suffix: &fstest.MapFile{Data: []byte(js)}}})
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(found, func(x export.Finding) bool { return x.Rule == r.Name }), "%s: %v", r.Name, found)
	}
	_, err := doctor(context.Background(), &export.DoctorInput{Name: "m.onnx",
		FS: fstest.MapFS{"m.onnx" + Suffix: &fstest.MapFile{Data: []byte("{")}}})
	require.Error(t, err)
}
