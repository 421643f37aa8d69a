package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// planReaders are the commands that read a plan.
var planReaders = [][]string{
	{"analyze"},
	{"dispatch", "--fp32", "conv1"},
	{"eval", "m.plan.json", "--mode", "sim"},
	{"export", "--platform", "trt_int8", "-o", "out.onnx"},
}

// One edit of a plan each: what is replaced (a regular expression, its first match), by what, and the error.
func TestPlanEditedIntoNonsense(t *testing.T) {
	const scale = `("at":"in0","state":"ACTIVATED","scheme":"[^"]*","scale":)[0-9.e-]+`
	for name, c := range map[string]struct{ old, new, want string }{
		"scale 0":        {scale, `${1}0`, `node "conv1": slot in0: .*scale`},
		"scale negative": {scale, `${1}-0.5`, `node "conv1": slot in0: .*scale`},
		"scale as text":  {scale, `${1}"NaN"`, `m\.plan\.json:\d+: a number is wanted, not "NaN"`},
		"scale NaN":      {scale, `${1}NaN`, `m\.plan\.json:\d+: `}, "scale too large": {scale, `${1}1e99`, `m\.plan\.json:\d+: .*1e99`},
		"scale vanishing": {scale, `${1}1e-99`, `m\.plan\.json.*`}, "scale null": {scale, `${1}null`, `m\.plan\.json.*`},
		"two scales for one": {scale, `${1}[0.5,0.25]`, `conv1.*in0.*2 scales`},
		"one scale for sixteen": {`("at":"in1","state":"ACTIVATED","scheme":"[^"]*","scale":)\[[^]]*\]`, `${1}0.5`,
			`conv1.*in1.*1 scales for \[16,3,3,3\], wanted 16`},
		"no scales":               {`("at":"in1","state":"ACTIVATED","scheme":"[^"]*","scale":)\[[^]]*\]`, `${1}[]`, `conv1.*in1`},
		"zero point out of range": {`"zero_point":0`, `"zero_point":500`, `node "conv1": slot in0: .*500`},
		"zero point a fraction":   {`"zero_point":0`, `"zero_point":0.5`, `m\.plan\.json:\d+: number "0\.5"`},
		"zero point asymmetric":   {`"zero_point":0`, `"zero_point":3`, `node "conv1": slot in0: .*3`},
		"unknown state":           {`"state":"ACTIVATED"`, `"state":"EXCITED"`, `m\.plan\.json.*EXCITED`},
		"illegal state":           {`"state":"ACTIVATED"`, `"state":"INITIAL"`, `conv1.*in0.*INITIAL`},
		"unknown scheme": {`"scheme":"int8-symmetric-percentile"`, `"scheme":"int9"`,
			`node "conv1": slot in0: scheme "int9" is not in the plan`},
		"unknown key":           {`"samples": 4`, `"samples": 4, "sampels": 5`, `m\.plan\.json:\d+: .*sampels`},
		"key twice":             {`"samples": 4`, `"samples": 4, "samples": 5`, `m\.plan\.json:\d+: .*samples`},
		"unknown key in a slot": {`"at":"in0"`, `"at":"in0","on":true`, `m\.plan\.json:\d+: .*"?on"?`},
		"no such slot":          {`"at":"in0"`, `"at":"in9"`, `conv1.*in\d`},
		"slot that is none":     {`"at":"in0"`, `"at":"middle"`, `node "conv1": slot "middle" is neither an input`},
		"slot twice":            {`"at":"in1"`, `"at":"in0"`, `node "conv1": slot in0 occurs twice`},
		"root is nowhere":       {`"root":"[^"]*"`, `"root":"conv9:in0"`, `root "conv9:in0" is not another slot`},
		"root is itself":        {`("node":"add".*\n.*"root":)"[^"]*"`, `${1}"add:in0"`, `add.*in0`},
		"node renamed":          {`"node":"relu1"`, `"node":"relu7"`, `relu[17]`},
		"node of another operator": {`"node":"relu1","op":"Relu"`, `"node":"relu1","op":"Tanh"`,
			`node "relu1" is Relu in the model and Tanh in the plan`},
		"node missing":          {`(?s)    \{"node":"relu2".*?\]\},\n`, ``, `relu2`},
		"node twice":            {`"node":"relu1"`, `"node":"conv1"`, `node "conv1" .*twice`},
		"unknown domain":        {`"domain":"INT8"`, `"domain":"INT5"`, `m\.plan\.json.*INT5`},
		"fused with nobody":     {`"fused":"conv1"`, `"fused":"conv3"`, `node "relu1": fused with "conv3"`},
		"fused with itself":     {`"fused":"conv1"`, `"fused":"relu1"`, `relu1`},
		"unknown policy":        {`symmetric per-tensor linear`, `magic`, `m\.plan\.json.*magic`},
		"bits":                  {`"bits":8`, `"bits":77`, `scheme "[^"]*": .*77`},
		"range turned around":   {`"qmin":-128,"qmax":127`, `"qmin":127,"qmax":-128`, `scheme "[^"]*": `},
		"range beyond the bits": {`"qmin":-128,"qmax":127`, `"qmin":-128,"qmax":1270`, `scheme "[^"]*": `},
		"unknown observer":      {`"observer":"percentile"`, `"observer":"guess"`, `m\.plan\.json.*guess`},
		"observers unknown":     {`"observer":"percentile","per_tensor"`, `"observer":"guess","per_tensor"`, `m\.plan\.json.*guess`},
		"unknown rounding":      {`"rounding":"half-even"`, `"rounding":"sideways"`, `m\.plan\.json.*sideways`},
		"samples negative":      {`"samples": 4`, `"samples": -4`, `m\.plan\.json: .*-4 samples`},
		"samples as text":       {`"samples": 4`, `"samples": "4"`, `m\.plan\.json:\d+: .*samples`},
		"nodes an object":       {`(?s)"nodes": \[.*\]\n`, "\"nodes\": {}\n", `m\.plan\.json:\d+: .*nodes`},
		"no nodes":              {`(?s)"nodes": \[.*\]\n`, "\"nodes\": []\n", `node "conv1" \(Conv\) of the model is not in the plan`},
		"another format":        {`"qwb plan"`, `"shopping list"`, `m\.plan\.json: not a plan: format is "shopping list"`},
		"a later version":       {`"version": 2`, `"version": 9`, `m\.plan\.json: version 9`},
		"unknown platform":      {`"platform": "trt_int8"`, `"platform": "abacus"`, `m\.plan\.json: .*abacus`},
		"unknown profile":       {`"profile": "trt"`, `"profile": "abacus"`, `m\.plan\.json.*abacus`},
		"preprocess nonsense":   {`"preprocess": \{\}`, `"preprocess": {"std": 0}`, `m\.plan\.json: preprocess: std`},
		"model is gone":         {`"path":"m\.onnx"`, `"path":"gone.onnx"`, `gone\.onnx: no such file`},
		"model is a plan":       {`"path":"m\.onnx"`, `"path":"m.plan.json"`, `load: m\.plan\.json`},
		"hash of another":       {`"sha256":"[0-9a-f]{4}`, `"sha256":"0000`, `m\.plan\.json: the plan is for another model`},
		"comma missing":         {`"version": 2,`, `"version": 2`, `m\.plan\.json:\d+: `},
		"more after the end":    {`\}\n$`, "}\n{}", `m\.plan\.json:\d+: `},
	} {
		t.Run(name, func(t *testing.T) {
			calibrated(t)
			src := string(read(t, "m.plan.json"))
			at := regexp.MustCompile(c.old).FindStringSubmatchIndex(src)
			require.NotNil(t, at, "nothing to edit")
			edited := src[:at[0]] + string(regexp.MustCompile(c.old).ExpandString(nil, c.new, src, at)) + src[at[1]:]
			write(t, "m.plan.json", []byte(edited))
			for _, args := range planReaders {
				fails(t, exitFailed, c.want, args...)
			}
		})
	}
}

func TestPlanThatIsNone(t *testing.T) {
	calibrated(t)
	whole := read(t, "m.plan.json")
	for name, b := range map[string][]byte{"empty": nil, "binary": []byte("\x00\x01\xff\xfe"), "null": []byte("null"), "number": []byte("12"),
		"list":   []byte("[]"),
		"object": []byte("{}"), "model": read(t, "m.onnx"), "deep": []byte(strings.Repeat(`{"nodes":[`, 1e5)),
		"not UTF-8": bytes.Replace(whole, []byte("relu1"), []byte("re\xff\xfe1"), -1),
		"huge":      append(bytes.Clone(whole), bytes.Repeat([]byte(" "), 300<<20)...)} {
		t.Run(name, func(t *testing.T) {
			if name == "huge" {
				longtest.Need(t, "300 MB")
			}
			write(t, "m.plan.json", b)
			readers := planReaders
			if name == "huge" {
				readers = readers[:1]
			}
			for _, args := range readers {
				r := invoke(args...)
				require.Equal(t, exitFailed, r.code, "%s\n%s", args, r.stderr)
				require.Contains(t, r.lastLine(), "m.plan.json")
			}
		})
	}
	require.NoError(t, os.Remove("m.plan.json"))
	require.NoError(t, os.Mkdir("m.plan.json", 0o755))
	for _, args := range planReaders {
		fails(t, exitFailed, `m\.plan\.json`, args...)
	}
}

func TestPlanCutOff(t *testing.T) {
	calibrated(t)
	whole := read(t, "m.plan.json")
	for n := 0; n < len(whole)-1; n += 1 + len(whole)/97 {
		write(t, "m.plan.json", whole[:n])
		fails(t, exitFailed, `m\.plan\.json`, planReaders[n%2]...)
	}
}

// A plan with a few bytes changed either is refused, or means something that every command can carry out.
func TestPlanMutated(t *testing.T) {
	calibrated(t)
	whole := read(t, "m.plan.json")
	refused := 0
	for seed := range uint64(200) {
		write(t, "m.plan.json", flip(whole, seed, 1+int(seed%3)))
		args := planReaders[seed%uint64(len(planReaders))]
		before := tree(t, ".")
		r := invoke(args...)
		require.Containsf(t, []int{exitDone, exitFailed}, r.code, "seed %d: %s", seed, r.stderr)
		if r.code == exitFailed {
			refused++
			require.Equalf(t, before, tree(t, "."), "seed %d", seed)
		}
		require.NoError(t, os.RemoveAll("m.report"))
		require.NoError(t, os.RemoveAll("out.onnx"))
		require.NoError(t, os.RemoveAll("m.plan.json.bak"))
	}
	require.Greater(t, refused, 100)
}

func TestPlanOfAnotherModel(t *testing.T) {
	calibrated(t)
	saveModel(t, "m.onnx", strings.Replace(network, "seed=5", "seed=7", 1))
	for _, args := range planReaders {
		fails(t, exitFailed, `m\.plan\.json: the plan is for another model: m\.onnx has SHA-256 `, args...)
	}
}

func TestNoOrManyPlans(t *testing.T) {
	workplace(t)
	fails(t, exitUsage, `no plan`, "analyze")
	fails(t, exitFailed, `none\.plan\.json: no such file`, "analyze", "none.plan.json")
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "-o", "a.plan.json")
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "-o", "b.plan.json")
	fails(t, exitUsage, `2 plans in the current folder: name one of a\.plan\.json, b\.plan\.json`, "analyze")
	done(t, "analyze", "b.plan.json", "--layerwise")
	fails(t, exitUsage, `2 plans in the current folder`, "export", "--platform", "trt_int8")
	fails(t, exitUsage, `2 plans in the current folder`, "export", "--platform", "onnxruntime")
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "-o", "c.plan.json")
	require.Contains(t, done(t, "export", "--platform", "onnxruntime").stdout, "c.onnxruntime.onnx: onnx for onnxruntime")
	fails(t, exitUsage, `3 plans in the current folder: name one of a\.plan\.json, b\.plan\.json, c\.plan\.json`, "export", "--platform",
		"trt_int8")
}

// Statistics that are damaged, of another model, or gone: what needs them says so; an interrupted run's damaged statistics do
// not stand in the way of a new run.
func TestBadStatistics(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T)
		want    string
		code    int
	}{
		"empty": {func(t *testing.T) { write(t, "m.stats", nil) }, `m\.stats: not a statistics file, or a damaged one`, exitFailed},
		"cut off": {func(t *testing.T) {
			require.NoError(t, os.Truncate("m.stats", 3000))
		}, `m\.stats: not a statistics file, or a damaged one`, exitFailed},
		"flipped": {func(t *testing.T) {
			write(t, "m.stats", flip(read(t, "m.stats"), 1, 1))
		}, `m\.stats: not a statistics file, or a damaged one`, exitFailed},
		"longer": {func(t *testing.T) {
			write(t, "m.stats", append(read(t, "m.stats"), 1, 2, 3))
		}, `m\.stats: not a statistics file, or a damaged one`, exitFailed},
		"another model's": {func(t *testing.T) {
			saveModel(t, "other.onnx", strings.Replace(network, "seed=5", "seed=7", 1))
			done(t, "calibrate", "other.onnx", "--data", "data", "--platform", "trt_int8")
			require.NoError(t, os.Rename("other.stats", "m.stats"))
			require.NoError(t, os.Remove("other.plan.json"))
		}, `m\.stats: the statistics are of another model`, exitFailed},
		"gone": {func(t *testing.T) { require.NoError(t, os.Remove("m.stats")) }, `m\.stats`, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			calibrated(t)
			c.prepare(t)
			fails(t, c.code, c.want, "calibrate", "m.onnx", "--platform", "onnxruntime")
			fails(t, exitFailed, `m\.stats`, "dispatch", "--fp32", "conv1")
			if c.code == exitFailed {
				write(t, "copy.stats", read(t, "m.stats"))
				fails(t, exitFailed, strings.Replace(c.want, `m\.`, `copy\.`, 1), "calibrate", "m.onnx", "--platform", "onnxruntime", "--merge",
					"copy.stats", "-o", "n.plan.json")
			}
			done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
			done(t, "dispatch", "--fp32", "conv1")
		})
	}
}
