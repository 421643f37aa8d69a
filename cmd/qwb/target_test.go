package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/quantizer/target"
)

// planParts reads the parts of a plan that say what is quantized how.
func planParts(t *testing.T, file string) map[string]json.RawMessage {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var p map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(b, &p))
	return p
}

// A platform that was written out derives the numbers of the built-in one: under its own name the very plan, under another the same
// schemes and nodes.
func TestAPlatformFromAFileDerivesTheSameNumbers(t *testing.T) {
	t.Chdir(t.TempDir())
	saveModel(t, "m.onnx", network)
	done(t, "calibrate", "m.onnx", "--data", "synthetic:4", "--platform", "trt_int8")
	long := longtest.Wanted(t)
	for i, name := range target.Builtin().Names() {
		if !long && i%7 != 0 {
			continue
		}
		text := done(t, "target", "show", name).stdout
		require.NoError(t, os.WriteFile("t.yaml", []byte(text), 0o644))
		done(t, "target", "check", "t.yaml")
		done(t, "calibrate", "m.onnx", "--platform", name)
		own, err := os.ReadFile("m.plan.json")
		require.NoError(t, err)
		done(t, "calibrate", "m.onnx", "--platform", "./t.yaml")
		again, err := os.ReadFile("m.plan.json")
		require.NoError(t, err)
		require.Equal(t, string(own), string(again), name)

		require.NoError(t, os.WriteFile("t.yaml", []byte(strings.Replace(text, "name: "+name, "name: mynpu", 1)), 0o644))
		done(t, "calibrate", "m.onnx", "--platform", "t.yaml")
		require.NoError(t, os.WriteFile("own.plan.json", own, 0o644))
		want, got := planParts(t, "own.plan.json"), planParts(t, "m.plan.json")
		require.JSONEq(t, string(want["schemes"]), string(got["schemes"]), name)
		require.Equal(t, strings.ReplaceAll(string(want["nodes"]), name, "mynpu"), string(got["nodes"]), name)
		require.Equal(t, `"mynpu"`, string(got["platform"]))
	}
}

func TestTargetCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(done(t, "target", "list", "--json").stdout), &list))
	require.Len(t, list, len(target.Builtin().All)+len(target.Builtin().Foreign))
	require.Equal(t, "trt_int8", list[0]["name"])
	require.Equal(t, target.TRTInt8.Hash(), list[0]["sha256"])
	text := done(t, "target", "list").stdout
	for _, word := range []string{"weighted-inputs", "uint8-asym-tensor", "openvino_int8", "tflite (import only)"} {
		require.Contains(t, text, word)
	}
	require.Contains(t, done(t, "target", "show", "tflite").stdout, "name: tflite\n")
	copied := strings.Replace(done(t, "target", "show", "tflite_int8").stdout, "name: tflite_int8", "name: mylite", 1)
	require.NoError(t, os.WriteFile("mylite.yaml", []byte(copied), 0o644))
	require.Contains(t, done(t, "target", "check", "mylite.yaml").stdout,
		"QuantizeLinear half to even: Q/DQ files (format onnx) of its plans are refused")

	fails(t, exitUsage, `unknown platform "npu": one of trt_int8`, "target", "show", "npu")
	fails(t, exitFailed, "none.yaml", "target", "check", "none.yaml")
	broken := strings.Replace(done(t, "target", "show", "trt_int8").stdout, "profile:", "profil:", 1)
	require.NoError(t, os.WriteFile("b.yaml", []byte(broken), 0o644))
	fails(t, exitFailed, `b.yaml: platform file: \[6:1\] unknown field "profil"`, "target", "check", "b.yaml")
	other := strings.Replace(done(t, "target", "show", "trt_int8").stdout, "border_cost: 64", "border_cost: 65", 1)
	require.NoError(t, os.WriteFile("b.yaml", []byte(other), 0o644))
	fails(t, exitFailed, `platform "trt_int8" is built in and this one is another: give it another name`, "target", "check", "b.yaml")
	saveModel(t, "m.onnx", network)
	fails(t, exitFailed, "is built in", "calibrate", "m.onnx", "--data", "synthetic:2", "--platform", "b.yaml")
}

// The example of the document is a platform, and a model is quantized for it.
func TestThePlatformInTheDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/targets.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(doc), "```yaml\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "```")
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("mynpu.yaml", []byte(text), 0o644))
	require.Contains(t, done(t, "target", "check", "mynpu.yaml").stdout, "mynpu: 11 operators")
	saveModel(t, "m.onnx", network)
	done(t, "calibrate", "m.onnx", "--data", "synthetic:4", "--platform", "./mynpu.yaml")
	nodes := string(planParts(t, "m.plan.json")["nodes"])
	require.Contains(t, nodes, `"why":"conservative"`)

	// The plan holds the platform: it needs the file no more.
	require.NoError(t, os.Rename("mynpu.yaml", "gone.yaml"))
	v := done(t, "verify", "m.plan.json", "--json").object(t)
	require.Equal(t, "mynpu16", v["profile"])
	require.Contains(t, []any{"exact", "ties"}, v["verdict"])
	require.Greater(t, v["integers_compared"], 100.0)
	require.Equal(t, 0.0, v["integers_different"])
	done(t, "export", "m.plan.json", "--platform", "mynpu", "--format", "c", "-o", "m.c")
	c, err := os.ReadFile("m.c")
	require.NoError(t, err)
	require.Contains(t, string(c), "scale_single_any_half_even")
	done(t, "export", "m.plan.json", "--platform", "mynpu", "-o", "m.int8.onnx")
	done(t, "export", "m.plan.json", "--platform", "gone.yaml", "-o", "m.int8.onnx")
	require.NoError(t, os.WriteFile("gone.yaml", []byte(strings.Replace(text, "border_cost: 4", "border_cost: 5", 1)), 0o644))
	fails(t, exitFailed, "m.plan.json is a plan for mynpu; make one for gone.yaml first", "export", "m.plan.json", "--platform", "gone.yaml",
		"-o", "other.onnx")
	fails(t, exitUsage, `unknown platform "npu"`, "export", "m.plan.json", "--platform", "npu", "-o", "other.onnx")

	// What a multiplier of few bits rounds is in the bounds; a shift that leaves nothing of a factor is an error, and one that leaves too
	// little of it no tie.
	for _, c := range []struct {
		from, to string
		code     int
		want     string
	}{
		{"multiplier: 16, shift: 40", "multiplier: 8, shift: 40", 0, ""},
		{"shift: 40", "shift: 1", exitFailed, "is 0 with right shifts of up to 1"},
		{"shift: 40", "shift: 10", exitCheck, "integers differ; first at node"},
		{"multiplier: 16, shift: 40", "multiplier: 3, shift: 40", exitCheck, "integers differ; first at node"},
	} {
		require.NoError(t, os.WriteFile("narrow.yaml", []byte(strings.Replace(text, c.from, c.to, 1)), 0o644))
		r := invoke("calibrate", "m.onnx", "--data", "synthetic:4", "--platform", "narrow.yaml", "-o", "narrow.plan.json")
		if r.code == 0 {
			r = invoke("verify", "narrow.plan.json")
		}
		require.Equal(t, c.code, r.code, "%s: %s%s", c.to, r.stdout, r.stderr)
		require.Contains(t, r.stderr, c.want)
	}

	// What contradicts itself is listed.
	wrong := strings.NewReplacer("quantize: half-even", "", "format: onnx", "format: q80", "bias: {scheme: int32-sym-tensor}\n",
		"").Replace(text)
	require.NoError(t, os.WriteFile("wrong.yaml", []byte(wrong), 0o644))
	r := invoke("target", "check", "wrong.yaml")
	require.Equal(t, exitCheck, r.code)
	require.Contains(t, r.stderr, "platform mynpu contradicts itself in 2 points")
	require.Contains(t, r.stdout, "  biases stay float, and profile mynpu16 adds them")
	require.Contains(t, r.stdout, `format "q80" is of checkpoints, not of plans for mynpu`)
	r = invoke("target", "check", "wrong.yaml", "--json")
	require.Equal(t, exitCheck, r.code)
	require.Len(t, r.object(t)["contradictions"], 2)
}
