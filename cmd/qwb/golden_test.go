package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"hash"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/calib/data/npy"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/kernels/cpu"
	"qwb/observers"
)

var rewriteGoldens = flag.Bool("rewrite", false, "write what the models of QWB_TESTDATA give as testdata/goldens.txt")

const goldensFile = "testdata/goldens.txt"

// goldenModel is a model whose bytes have to stay, with the data that it is calibrated on.
type goldenModel struct {
	model, data, preprocess, samples string
}

// goldenModels lists them; paths that begin with @ lie below QWB_TESTDATA, others in the folder of the test.
var goldenModels = []goldenModel{
	{"classifiers/mobilenetv2_0.35_catdog.onnx", "@data/pets/calibration", "imagenet-inception", "4"},
	{"classifiers/mobilenet_v1_1.0_224.onnx", "@data/pets/calibration", "imagenet-inception", "4"},
	{"classifiers/squeezenet1.0.onnx", "@data/pets/calibration", "imagenet-caffe", "2"},
	{"mlperf-tiny/pretrainedResnet.onnx", "@data/cifar10/calibration_500.bin", "none", "8"},
	{"mlperf-tiny/ad01_fp32.onnx", "synthetic:4", "none", "4"},
	{"mlperf-tiny/kws_dequant_fp32.onnx", "synthetic:4", "none", "4"},
	{"mlperf-tiny/str_ww_dequant_fp32.onnx", "@models/mlperf-tiny/training__streaming_wakeword__calibration_samples.npz", "none", "4"},
	{"mlperf-tiny/vww_96_float.onnx", "synthetic:4", "none", "4"},
	{"mnist/mnist-8.onnx", "@data/mnist/t10k-images-idx3-ubyte.gz", "none", "8"},
	{"mnist/cnn_mnist_pytorch.onnx", "@data/mnist/t10k-images-idx3-ubyte.gz", "none", "8"},
	{"vision/blazeface_front_128.onnx", "@data/cc0", "face.yaml", "4"},
	{"speech/silero_vad_16k_op15.onnx", "frames.npz", "none", "1"},
	{"ocr/en_PP-OCRv4_rec.onnx", "lines", "none", "2"},
}

// With every option written out, statistics, exported models, generated integers and q80 files of trained networks stay what they
// are, byte for byte. Floats are those of processors with fused multiply-add.
func TestGoldens(t *testing.T) {
	longtest.Need(t, "trained networks")
	shared(t)
	if f := cpu.Detect(); !f.AVX2 && !f.NEON {
		t.Skip("a processor without fused multiply-add")
	}
	want := readGoldens(t)
	got := map[string]string{}
	for _, m := range goldenModels {
		t.Run(filepath.Base(m.model), func(t *testing.T) { m.goldens(t, got) })
	}
	t.Run("stories260K.bin", func(t *testing.T) {
		file := shared(t, "models", "llm", "stories260K.bin")
		inFolder(t)
		done(t, "export", file, "--format", "q80", "--group-size", "64", "--method", "rtn", "-o", "q.bin")
		got["stories260K.bin q80"] = hexSum(read(t, "q.bin"))
	})
	if t.Failed() {
		return
	}
	if *rewriteGoldens {
		writeGoldens(t, got)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		assert.Equal(t, want[key], got[key], key)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		assert.Contains(t, got, key)
	}
}

// goldens adds the hashes of a model.
func (m goldenModel) goldens(t *testing.T, got map[string]string) {
	inFolder(t)
	write(t, "face.yaml", []byte("resize: {size: [128, 128]}\nmean: 127.5\nstd: 127.5\n"))
	saveFrames(t, "frames.npz")
	saveInputs(t, "lines", 1, 1, 1, 3, 48, 32)
	saveArray(t, "lines/wide.npy", graphtest.Normal(2, 1, 3, 48, 57))
	file, data := shared(t, "models", filepath.FromSlash(m.model)), m.data
	if below, ok := strings.CutPrefix(data, "@"); ok {
		data = shared(t, filepath.FromSlash(below))
	}
	name := filepath.Base(m.model)
	args := []string{"--data", data, "--samples", m.samples, "--seed", "1", "--preprocess", m.preprocess}
	for _, of := range []struct {
		platform  string
		observers []string
	}{
		{"trt_int8", []string{"mse", "robust", "minmax", "kl", "percentile"}},
		{"onnxruntime", []string{"mse", "minmax", "percentile"}},
	} {
		for _, observer := range of.observers {
			done(t, slices.Concat([]string{"calibrate", file, "--platform", of.platform, "--observer", observer, "-o", "m.plan.json"}, args)...)
			args = nil // from here on the statistics are there
			done(t, "export", "--platform", of.platform, "--unverified", "-o", "q.onnx")
			got[strings.Join([]string{name, of.platform, observer, "onnx"}, " ")] = hexSum(withoutOrigin(t, "q.onnx"))
		}
		if r := invoke("export", "--format", "c", "--unverified", "-o", "m.c"); r.code == exitDone {
			got[name+" "+of.platform+" percentile c"] = hexSum(integersOfC(t, read(t, "m.c")))
		}
	}
	got[name+" statistics"] = presentStatistics(t, "m.stats")
}

// withoutOrigin returns an exported file written again without what qwb says about where it came from.
func withoutOrigin(t *testing.T, file string) []byte {
	t.Helper()
	m, _, err := onnx.Open(file)
	require.NoError(t, err)
	defer m.Close()
	m.Metadata = slices.DeleteFunc(m.Metadata, func(kv onnx.KeyValue) bool { return strings.HasPrefix(kv.Key, "qwb.") })
	var b bytes.Buffer
	require.NoError(t, m.Write(&b))
	return b.Bytes()
}

// arraysOfC matches the constant arrays of a generated program: their type and their numbers.
var arraysOfC = regexp.MustCompile(`(?s)static const ([\w ]+) \w+\[(\d+)\] = \{(.*?)\};`)

// integersOfC returns the numbers of a generated program, without names and layout.
func integersOfC(t *testing.T, source []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, m := range arraysOfC.FindAllSubmatch(source, -1) {
		fmt.Fprintf(&b, "%s %s\n%s\n", m[1], m[2], bytes.Join(bytes.Fields(m[3]), nil))
	}
	require.NotZero(t, b.Len(), "a program without constants")
	return b.Bytes()
}

// presentStatistics returns the hash of what statistics of version 1 hold, whatever version the file is of: a later version may add
// sections, these have to stay. Where the data lay is left out.
func presentStatistics(t *testing.T, file string) string {
	t.Helper()
	s, err := calib.Load(file)
	require.NoError(t, err)
	h := sha256.New()
	fmt.Fprintln(h, s.Model, s.Preprocess, s.Seed, s.Samples())
	for _, sample := range s.Hashes() {
		h.Write(sample[:])
	}
	for _, k := range s.Kept() {
		h.Write(k.Hash[:])
		require.NoError(t, npy.WriteArchive(h, map[string]*tensor.Tensor(k.Feeds)))
	}
	for _, name := range s.Names() {
		fmt.Fprintln(h, name)
		tensor := s.Tensor(name)
		for _, x := range tensor.Halves {
			hashExtent(h, x)
		}
		hashState(h, tensor.State)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashState writes everything that a state knows.
func hashState(h hash.Hash, st *observers.State) {
	negative, positive := st.Inf()
	fmt.Fprintln(h, st.Count(), st.Zeros(), st.NaN(), negative, positive, st.HasBins(), len(st.Channels()))
	hashExtent(h, st.Extent())
	for _, x := range st.Channels() {
		hashExtent(h, x)
	}
	if !st.HasBins() {
		return
	}
	for b := range st.Bins() {
		fmt.Fprintf(h, "%x %x %d\n", math.Float64bits(b.Lo), math.Float64bits(b.Hi), b.Count)
	}
}

func hashExtent(h hash.Hash, x observers.Extent) {
	fmt.Fprintf(h, "%x %x\n", math.Float32bits(x.Min), math.Float32bits(x.Max))
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// readGoldens reads the table: a key of words, then a hash, per line.
func readGoldens(t *testing.T) map[string]string {
	t.Helper()
	table := map[string]string{}
	b, err := os.ReadFile(goldensFile)
	if *rewriteGoldens {
		return table
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			table[line[:at]] = line[at+1:]
		}
	}
	require.NotEmpty(t, table)
	return table
}

func writeGoldens(t *testing.T, table map[string]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# SHA-256 of what trained models give; written by go test ./cmd/qwb -run Goldens -rewrite\n")
	for _, key := range slices.Sorted(maps.Keys(table)) {
		fmt.Fprintln(&b, key, table[key])
	}
	require.NoError(t, os.WriteFile(goldensFile, []byte(b.String()), 0o644))
}
