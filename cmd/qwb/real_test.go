package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/calib/data/npy"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
)

// Trained networks of every kind through every command, on both platforms.
func TestTrainedNetworks(t *testing.T) {
	longtest.Need(t, "trained networks")
	cifar := shared(t, "data", "cifar10", "calibration_500.bin")
	for _, c := range []struct {
		model, data, preprocess, samples string
	}{
		{"mlperf-tiny/pretrainedResnet.onnx", cifar, "none", "20"},
		{"mnist/mnist-8.onnx", shared(t, "data", "mnist", "t10k-images-idx3-ubyte.gz"), "none", "20"},
		{"mlperf-tiny/str_ww_dequant_fp32.onnx", shared(t, "models", "mlperf-tiny", "training__streaming_wakeword__calibration_samples.npz"),
			"none", "10"},
		{"vision/blazeface_front_128.onnx", shared(t, "data", "cc0"), "face.yaml", "1"},
		{"speech/embedding_model.onnx", "synthetic:1", "none", "1"},
		{"speech/silero_vad_16k_op15.onnx", "frames.npz", "none", "1"},
		{"filetype/magika_v3_3.onnx", "synthetic:1", "none", "1"},
		{"ocr/en_PP-OCRv4_rec.onnx", "lines", "none", "2"},
	} {
		t.Run(filepath.Base(c.model), func(t *testing.T) {
			inFolder(t)
			write(t, "face.yaml", []byte("resize: {size: [128, 128]}\nmean: 127.5\nstd: 127.5\n"))
			saveFrames(t, "frames.npz")
			saveInputs(t, "lines", 1, 1, 1, 3, 48, 32)
			saveArray(t, "lines/wide.npy", graphtest.Normal(2, 1, 3, 48, 57))
			model := shared(t, "models", filepath.FromSlash(c.model))
			for i, platform := range []string{"trt_int8", "onnxruntime"} {
				args := []string{"calibrate", model, "--platform", platform, "-o", "m.plan.json"}
				if i == 0 {
					args = append(args, "--data", c.data, "--samples", c.samples, "--preprocess", c.preprocess)
				}
				done(t, args...)
				done(t, "export", "--platform", platform, "-o", platform+".onnx")
				done(t, "inspect", platform+".onnx")
				o := done(t, "analyze", "--samples", "2", "--html", "r.html", "--json").object(t)
				require.NotEmpty(t, o["layerwise"])
				require.NotEmpty(t, o["graphwise"])
			}
		})
	}
}

// saveFrames writes what a voice activity detector of the Silero kind reads: a frame, its state, the sample rate.
func saveFrames(t *testing.T, path string) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, npy.WriteArchive(&b, map[string]*tensor.Tensor{
		"input": graphtest.Normal(1, 1, 576), "state": graphtest.Normal(2, 2, 1, 128), "sr": tensor.FromI64([]int64{16000}),
	}))
	write(t, path, b.Bytes())
}

// A detector that switches between two networks by its sample rate has nothing to quantize until the rate is bound.
func TestSileroBound(t *testing.T) {
	model := shared(t, "models", "speech", "silero_vad.onnx")
	inFolder(t)
	saveFrames(t, "frames.npz")
	require.Len(t, parts(t, done(t, "inspect", model, "--json").object(t), "bodies[]"), 2)
	done(t, "bind", model, "--input", "sr=16000", "--shape", "input=1,576", "--shape", "state=2,1,128", "-o", "m.onnx")
	done(t, "run", model, "--input", "frames.npz", "--output", "whole")
	done(t, "preprocess", "m.onnx", "--data", "frames.npz", "--dump", "in")
	done(t, "run", "m.onnx", "--input", "in/00000_frames.npz", "--output", "bound")
	require.Less(t, noiseToSignal(t, "bound/output.npy", "whole/output.npy"), 1e-10)
	require.Less(t, noiseToSignal(t, "bound/stateN.npy", "whole/stateN.npy"), 1e-10)
	for _, p := range parts(t, done(t, "inspect", "m.onnx", "--json").object(t), "platforms[]") {
		if slices.Contains(qwb.SweepPlatforms, p["platform"].(string)) { // others have no convolution along one axis
			require.Greater(t, p["macs_int8"], 0.8, "all but the LSTM: %v", p["platform"])
		}
	}
	done(t, "calibrate", "m.onnx", "--data", "in", "--platform", "trt_int8")
	done(t, "export", "--platform", "trt_int8", "-o", "q.onnx")
}

// Squeezenet: threads and split data change no byte.
func TestSqueezenetSame(t *testing.T) {
	longtest.Need(t, "squeezenet")
	model, pets := shared(t, "models", "classifiers", "squeezenet1.0.onnx"), shared(t, "data", "pets", "calibration")
	inFolder(t)
	write(t, "m.onnx", read(t, model))
	pictures, err := os.ReadDir(pets)
	require.NoError(t, err)
	for i, p := range pictures[:4] {
		part := filepath.Join("part" + string(rune('0'+i%2)))
		require.NoError(t, os.MkdirAll(part, 0o755))
		write(t, filepath.Join(part, p.Name()), read(t, filepath.Join(pets, p.Name())))
		done(t, "preprocess", "m.onnx", "--data", part, "--preprocess", "imagenet-caffe", "--dump", "dump"+part)
	}
	data := []string{"--data", "part0", "--data", "part1", "--preprocess", "imagenet-caffe"}
	want := outcome(t, "trt_int8", append(data, "--threads", "1")...)
	for _, n := range []string{"2", "7"} {
		same(t, want, outcome(t, "trt_int8", append(data, "--threads", n)...), "%s threads", n)
	}
	for _, part := range []string{"part0", "part1"} {
		done(t, "calibrate", "m.onnx", "--data", part, "--preprocess", "imagenet-caffe", "--platform", "trt_int8", "-o", part+".plan.json")
	}
	same(t, want, outcome(t, "trt_int8", "--merge", "part1.stats", "part0.stats"), "merged")
}

// Evaluating on the data that was calibrated on is said to be that.
func TestOverlapIsReported(t *testing.T) {
	model, images := shared(t, "models", "mlperf-tiny", "pretrainedResnet.onnx"), shared(t, "data", "cifar10", "calibration_500.bin")
	inFolder(t)
	done(t, "calibrate", model, "--data", images, "--samples", "50", "--seed", "3", "--platform", "trt_int8", "-o", "m.plan.json")
	require.Contains(t, done(t, "eval", "m.plan.json", "--mode", "sim").stderr, "50 of 50 evaluation samples were also used for calibration")
	require.Contains(t, done(t, "eval", "m.plan.json", "--data", images).stderr, "50 of 500 evaluation samples were also used for calibration")
	require.NotContains(t, done(t, "eval", "m.plan.json", "--data", shared(t, "data", "cifar10", "eval_2000.bin"), "--samples", "50").stderr,
		"calibrated on")
}

// What preprocess writes is what calibrate sees: calibrated on the dump, the scales are the same.
func TestDumpIsWhatCalibrateSees(t *testing.T) {
	model, pets := shared(t, "models", "classifiers", "mobilenetv2_0.35_catdog.onnx"), shared(t, "data", "pets", "calibration")
	inFolder(t)
	done(t, "preprocess", model, "--data", pets, "--samples", "2", "--preprocess", "imagenet-inception", "--dump", "dump")
	done(t, "calibrate", model, "--data", pets, "--samples", "2", "--preprocess", "imagenet-inception", "--platform", "trt_int8", "-o",
		"a.plan.json")
	done(t, "calibrate", model, "--data", "dump", "--platform", "trt_int8", "-o", "b.plan.json")
	nodes := func(file string) []byte {
		_, after, _ := bytes.Cut(read(t, file), []byte(`"nodes": [`))
		return after
	}
	require.NotEmpty(t, nodes("a.plan.json"))
	require.Equal(t, string(nodes("a.plan.json")), string(nodes("b.plan.json")))
}
