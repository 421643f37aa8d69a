package task_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"qwb/analysis/task"
	"qwb/graph/tensor"
)

// TestMetricsAreDocumented: every metric has a row in the page.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	for _, m := range task.Metrics {
		require.Contains(t, string(page), "`"+m.Name+"`")
		require.NotEmpty(t, m.Doc)
	}
}

// TestAgreement: with the float network's answers in place of labels every metric is perfect for the same outputs and worse for others.
func TestAgreement(t *testing.T) {
	steps := func(classes ...int) []*tensor.Tensor {
		out := tensor.New(tensor.Float32, 1, len(classes), 3)
		for i, c := range classes {
			out.F32()[3*i+c] = 1
		}
		return []*tensor.Tensor{out}
	}
	boxes := func(x float32) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.FromF32([]float32{x, 0, x + 20, 20, 0.9, 1, 50, 50, 60, 60, 0.3, 1}, 2, 6)}
	}
	span := func(first, last int) []*tensor.Tensor {
		a, b := tensor.New(tensor.Float32, 1, 9), tensor.New(tensor.Float32, 1, 9)
		a.F32()[first], b.F32()[last] = 1, 1
		return []*tensor.Tensor{a, b}
	}
	alphabet := []string{"", "a", " "}
	for name, c := range map[string]struct {
		float, other []*tensor.Tensor
		best, worse  float64
	}{
		"top1": {row(1, 2, 3), row(1, 3, 2), 1, 0},
		"f1":   {row(1, 2, 3), row(1, 3, 2), 1, 0},
		"miou": {[]*tensor.Tensor{tensor.FromI64([]int64{0, 1, 1, 1}, 2, 2)}, []*tensor.Tensor{tensor.FromI64([]int64{0, 1, 1, 0}, 2, 2)}, 1,
			(0.5 + 2.0/3) / 2},
		"map":       {boxes(0), boxes(20.0 / 9), 1, 0.7},
		"map50":     {boxes(0), boxes(20), 1, 0},
		"voc-map":   {boxes(0), boxes(20), 1, 0},
		"voc07-map": {boxes(0), boxes(20), 1, 0},
		"cer":       {steps(1, 0, 1, 2, 1), steps(1, 1, 2, 1), 0, 0.25},
		"wer":       {steps(1, 0, 1, 2, 1), steps(1, 1, 2, 1), 0, 0.5},
		"em":        {steps(1, 0, 1, 2, 1), steps(1, 1, 2, 1), 1, 0},
		"qa-f1":     {span(2, 5), span(4, 7), 1, 0.5},
		"qa-em":     {span(2, 5), span(4, 7), 1, 0},
		"cosine":    {row(0, 1), row(1, 1), 1, math.Sqrt(0.5)},
	} {
		_, s := open(t, name, task.Labels{Float: true, Alphabet: alphabet})
		for out, want := range map[*[]*tensor.Tensor]float64{&c.float: c.best, &c.other: c.worse} {
			r, err := s.Record(task.Sample{Label: -1, Float: c.float}, *out)
			require.NoError(t, err, name)
			require.InDelta(t, want, s.Score([]task.Record{r}), 1e-9, name)
		}
	}
	_, s := open(t, "cer", task.Labels{Float: true})
	r, err := s.Record(task.Sample{Float: steps(1, 0, 1, 2, 1)}, steps(1, 1, 2, 1))
	require.NoError(t, err)
	require.InDelta(t, 0.25, s.Score([]task.Record{r}), 0, "without an alphabet, of classes")
}

// TestUndefined: what no samples can tell is NaN, not 0.
func TestUndefined(t *testing.T) {
	for _, m := range task.Metrics {
		s, err := m.Open(task.Labels{Float: true, Alphabet: []string{""}})
		require.NoError(t, err)
		require.True(t, math.IsNaN(s.Score(nil)), m.Name)
	}
	m, s := open(t, "auc", task.Labels{})
	var records []task.Record
	for _, x := range []float32{1, 2} {
		r, err := s.Record(task.Sample{Label: 1}, row(x))
		require.NoError(t, err)
		records = append(records, r)
	}
	require.True(t, math.IsNaN(s.Score(records)), "one class only")
	for _, d := range task.Difference(s, records, records, m) {
		require.True(t, math.IsNaN(d))
	}
}

// TestInfiniteScores: of two infinite scores neither is the larger one; a rank would be looked for without end.
func TestInfiniteScores(t *testing.T) {
	inf := float32(math.Inf(1))
	_, s := open(t, "auc", task.Labels{})
	_, err := s.Record(task.Sample{Label: 1}, row(inf, inf))
	require.ErrorContains(t, err, "both scores are infinite")
	var records []task.Record
	for label, x := range []float32{-inf, inf} {
		r, err := s.Record(task.Sample{Label: label}, row(0, x))
		require.NoError(t, err)
		records = append(records, r)
	}
	require.InDelta(t, 1, s.Score(records), 0)
}

func TestMasks(t *testing.T) {
	var b bytes.Buffer
	p := image.NewPaletted(image.Rect(0, 0, 2, 1), color.Palette{color.Black, color.White, color.Gray{9}})
	p.Pix = []uint8{2, 1}
	require.NoError(t, png.Encode(&b, p))
	var colours bytes.Buffer
	require.NoError(t, png.Encode(&colours, image.NewNRGBA(image.Rect(0, 0, 2, 1))))
	fsys := fstest.MapFS{"m/a.png": {Data: b.Bytes()}, "m/colours.png": {Data: colours.Bytes()}, "m/broken.png": {Data: []byte("x")}}
	_, s := open(t, "miou", task.Labels{FS: fsys, Path: "m"})
	answer := []*tensor.Tensor{tensor.FromI64([]int64{2, 2}, 1, 1, 2)}
	r, err := s.Record(task.Sample{Name: "folder/a.jpg"}, answer)
	require.NoError(t, err)
	require.InDelta(t, 0.25, s.Score([]task.Record{r}), 1e-12)
	for name, want := range map[string]string{"colours.jpg": "colours.png: has colours", "broken": "mask m/broken.png: ",
		"none": "no mask none.png in m"} {
		_, err := s.Record(task.Sample{Name: name}, answer)
		require.ErrorContains(t, err, want)
	}
	_, err = s.Record(task.Sample{Name: "a"}, []*tensor.Tensor{tensor.FromI64([]int64{2}, 1, 1, 1)})
	require.ErrorContains(t, err, "map of 1x1 and the mask one of 1x2")
	_, err = s.Record(task.Sample{Name: "a"}, []*tensor.Tensor{tensor.New(tensor.Float32, 1, 2, 1, 2)})
	require.ErrorContains(t, err, "the mask has class 2, the output 2 classes")
}

// TestLabelsSayWhatIsWrong with a file of labels.
func TestLabelsSayWhatIsWrong(t *testing.T) {
	alphabet := []string{"", "a"}
	for _, c := range []struct{ metric, labels, want string }{
		{"cosine", "a 1 2", "labels l: line 1: needs a file, a tab and a label"},
		{"cosine", "a\t1 x", `labels l: line 1: "x" is no number`},
		{"cosine", "file\tvector\na\t1\n\na\t1", "labels l: line 4: a has a label already"},
		{"spearman", "a\tcat", `labels l: line 1: "cat" is no number`},
		{"qa-f1", "a\t3", `labels l: line 1: "3" is not the first and the last token`},
		{"qa-f1", "a\t3 1", `labels l: line 1: "3 1" ends before it begins`},
		{"map", "[]", "labels l: not COCO's JSON"},
		{"map", "{}", "no images"},
		{"map", `{"images":[{"id":1}]}`, "images[0] needs id and file_name"},
		{"map", `{"images":[{"id":1,"file_name":"a"},{"id":1,"file_name":"b"}]}`, "images[1]: 1, b is there twice"},
		{"map", `{"images":[{"id":1,"file_name":"a"}],"annotations":[{"image_id":2}]}`, "annotations[0]: no image 2"},
		{"map", `{"images":[{"id":1,"file_name":"a"}],"annotations":[{"image_id":1,"category_id":1,"bbox":[1]}]}`, "bbox with four numbers"},
	} {
		m, err := task.Find(c.metric)
		require.NoError(t, err)
		l := files("l", []byte(c.labels))
		l.Alphabet = alphabet
		_, err = m.Open(l)
		require.ErrorContains(t, err, c.want)
	}
	for _, name := range []string{"cer", "wer", "em"} {
		m, err := task.Find(name)
		require.NoError(t, err)
		_, err = m.Open(files("l", []byte("a\tb")))
		require.ErrorContains(t, err, "--alphabet")
	}
	m, err := task.Find("map")
	require.NoError(t, err)
	_, err = m.Open(task.Labels{FS: fstest.MapFS{}, Path: "none"})
	require.ErrorContains(t, err, "none")
}

// TestOutputsOfAnotherForm are errors that say what the metric takes.
func TestOutputsOfAnotherForm(t *testing.T) {
	half := []*tensor.Tensor{tensor.New(tensor.Float16, 1, 4)}
	nan := row(float32(math.NaN()), 1)
	for name, want := range map[string]string{
		"auc": "float32", "miou": "map of classes is", "map": "float32", "cer": "read by CTC", "qa-f1": "float32", "spearman": "float32",
		"cosine": "float32",
	} {
		_, s := open(t, name, task.Labels{Float: true, Alphabet: []string{"", "a", "b"}})
		_, err := s.Record(task.Sample{Float: half}, half)
		require.ErrorContains(t, err, want, name)
		_, err = s.Record(task.Sample{}, nil)
		require.Error(t, err, name)
		_, err = s.Record(task.Sample{Float: nan}, nan)
		require.Error(t, err, name)
	}
	_, s := open(t, "cer", task.Labels{Float: true, Alphabet: []string{"", "a"}})
	out := []*tensor.Tensor{tensor.New(tensor.Float32, 1, 5, 3)}
	_, err := s.Record(task.Sample{Float: out}, out)
	require.ErrorContains(t, err, "3 classes and the alphabet 2 lines")
	_, s = open(t, "map", task.Labels{Float: true})
	out = []*tensor.Tensor{tensor.FromF32([]float32{0, 0, 1, 1, 0.5, 1.5}, 1, 6)}
	_, err = s.Record(task.Sample{Float: out}, out)
	require.ErrorContains(t, err, "class 1.5 of a box is no whole number")
	_, s = open(t, "spearman", task.Labels{Float: true})
	_, err = s.Record(task.Sample{Float: row(1)}, row(1, 2))
	require.ErrorContains(t, err, "one number, or two outputs")
	_, s = open(t, "qa-em", task.Labels{Float: true})
	_, err = s.Record(task.Sample{}, row(1, 2))
	require.ErrorContains(t, err, "the network has 1 output")
}
