package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/onnx"
)

// The photographs preprocessed by Pillow 13 and NumPy (float32 step by step), hashed in the order of their names.
var preprocessed = map[string]string{
	"imagenet-caffe":     "34b69859a697da7c77e62755936d3c1c4655478fb50d449a4202786d478e96d8",
	"imagenet-torch":     "110a04c6c483d6dee0d1253473a50d8b25109eed44e939cc943d0fc299274598",
	"imagenet-inception": "e0e30b468d235dd5425de575b71ea384bea1b5420f897ffbfc97cf346d9727cc",
}

func TestPhotographsAreThoseOfPillowAndNumPy(t *testing.T) {
	root := testdata(t)
	spec := input("x", 1, 3, 224, 224)
	for preset, want := range preprocessed {
		pre, err := Preprocessing(preset, spec, nil)
		require.NoError(t, err)
		set, w, err := Open([]string{root + "/data/pets/eval"}, spec, Options{Preprocess: &pre, Labels: root + "/data/pets/eval.tsv", Ahead: 2})
		require.NoError(t, err)
		require.Empty(t, w)
		require.Equal(t, 120, set.Len())
		require.NoError(t, set.RequireLabels())
		h := sha256.New()
		for _, s := range all(t, set) {
			require.NoError(t, binary.Write(h, binary.LittleEndian, s.Feeds["x"].F32()))
		}
		require.Equal(t, want, hex.EncodeToString(h.Sum(nil)), preset)
	}
}

func TestRealFiles(t *testing.T) {
	root := testdata(t)
	for _, c := range []struct {
		path, labels string
		spec         InputSpec
		n, first     int // samples, first label
	}{
		{"cifar10/eval_2000.bin", "", input("x", 1, 3, 32, 32), 2000, 3}, // the test set starts with a cat
		{"mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte", input("x", 1, 1, 28, 28), 10000, 7},
	} {
		o := Options{}
		if c.labels != "" {
			o.Labels = root + "/data/" + c.labels
		}
		set, w, err := Open([]string{root + "/data/" + c.path}, c.spec, o)
		require.NoError(t, err)
		require.Empty(t, w)
		require.Equal(t, c.n, set.Len())
		require.Equal(t, c.first, set.Label(0))
		require.NoError(t, set.RequireLabels())
		s, err := set.Sample(c.n - 1)
		require.NoError(t, err)
		require.Equal(t, c.spec[0].Shape, input("x", s.Feeds["x"].Shape...)[0].Shape)
	}
}

// A model with the inputs recorded for it: a test data set beside the model.
func TestRecordedInput(t *testing.T) {
	dir := testdata(t) + "/models/quantized/mobilenet_v2_ort"
	set, _, err := Open([]string{dir}, input("input", 1, 3, 244, 244), Options{})
	require.NoError(t, err)
	require.Equal(t, "mobilenet_v2_ort", set.Name(0))
	s, err := set.Sample(0)
	require.NoError(t, err)
	require.Equal(t, []int{1, 3, 244, 244}, s.Feeds["input"].Shape)
}

func TestSpecOfLeavesConstantsOut(t *testing.T) {
	m, _, err := onnx.Open(testdata(t) + "/models/classifiers/squeezenet1.0.onnx") // initializers are inputs as well
	require.NoError(t, err)
	require.Equal(t, "data_0 f32[1,3,224,224]", SpecOf(m.Graph).String())
}
