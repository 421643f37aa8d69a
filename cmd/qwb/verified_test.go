package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/program/gpu"
	"qwb/quantizer/target"
)

// wellCalibrated is a plan on 9 real samples.
func wellCalibrated(t *testing.T) {
	t.Helper()
	inFolder(t)
	saveModel(t, "m.onnx", network)
	saveInputs(t, "data", 7, 9, 1, 3, 8, 8)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8")
}

// exportOf exports to a new file and returns what it says of its verification, and what stands in the file.
func exportOf(t *testing.T, args ...string) (said, file map[string]string, r result) {
	t.Helper()
	r = done(t, append([]string{"export", "--platform", "trt_int8", "-o", "a.onnx", "--json"}, args...)...)
	said = map[string]string{}
	for key, value := range r.object(t)["verification"].(map[string]any) {
		b, err := json.Marshal(value)
		require.NoError(t, err)
		said[key] = strings.Trim(string(b), `"`)
	}
	file = map[string]string{}
	for _, pair := range strings.Fields(metadataOf(t, "a.onnx")["qwb.verified"]) {
		key, value, ok := strings.Cut(pair, "=")
		require.True(t, ok, pair)
		file[key] = value
	}
	return said, file, r
}

// What an export says of its verification stands in the file as well.
func TestExportSaysHowItWasVerified(t *testing.T) {
	wellCalibrated(t)
	said, file, r := exportOf(t)
	want := map[string]string{"profile": "trt", "engine_known": "false", "backend": "cpu", "samples": "8", "data": "real"}
	for key, value := range want {
		require.Equal(t, value, said[key], key)
		require.Equal(t, value, file[key], key)
	}
	require.Len(t, said["data_sha256"], 64)
	require.Equal(t, said["data_sha256"], file["data_sha256"])
	require.Equal(t, "1", said["share"])
	require.Contains(t, r.stderr, "verified on 8 samples of real data, by cpu under profile trt (whether TensorRT computes so is not known")

	more, _, r := exportOf(t)
	require.Contains(t, r.stderr, "verified before: 8 samples of real data, by cpu")
	require.Contains(t, more["read_back"], "verified before")
	delete(said, "read_back")
	delete(more, "read_back")
	require.Equal(t, said, more)
	_, _, r = exportOf(t, "--samples", "9")
	require.Contains(t, r.stderr, "verified on 9 samples")
	_, _, r = exportOf(t, "--samples", "100") // more than there are
	require.Contains(t, r.stderr, "verified before: 9 samples")
	fails(t, exitUsage, "--samples", "export", "--samples", "-1", "-o", "b.onnx")
}

// A verification that is weaker than export's own does not stand for it, and nothing stands for that on a GPU.
func TestExportVerifiesWhatWasVerifiedLess(t *testing.T) {
	wellCalibrated(t)
	weak := map[string][]string{
		"made-up samples":  {"--data", "synthetic:20"},
		"one sample":       {"--samples", "1"},
		"another backend":  {"--backend", "reference"},
		"another profile":  {"--profile", "onnx"},
		"one that is none": {"--data", "synthetic:1"},
	}
	for name, args := range weak {
		done(t, append([]string{"verify"}, args...)...)
		said, _, r := exportOf(t)
		require.Contains(t, r.stderr, "verified on 8 samples of real data, by cpu under profile trt", name)
		require.Equal(t, "8 real cpu trt", said["samples"]+" "+said["data"]+" "+said["backend"]+" "+said["profile"], name)
	}
	done(t, "verify", "--samples", "9")
	_, _, r := exportOf(t)
	require.NotContains(t, r.stderr, "verified on", "a stronger one does stand")

	said, _, r := exportOf(t, "--backend", "ptx", "--samples", "1")
	require.Contains(t, r.stderr, "verified on 1 sample of real data, by ptx")
	require.Contains(t, r.stderr, "steps on qwb PTX interpreter")
	require.Equal(t, "ptx", said["backend"])
	if gpu.CUDA.Missing() != nil {
		fails(t, exitFailed, "backend cuda", "export", "--platform", "trt_int8", "--backend", "cuda", "-o", "g.onnx")
		require.NoFileExists(t, "g.onnx")
	}
}

// A plan of before these were kept is read, and verified again; so is one that says more than was verified.
func TestAnOldVerificationDoesNotStand(t *testing.T) {
	wellCalibrated(t)
	done(t, "verify")
	whole := string(read(t, "m.plan.json"))
	v := planVerification(t)
	for _, change := range [][2]string{{`"data":"real",`, ``}, {`"samples":8,"data"`, `"samples":9,"data"`},
		{v.DataHash, strings.Repeat("0", 64)}} {
		changed := strings.ReplaceAll(strings.ReplaceAll(whole, ": ", ":"), ", ", ",")
		require.Contains(t, changed, change[0])
		write(t, "m.plan.json", []byte(strings.Replace(changed, change[0], change[1], 1)))
		_, _, r := exportOf(t)
		require.Contains(t, r.stderr, "verified on 8 samples of real data", change[0])
	}
}

// An imported plan has no data: made-up samples and a few of many do not stand for it, all that there are do.
func TestExportOfAnImportedPlan(t *testing.T) {
	wellCalibrated(t)
	exportOf(t)
	require.NoError(t, os.Rename("a.onnx", "q.onnx"))
	done(t, "import", "q.onnx", "--platform", "trt_int8", "-o", "m.plan.json")
	for _, args := range [][]string{{"--data", "synthetic:1"}, {"--data", "data", "--samples", "2"}} {
		done(t, append([]string{"verify"}, args...)...)
		fails(t, exitUsage, "does not stand for this: it is on", "export", "--platform", "trt_int8", "-o", "b.onnx")
		require.NoFileExists(t, "b.onnx")
	}
	exportOf(t, "--samples", "2")
	done(t, "verify", "--data", "synthetic:8")
	said, _, _ := exportOf(t)
	require.Equal(t, "synthetic", said["data"])
	require.NoError(t, os.Rename("data", "all"))
	saveInputs(t, "data", 7, 3, 1, 3, 8, 8)
	done(t, "verify", "--data", "data")
	said, _, _ = exportOf(t)
	require.Equal(t, "3", said["samples"])
}

// gate does not pass on a verification that would not stand for an export.
func TestGateOnAWeakVerification(t *testing.T) {
	wellCalibrated(t)
	note := ""
	verdict := func() string {
		for _, c := range done(t, "gate", "m.plan.json", "--data", "data", "--max-nsr", "1", "--json").object(t)["checks"].([]any) {
			if c := c.(map[string]any); c["check"] == "integers, profile trt" {
				note, _ = c["note"].(string)
				return c["verdict"].(string)
			}
		}
		return "none"
	}
	require.Equal(t, "passed with a note", verdict())
	require.Equal(t, "unverified; qwb verify does it", note)
	done(t, "verify")
	require.Equal(t, "passed", verdict())
	require.Contains(t, note, "on 8 samples of real data, by cpu under profile trt")
	done(t, "verify", "--data", "synthetic:1")
	require.Equal(t, "passed with a note", verdict())
	require.Contains(t, note, "does not stand: it is on synthetic data, and the plan has real ones")
	demanded := []string{"gate", "m.plan.json", "--data", "data", "--max-nsr", "1", "--verified"}
	r := invoke(demanded...)
	require.Equal(t, exitCheck, r.code)
	require.Contains(t, r.stdout, "not verified as an export asks")
	done(t, "verify")
	done(t, demanded...)
	require.Contains(t, invoke("gate", "m.onnx", "--data", "data", "--max-nsr", "1", "--verified").stdout,
		"nothing says that they were verified")
}

// Every target says whose arithmetic its profile is, in the list, in a plan and at export; files that no engine has opened are
// experimental.
func TestWhoseArithmetic(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", network)
	saveInputs(t, "data", 7, 2, 1, 3, 8, 8)
	var list []struct {
		Name, Engine, Experimental string
		Known                      bool `json:"engine_known"`
	}
	require.NoError(t, json.Unmarshal([]byte(done(t, "target", "list", "--json").stdout), &list))
	require.Len(t, list, len(target.All)+len(target.Foreign))
	known := map[string]bool{}
	for _, row := range list {
		known[row.Name] = row.Known
		require.True(t, row.Engine != "" || strings.HasPrefix(row.Name, "pow2_int8") || row.Name == "onnx", row.Name)
	}
	for _, name := range strings.Fields("onnxruntime openvino_int8 tflite_int8 ncnn_int8 mnn_int8 espdl_int8") {
		require.True(t, known[name], name)
	}
	for _, name := range strings.Fields("trt_int8 trt_fp8 qnn aimet snpe rknn_int8 tengine_int8 ascend_int8 ppl_dsp_int8 graphcore_fp8 " +
		"xint8 nxp_int8 pow2_int8") {
		require.False(t, known[name], name)
	}
	require.Regexp(t, `(?m)^rknn_int8 .*not known`, done(t, "target", "list").stdout)
	require.Regexp(t, `(?m)^onnxruntime .*compared`, done(t, "target", "list").stdout)

	for name, format := range map[string]string{"rknn_int8": "format rknn", "snpe": "format snpe", "tengine_int8": "format tengine",
		"ascend_int8":   "format ascend",
		"ppl_cuda_int8": "format ppl-cuda", "ppl_dsp_int8": "format ppl-dsp", "xint8": "platform xint8",
		"xint8_lut": "platform xint8_lut", "fpga_int8": "platform fpga_int8",
		"metax_int8_c": "platform metax_int8_c", "onnxruntime": ""} {
		done(t, "calibrate", "m.onnx", "--data", "data", "--platform", name, "-o", name+".plan.json")
		shown := done(t, "plan", "show", name+".plan.json").stdout
		r := done(t, "export", name+".plan.json")
		if format == "" {
			require.Contains(t, shown, "computed here as ort (those of ONNX Runtime")
			require.NotContains(t, r.stderr, "experimental")
			require.Contains(t, r.stderr, "under profile ort (those of ONNX Runtime")
			continue
		}
		require.Contains(t, r.stderr, format+" is experimental")
		require.Contains(t, shown, "is not known: nobody here has compared its integers")
		require.Contains(t, r.stderr, "is not known: nobody here has compared its integers")
	}
}

// A step without a kernel of the processor runs by the reference there: that is no device on which nothing ran.
func TestExportWhereTheProcessorHasNoKernel(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", `
graph depthwise
opset 17
input x: f32[1,4,8,8]
const w: f32[4,1,3,3] = normal(seed=1, std=0.3)
y = Conv(x, w) {group=4} "conv"
output y
`)
	saveInputs(t, "data", 7, 2, 1, 4, 8, 8)
	for _, platform := range []string{"rknn_int8", "snpe"} {
		done(t, "calibrate", "m.onnx", "--data", "data", "--platform", platform, "--border-cost", "0")
		require.Contains(t, done(t, "verify", "--json").object(t), "placed")
		done(t, "export")
	}
}
