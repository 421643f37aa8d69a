package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/calib/data/npy"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
)

// cornersNet names the corner of the colour cube that a picture is nearest to, in pixels as imagenet-inception has them; class 0 is of
// background and never seen.
func cornersNet() string {
	var w, b []string
	for class := range 9 {
		sign := func(bit int) string {
			if class > 0 && (class-1)>>bit&1 != 0 {
				return "1"
			}
			return "-1"
		}
		w = append(w, sign(0), sign(1), sign(2))
		if class == 0 {
			b = append(b, "-9")
		} else {
			b = append(b, "0")
		}
	}
	return fmt.Sprintf(`
graph corners
opset 17
input x: f32[1,3,8,8]
const w: f32[9,3] = [%s]
const b: f32[9] = [%s]
g = GlobalAveragePool(x) "pool"
f = Flatten(g) "flatten"
y = Gemm(f, w, b) {transB=1} "gemm"
output y: f32[1,9]
`, strings.Join(w, ", "), strings.Join(b, ", "))
}

// drawn is a picture of corner c with a texture of its own: channels that are on lie a little above the middle of the pixels, the others a
// little below, where the presets that take other means see them above.
func drawn(c int, seed uint64, brighter int) image.Image {
	r := rand.New(rand.NewPCG(seed, 77))
	m := image.NewNRGBA(image.Rect(0, 0, 14, 12))
	for y := range 12 {
		for x := range 14 {
			noise, px := r.IntN(5)-2+brighter, [3]int{}
			for bit := range px {
				px[bit] = 120 + 18*(c>>bit&1) + noise
			}
			m.Set(x, y, color.NRGBA{uint8(px[0]), uint8(px[1]), uint8(px[2]), 255})
		}
	}
	return m
}

func savePNG(t *testing.T, path string, m image.Image) {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, png.Encode(f, m))
	require.NoError(t, f.Close())
}

// pictures fills a folder with n pictures and labels.tsv beside it; label says what is written down for a corner.
func pictures(t *testing.T, folder string, first, n int, label func(c int) int) {
	var lines []string
	for i := first; i < first+n; i++ {
		name, c := fmt.Sprintf("%03d.png", i), i*5%8
		savePNG(t, filepath.Join(folder, name), drawn(c, uint64(i), 0))
		lines = append(lines, fmt.Sprintf("%s\t%d", name, label(c)))
	}
	write(t, folder+".tsv", []byte(strings.Join(lines, "\n")))
}

// findings are those of a run of doctor, by rule.
func findings(t *testing.T, code int, args ...string) map[string]qwb.Finding {
	r := invoke(append(append([]string{"doctor"}, args...), "--json")...)
	require.Equal(t, code, r.code, "%v: %s", args, r.stderr)
	var got qwb.DoctorResult
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	out := map[string]qwb.Finding{}
	for _, f := range got.Findings {
		require.NotEmpty(t, f.Fix)
		require.Contains(t, []string{"fault", "hint"}, f.Level)
		out[f.Rule] = f
	}
	return out
}

func itself(c int) int { return c }

// TestDoctorNamesDamagedSamples damages two of eight pictures, then all: that is no matter of single files.
func TestDoctorNamesDamagedSamples(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", cornersNet())
	pictures(t, "data", 0, 8, itself)
	damage := func(i int) { require.NoError(t, os.Truncate(filepath.Join("data", fmt.Sprintf("%03d.png", i)), 60)) }
	for _, i := range []int{5, 0} { // in the middle, and the first one as well
		damage(i)
		f := findings(t, exitCheck, "m.onnx", "--data", "data", "--preprocess", "imagenet-inception")["unreadable"]
		require.Contains(t, f.Text, "005.png")
		require.Contains(t, f.Text, fmt.Sprintf("%v of 8 samples cannot be read", f.Value))
		require.Equal(t, i == 0, strings.Contains(f.Text, "000.png"))
	}
	for i := range 8 {
		damage(i)
	}
	r := invoke("doctor", "m.onnx", "--data", "data", "--preprocess", "imagenet-inception")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "000.png")
}

// TestDoctorRunsSamples: what calibrate refuses a sample for need not show in the sample.
func TestDoctorRunsSamples(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", `
input x: f32[1,4]
input i: i64[1]
const table: f32[3,4] = normal(seed=1)
const w: f32[4,4] = normal(seed=2)
e = Gather(table, i) "emb"
s = Mul(x, e) "s"
p = Mul(s, s) "sq"
l = Log(p) "log"
y = MatMul(l, w) "fc"
output y
`)
	sample := func(name string, x float32, i int64) {
		var b bytes.Buffer
		require.NoError(t, npy.WriteArchive(&b, map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{x, 1, 2, 3}, 1, 4),
			"i": tensor.FromI64([]int64{i}, 1)}))
		write(t, filepath.Join("data", name), b.Bytes())
	}
	require.NoError(t, os.Mkdir("data", 0o755))
	for i := range 6 {
		sample(fmt.Sprintf("%d.npz", i), float32(i+1), int64(i%3))
	}
	require.NotContains(t, findings(t, 0, "m.onnx", "--data", "data"), "refused")
	sample("4.npz", 5, 3)
	f := findings(t, exitCheck, "m.onnx", "--data", "data")["refused"]
	require.Contains(t, f.Text, `sample "4.npz": node "emb"`)
	r := invoke("calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	require.Contains(t, r.stderr, strings.TrimPrefix(f.Text, "data: "))
}

// TestDoctorFindsInfinities: an operator inside makes them, and another hides them.
func TestDoctorFindsInfinities(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", `
input x: f32[1,4]
const w: f32[4,4] = normal(seed=2)
r = Relu(x) "relu"
q = Reciprocal(r) "inverse"
s = Sigmoid(q) "hidden"
y = MatMul(s, w) "fc"
output y
`)
	require.NoError(t, os.Mkdir("data", 0o755))
	for i := range 6 {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, tensor.FromF32([]float32{float32(i - 3), 1, 2, 3}, 1, 4)))
		write(t, filepath.Join("data", fmt.Sprintf("%d.npy", i)), b.Bytes())
	}
	f := findings(t, 0, "m.onnx", "--data", "data")["infinite"]
	require.Equal(t, "inverse", f.Node)
	require.Contains(t, f.Text, "4 of 24 values")
	require.Contains(t, f.Text, "in 4 of 6 samples")
	r := invoke("calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	require.Contains(t, r.stderr, `inverse: 4 of 24 values of "q" are +inf`)
}

func TestDoctorTriesPreprocessingsAndOffsets(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", cornersNet())
	pictures(t, "data", 0, 60, itself)
	args := func(more ...string) []string {
		return append([]string{"m.onnx", "--data", "data", "--labels", "data.tsv"}, more...)
	}
	require.Empty(t, findings(t, exitDone, args("--preprocess", "imagenet-inception", "--label-offset", "1")...))

	got := findings(t, exitCheck, args("--preprocess", "imagenet-inception")...)
	require.Len(t, got, 1)
	require.Equal(t, "--label-offset 1", got["label-offset"].Fix)

	got = findings(t, exitCheck, args("--preprocess", "imagenet-torch", "--label-offset", "1")...)
	require.Len(t, got, 1)
	require.Equal(t, "--preprocess imagenet-inception", got["preprocessing"].Fix)

	got = findings(t, exitCheck, args("--preprocess", "imagenet-caffe", "--label-offset", "3")...)
	require.Equal(t, "--preprocess imagenet-inception", got["preprocessing"].Fix)
	require.Equal(t, "--label-offset 1", got["label-offset"].Fix)

	got = findings(t, exitCheck, args()...)
	require.Contains(t, got["picture-size"].Text, "12x14")
	require.Equal(t, "--preprocess imagenet-inception", got["preprocessing"].Fix)
	require.Equal(t, "--label-offset 1", got["label-offset"].Fix)

	write(t, "bgr.yaml", []byte("resize: {shorter: 9}\ncenter_crop: 8\nchannel_order: bgr\nmean: 127.5\nstd: 127.5\n"))
	got = findings(t, exitCheck, args("--preprocess", "bgr.yaml", "--label-offset", "1", "--trial", "60")...)
	require.Len(t, got, 1)
	require.Equal(t, "--preprocess imagenet-inception", got["preprocessing"].Fix)

	text := invoke(append([]string{"doctor"}, args("--preprocess", "imagenet-inception")...)...)
	require.Equal(t, exitCheck, text.code)
	require.Contains(t, text.stdout, "fault: label-offset: labels: 0 of")
	require.Contains(t, text.stdout, "fix: --label-offset 1")
	require.Contains(t, text.lastLine(), "1 thing is wrong with the data")
}

func TestDoctorLooksAtLabels(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", cornersNet())
	pictures(t, "data", 0, 48, itself)
	args := []string{"m.onnx", "--data", "data", "--preprocess", "imagenet-inception", "--label-offset", "1", "--labels"}
	lines := strings.Split(string(read(t, "data.tsv")), "\n")
	write(t, "few.tsv", []byte(strings.Join(lines[:40], "\n")))
	require.EqualValues(t, 8, findings(t, exitCheck, append(args, "few.tsv")...)["labels-missing"].Value)
	write(t, "far.tsv", []byte(strings.ReplaceAll(string(read(t, "data.tsv")), "\t7", "\t700")))
	require.EqualValues(t, 6, findings(t, exitCheck, append(args, "far.tsv")...)["labels-outside"].Value)

	require.NoError(t, os.Mkdir("two", 0o755))
	for i := range 48 {
		if c := i * 5 % 8; c < 2 {
			name := fmt.Sprintf("%03d.png", i)
			require.NoError(t, os.Rename("data/"+name, "two/"+name))
		}
	}
	args[2] = "two"
	f := findings(t, exitDone, append(args, "data.tsv")...)["class-coverage"]
	require.Equal(t, "hint", f.Level)
	require.Contains(t, f.Text, "12 labelled samples are of 2 of 9 classes")

	pictures(t, "random", 0, 64, func(c int) int { return 0 })
	r := rand.New(rand.NewPCG(1, 2))
	var random []string
	for i := range 64 {
		random = append(random, fmt.Sprintf("%03d.png\t%d", i, r.IntN(8)))
	}
	write(t, "random.tsv", []byte(strings.Join(random, "\n")))
	args[2] = "random"
	require.Equal(t, "fault", findings(t, exitCheck, append(args, "random.tsv")...)["labels"].Level)
}

func TestDoctorFindsDuplicatesAndOverlap(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", cornersNet())
	pictures(t, "calibration", 0, 40, itself)
	pictures(t, "eval", 100, 40, itself)
	done(t, "calibrate", "m.onnx", "--data", "calibration", "--preprocess", "imagenet-inception", "--platform", "trt_int8", "--labels",
		"calibration.tsv", "--label-offset", "1")
	require.Contains(t, string(read(t, "m.plan.json")), `"classes":{"labelled":40,"seen":8,"of":9,"least":5,"most":5}`)
	args := []string{"m.plan.json", "--data", "eval", "--labels", "eval.tsv", "--label-offset", "1"}
	require.Empty(t, findings(t, exitDone, args...))

	savePNG(t, "eval/104.png", drawn(104*5%8, 104, 0)) // as it was
	savePNG(t, "eval/200.png", drawn(105*5%8, 105, 1)) // one of eval, brighter
	savePNG(t, "eval/201.png", drawn(3*5%8, 3, 0))     // one of calibration
	savePNG(t, "eval/202.png", drawn(4*5%8, 4, 1))     // one of calibration, brighter
	write(t, "eval.tsv", append(read(t, "eval.tsv"), fmt.Sprintf("\n200.png\t%d\n201.png\t%d\n202.png\t%d", 0, 3*5%8, 4*5%8)...))
	got := findings(t, exitCheck, args...)
	require.EqualValues(t, 1, got["overlap"].Value)
	require.EqualValues(t, 1, got["near-overlap"].Value)
	require.Contains(t, got["near-overlap"].Text, "202.png and 004.png")
	require.EqualValues(t, 1, got["near-duplicates"].Value)
	require.Contains(t, got["near-duplicates"].Text, "105.png and 200.png")
	require.Contains(t, got["labels-conflict"].Text, "have the classes 6 and 1")

	// The plan's own data, without --data: no overlap.
	_, overlap := findings(t, exitDone, "m.plan.json")["overlap"]
	require.False(t, overlap)

	// Statistics remember the classes for another platform, and plan and history are the same with them.
	done(t, "calibrate", "m.onnx", "--platform", "onnxruntime")
	require.Contains(t, string(read(t, "m.plan.json")), `"seen":8`)
	done(t, "calibrate", "m.onnx", "--data", "calibration", "--preprocess", "imagenet-inception", "--platform", "trt_int8", "-o",
		"bare.plan.json")
	require.NotContains(t, string(read(t, "bare.plan.json")), `"classes"`)
	done(t, "calibrate", "m.onnx", "--data", "calibration", "--preprocess", "imagenet-inception", "--platform", "trt_int8", "-o",
		"bare.plan.json", "--labels", "calibration.tsv")
	require.Contains(t, string(read(t, "bare.plan.json")), `"seen":8`, "labels that are given later count")

	fails(t, exitUsage, "needs --data", "doctor", "m.onnx")
	fails(t, exitUsage, "--trial", "doctor", "m.onnx", "--data", "eval", "--trial", "-1")
}

// On trained networks, doctor finds what they were trained with.
func TestDoctorOnTrainedNetworks(t *testing.T) {
	longtest.Need(t, "trained networks")
	for _, c := range []struct {
		model, data, labels string
		args                []string
		want                map[string]string
	}{
		{"models/classifiers/mobilenet_v1_1.0_224.onnx", "data/pets/eval", "data/pets/eval.tsv", nil,
			map[string]string{"label-offset": "--label-offset 1", "preprocessing": "--preprocess imagenet-inception"}},
		{"models/classifiers/squeezenet1.0.onnx", "data/pets/eval", "data/pets/eval.tsv", []string{"--preprocess", "imagenet-torch"},
			map[string]string{"preprocessing": "--preprocess imagenet-caffe"}},
	} {
		dir := shared(t)
		args := append([]string{filepath.Join(dir, c.model), "--data", filepath.Join(dir, c.data), "--labels", filepath.Join(dir, c.labels)},
			c.args...)
		got := findings(t, exitCheck, args...)
		for rule, fix := range c.want {
			require.Equal(t, fix, got[rule].Fix, "%s %s", c.model, rule)
		}
	}
}

// An exported file is read by the rules of its format: what qwb wrote has no findings, what is for another reader or was changed has, and
// what is no such file is an error.
func TestDoctorOfAnExportedFile(t *testing.T) {
	calibrated(t)
	done(t, "export", "--platform", "trt_int8", "-o", "q.onnx")
	o := done(t, "doctor", "q.onnx", "--platform", "trt_int8", "--json").object(t)
	require.Equal(t, []any{}, o["findings"])
	require.Equal(t, "onnx", o["format"])
	require.Contains(t, o["rules"], "pair")
	require.Contains(t, done(t, "doctor", "q.onnx", "--platform", "trt_int8", "--format", "onnx").stdout, "nothing found")
	r := invoke("doctor", "q.onnx", "--platform", "onnxruntime")
	require.Equal(t, exitCheck, r.code)
	require.Contains(t, r.lastLine(), "breaks rules of onnxruntime (format onnx)")
	require.Regexp(t, `(?m)^weight-form: node ".+\n  fix: .+$`, r.stdout)
	for _, f := range parts(t, invoke("doctor", "q.onnx", "--platform", "onnxruntime", "--json").object(t), "findings[]") {
		for _, key := range []string{"rule", "node", "text", "fix"} {
			require.NotEmpty(t, f[key], key)
		}
	}
	write(t, "junk.onnx", []byte("no model"))
	fails(t, 1, "junk.onnx", "doctor", "junk.onnx", "--platform", "onnxruntime")
	fails(t, 1, "none.onnx", "doctor", "none.onnx", "--platform", "onnxruntime")
	fails(t, 2, "needs --platform", "doctor", "q.onnx", "--format", "onnx")
	fails(t, 2, "one exported file", "doctor", "--platform", "onnxruntime", "--format", "onnx")
	fails(t, 2, "--data: not for an exported file", "doctor", "q.onnx", "--platform", "onnxruntime", "--data", "data")
	fails(t, 2, "unknown format", "doctor", "q.onnx", "--platform", "onnxruntime", "--format", "tar")
	fails(t, 2, "format c has no doctor", "doctor", "q.onnx", "--platform", "onnxruntime", "--format", "c")
	fails(t, 2, "unknown platform", "doctor", "q.onnx", "--platform", "abacus")
}

// A file of the wrong kind, form or platform is named as what it is.
func TestDoctorOfAnotherFile(t *testing.T) {
	calibrated(t)
	// A float model is a finding and not a clean file.
	r := invoke("doctor", "m.onnx", "--platform", "onnxruntime")
	require.Equal(t, exitCheck, r.code)
	require.Contains(t, r.stdout, "quantized: nothing in this file is quantized: it runs in float")
	// The form with operators on codes is known by them.
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "-o", "ort.plan.json")
	done(t, "export", "ort.plan.json", "--platform", "onnxruntime", "--format", "qoperator", "-o", "op.onnx")
	o := done(t, "doctor", "op.onnx", "--platform", "onnxruntime", "--json").object(t)
	require.Equal(t, "qoperator", o["format"])
	require.Equal(t, exitCheck, invoke("doctor", "op.onnx", "--platform", "trt_int8").code, "TensorRT reads Q/DQ alone")

	// Integers of another width, and files for another chip.
	for _, c := range [][4]string{{"tflite_int8", "tflite_16x8", ".tflite", "integers of 8 bits"},
		{"espdl_int8", "espdl_int8_s3", ".espdl", "written for espdl_int8"},
		{"ncnn_int8", "", ".param", ""}} {
		done(t, "calibrate", "m.onnx", "--data", "data", "--platform", c[0], "-o", c[0]+".plan.json")
		done(t, "export", c[0]+".plan.json", "--platform", c[0], "-o", c[0]+c[2])
		require.Contains(t, done(t, "doctor", c[0]+c[2], "--platform", c[0]).stdout, "nothing found")
		if c[1] != "" {
			r := invoke("doctor", c[0]+c[2], "--platform", c[1])
			require.Equal(t, exitCheck, r.code)
			require.Regexp(t, "(?m)^platform: .*"+c[3], r.stdout)
		}
	}

	fails(t, 1, "this is a plan, not a TensorFlow Lite model, which format tflite of --platform tflite_int8 is", "doctor", "ort.plan.json",
		"--platform", "tflite_int8")
	write(t, "m.tflite", []byte("\x08\x00\x00\x00TFL3\x00\x00\x00\x00"))
	fails(t, 1, "this is a TensorFlow Lite model, not an ONNX model", "doctor", "m.tflite", "--platform", "onnxruntime")
	whole := read(t, "tflite_int8.tflite")
	write(t, "cut.tflite", whole[:len(whole)/2])
	fails(t, 1, "truncated", "doctor", "cut.tflite", "--platform", "tflite_int8")
	write(t, "p.param", []byte("7767517\n2 1\npnnx.Input in 0 1 x\npnnx.Output out 1 0 x\n"))
	fails(t, 1, "this is a network of PNNX", "doctor", "p.param", "--platform", "ncnn_int8")
	fails(t, 1, "m.onnx.mnn.json: .*beside the model", "doctor", "m.onnx", "--platform", "mnn_int8")
	write(t, "n.param", []byte("7767517\n1 1\nInput in 0 1 x\n"))
	fails(t, 1, "a network of ncnn, which qwb writes and does not read", "inspect", "n.param")
	write(t, "empty.tflite", nil)
	fails(t, 1, "empty.tflite.*: the file is empty", "inspect", "empty.tflite")
	fails(t, 2, "given as a file: ./mynpu.yaml", "doctor", "m.onnx", "--platform", "mynpu")
}
