package data

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
)

func sample(name string, x *tensor.Tensor) *exec.Sample {
	feeds := map[string]*tensor.Tensor{"x": x}
	return &exec.Sample{Name: name, Feeds: feeds, Hash: Hash(feeds)}
}

func texts(w []Warning) []string {
	var out []string
	for _, w := range w {
		out = append(out, w.Text)
	}
	return out
}

// noisePicture has the given mean and deviation per channel.
func noisePicture(seed uint64, mean, std [3]float32) *tensor.Tensor {
	s := &syntheticSource{spec: input("x", 1, 3, 24, 24), shapes: [][]int{{1, 3, 24, 24}}, n: 1, seed: seed}
	feeds, _ := s.load(0)
	x := feeds["x"]
	for i, v := range x.F32() {
		c := i / (24 * 24)
		x.F32()[i] = v*std[c] + mean[c]
	}
	return x
}

func examine(g *graph.Graph, pre *plan.Preprocess, mean, std [3]float32) []string {
	d := NewDoctor(input("x", 1, 3, 24, 24), g, pre)
	for i := range uint64(8) {
		d.Observe(sample("s", noisePicture(i, mean, std)))
	}
	return texts(d.Warnings())
}

func TestConstantAndRepeatedSamples(t *testing.T) {
	d := NewDoctor(input("x", 1, 4), nil, nil)
	for _, s := range []*exec.Sample{sample("a", ramp(0, 1, 4)), sample("b", tensor.FromF32([]float32{7, 7, 7, 7}, 1, 4)),
		sample("c", ramp(0, 1, 4)), sample("d", ramp(0, 1, 4))} {
		d.Observe(s)
	}
	require.Equal(t, []string{"2 of 4 samples are exact repetitions (first: c repeats a)",
		"the input is constant in 1 of 4 samples (first: b)"}, texts(d.Warnings()))
}

func TestRulesOfThumb(t *testing.T) {
	pixels := NewDoctor(input("x", 1, 3, 16, 16), nil, nil)
	pixels.Observe(sample("a", ramp(0, 1, 1, 16, 16)))
	require.Equal(t, []string{"the input holds whole numbers from 0 to 255, pixels that were not normalised: " +
		"right only for a model trained on those"}, texts(pixels.Warnings()))

	unit := [3]float32{1, 1, 1}
	require.Empty(t, examine(nil, nil, [3]float32{}, unit))
	require.Len(t, examine(nil, nil, [3]float32{}, [3]float32{60, 60, 60}), 1)
	require.Len(t, examine(nil, nil, [3]float32{9, 9, 9}, unit), 1)
	require.Empty(t, examine(nil, &plan.Preprocess{Mean: plan.Channels{104}}, [3]float32{}, [3]float32{60, 60, 60}),
		"whoever normalises on purpose is not asked again")
}

// trained is a Conv with a BatchNormalization that has seen noise of the given moments.
func trained(t *testing.T, mean, std [3]float32) *graph.Graph {
	g := graph.New("g", 13)
	value := func(v graph.Value) graph.ValueID {
		id, err := g.AddValue(v)
		require.NoError(t, err)
		return id
	}
	x := value(graph.Value{Name: "x", DType: tensor.Float32, Shape: graph.Static(1, 3, 24, 24)})
	g.Inputs = []graph.ValueID{x}
	const out = 8
	w := tensor.New(tensor.Float32, out, 3, 1, 1)
	mu, v := tensor.New(tensor.Float32, out), tensor.New(tensor.Float32, out)
	for o := range out {
		for c := range 3 {
			k := float32((o*7+c*5)%11) - 5
			w.F32()[o*3+c] = k
			mu.F32()[o] += k * mean[c]
			v.F32()[o] += k * k * std[c] * std[c]
		}
	}
	y, z := value(graph.Value{Name: "y"}), value(graph.Value{Name: "z"})
	ones := g.AddConst("ones", tensor.New(tensor.Float32, out))
	_, err := g.AddNode(graph.Node{Name: "conv", Op: "Conv", Inputs: []graph.ValueID{x, g.AddConst("w", w)}, Outputs: []graph.ValueID{y}})
	require.NoError(t, err)
	_, err = g.AddNode(graph.Node{Name: "bn", Op: "BatchNormalization", Inputs: []graph.ValueID{y, ones, ones, g.AddConst("mean", mu),
		g.AddConst("var", v)}, Outputs: []graph.ValueID{z}})
	require.NoError(t, err)
	g.Outputs = []graph.ValueID{z}
	return g
}

func TestBatchNormalizationIsEvidence(t *testing.T) {
	mean, std := [3]float32{1, 0, -1}, [3]float32{1, 1, 3}
	g := trained(t, mean, std)
	require.Empty(t, examine(g, nil, mean, std), "what it was trained on")
	found := examine(g, nil, [3]float32{-1, 0, 1}, [3]float32{3, 1, 1})
	require.Len(t, found, 1)
	require.Contains(t, found[0], "red and blue look exchanged")
	found = examine(g, nil, [3]float32{100, 0, -100}, [3]float32{100, 100, 300})
	require.Len(t, found, 1)
	require.Contains(t, found[0], "times the spread")
	require.Empty(t, examine(trained(t, [3]float32{50, 50, 50}, [3]float32{60, 60, 60}), nil, [3]float32{50, 50, 50}, [3]float32{60, 60, 60}),
		"a model trained on such inputs says so: no rule of thumb speaks against it")
	require.Empty(t, examine(trained(t, [3]float32{}, [3]float32{1, 1, 1}), nil, [3]float32{}, [3]float32{1, 1, 1}),
		"nothing tells the order here")
}

func TestOverlap(t *testing.T) {
	h := func(b ...byte) [][32]byte {
		var l [][32]byte
		for _, v := range b {
			l = append(l, [32]byte{v})
		}
		return l
	}
	require.Empty(t, Overlap(h(1, 3, 5), h(2, 4)))
	w := Overlap(h(1, 3, 5), h(9, 3, 0, 5, 3))
	require.Equal(t, "3 of 5 evaluation samples were also used for calibration: the measured accuracy is too good", w[0].Text)
	require.Equal(t, 3.0, w[0].Value)
}

// A trained network with batch normalisation, and photographs.
func TestDoctorOnARealModel(t *testing.T) {
	root := testdata(t)
	m, _, err := onnx.Open(root + "/models/classifiers/mobilenetv2_0.35_catdog.onnx")
	require.NoError(t, err)
	spec := SpecOf(m.Graph)
	for name, want := range map[string]string{"right": "", "bgr": "red and blue look exchanged", "imagenet-torch": "is the input normalised",
		"imagenet-caffe": "is the input normalised"} {
		preset := name
		if name == "right" || name == "bgr" {
			preset = "imagenet-inception"
		}
		pre, err := Preprocessing(preset, spec, nil)
		require.NoError(t, err)
		if name == "bgr" {
			pre.ChannelOrder = "bgr"
		}
		set, _, err := Open([]string{root + "/data/pets/calibration"}, spec, Options{Preprocess: &pre, Samples: 32, Ahead: 2})
		require.NoError(t, err)
		d := NewDoctor(spec, m.Graph, &pre)
		for _, s := range all(t, set) {
			d.Observe(s)
		}
		if want == "" {
			require.Empty(t, d.Warnings())
			continue
		}
		require.Len(t, d.Warnings(), 1, name)
		require.Contains(t, d.Warnings()[0].Text, want, name)
	}
}
