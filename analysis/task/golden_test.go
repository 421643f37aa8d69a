package task_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"qwb/analysis/task"
	"qwb/graph/tensor"
)

// figures are what the outside oracles say of two networks.
type figures struct{ Before, After, Drop, Error float64 }

// golden is testdata/golden.json, which examples/evidence/metrics.py writes with scikit-learn, SciPy, pycocotools, jiwer and
// mean-average-precision.
type golden struct {
	Classes struct {
		Labels              []int
		Scores              [][][]float32
		Top1, Top3, F1, AUC figures
	}
	Binary struct {
		Labels []int
		Scores [][]float32
		AUC    figures
	}
	Maps struct {
		Classes int
		Masks   [][][]int64
		Answers [][][][]int64
		MIoU    figures
	}
	Texts struct {
		Labels       []string
		Answers      [][]string
		CER, WER, EM figures
	}
	Numbers struct {
		Labels   []float64
		Answers  [][]float32
		Spearman figures
	}
	Embeddings struct {
		Labels  [][]float64
		Answers [][][]float32
		Cosine  figures
	}
	Boxes boxCase
	Apart boxCase `json:"boxes apart"`
	Spans struct {
		Labels [][][2]int
		Scores [][][2][]float32
		F1     figures `json:"qa-f1"`
		EM     figures `json:"qa-em"`
	}
}

type boxCase struct {
	Labels json.RawMessage
	Rows   [][][][]float32
	MAP    figures
	MAP50  figures
	VOC    figures `json:"voc-map"`
	VOC07  figures `json:"voc07-map"`
}

// agrees holds a metric against the oracles: both scores, their difference, and its standard error by leaving out each sample.
func agrees(t *testing.T, want figures, name string, l task.Labels, n int, outputs func(network, i int) (task.Sample, []*tensor.Tensor)) {
	t.Helper()
	m, s := open(t, name, l)
	var runs [2][]task.Record
	for k := range runs {
		for i := range n {
			sample, out := outputs(k, i)
			r, err := s.Record(sample, out)
			require.NoError(t, err, "%s: sample %d", name, i)
			runs[k] = append(runs[k], r)
		}
	}
	require.InDelta(t, want.Before, s.Score(runs[0]), 1e-9, name)
	require.InDelta(t, want.After, s.Score(runs[1]), 1e-9, name)
	drop, err := estimate(task.Difference(s, runs[0], runs[1], m))
	require.InDelta(t, want.Drop, drop, 1e-7, name)
	require.InEpsilon(t, want.Error, err, 1e-6, name)
	require.Positive(t, drop, "%s: the second network is worse", name)
}

// files are labels in memory.
func files(name string, content []byte) task.Labels {
	return task.Labels{FS: fstest.MapFS{name: {Data: content}}, Path: name}
}

func TestMetricsAgainstOracles(t *testing.T) {
	src, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(src, &g))

	classes := func(k, i int) (task.Sample, []*tensor.Tensor) {
		return task.Sample{Label: g.Classes.Labels[i]}, row(g.Classes.Scores[k][i]...)
	}
	for name, want := range map[string]figures{"top1": g.Classes.Top1, "top3": g.Classes.Top3, "f1": g.Classes.F1, "auc": g.Classes.AUC} {
		agrees(t, want, name, task.Labels{}, len(g.Classes.Labels), classes)
	}
	agrees(t, g.Binary.AUC, "auc", task.Labels{}, len(g.Binary.Labels), func(k, i int) (task.Sample, []*tensor.Tensor) {
		return task.Sample{Label: g.Binary.Labels[i]}, row(g.Binary.Scores[k][i])
	})

	masks := fstest.MapFS{}
	for i, m := range g.Maps.Masks {
		var b bytes.Buffer
		p := image.NewGray(image.Rect(0, 0, len(m[0]), len(m)))
		for at, class := range plane(m).I64() {
			p.Pix[at] = uint8(class)
		}
		require.NoError(t, png.Encode(&b, p))
		masks[fmt.Sprintf("masks/%d.png", i)] = &fstest.MapFile{Data: b.Bytes()}
	}
	for _, form := range []func([][]int64) *tensor.Tensor{plane, scoredFirst(g.Maps.Classes), scoredLast(g.Maps.Classes)} {
		agrees(t, g.Maps.MIoU, "miou", task.Labels{FS: masks, Path: "masks"}, len(g.Maps.Masks), func(k, i int) (task.Sample, []*tensor.Tensor) {
			return task.Sample{Name: fmt.Sprintf("pictures/%d.jpg", i)}, []*tensor.Tensor{form(g.Maps.Answers[k][i])}
		})
	}

	alphabet := strings.Split("_abcdefghijklmnopqrstuvwxyz ", "")
	l := files("texts.tsv", table(g.Texts.Labels, func(s string) string { return s }))
	l.Alphabet = alphabet
	for name, want := range map[string]figures{"cer": g.Texts.CER, "wer": g.Texts.WER, "em": g.Texts.EM} {
		for _, write := range []func([]string, string) *tensor.Tensor{ctc, tokens} {
			agrees(t, want, name, l, len(g.Texts.Labels), func(k, i int) (task.Sample, []*tensor.Tensor) {
				return task.Sample{Name: fmt.Sprint(i)}, []*tensor.Tensor{write(alphabet, g.Texts.Answers[k][i])}
			})
		}
	}
	agrees(t, g.Numbers.Spearman, "spearman", files("l", table(g.Numbers.Labels, func(x float64) string { return fmt.Sprint(x) })),
		len(g.Numbers.Labels),
		func(k, i int) (task.Sample, []*tensor.Tensor) {
			return task.Sample{Name: fmt.Sprint(i)}, row(g.Numbers.Answers[k][i])
		})
	agrees(t, g.Embeddings.Cosine, "cosine", files("l", table(g.Embeddings.Labels, func(x []float64) string {
		return strings.Trim(fmt.Sprint(x), "[]")
	})),
		len(g.Embeddings.Labels), func(k, i int) (task.Sample, []*tensor.Tensor) {
			return task.Sample{Name: fmt.Sprint(i)}, row(g.Embeddings.Answers[k][i]...)
		})
	spans := files("l", table(g.Spans.Labels, func(x [][2]int) string {
		return strings.NewReplacer("[[", "", "]]", "", "] [", ";").Replace(fmt.Sprint(x))
	}))
	for name, want := range map[string]figures{"qa-f1": g.Spans.F1, "qa-em": g.Spans.EM} {
		agrees(t, want, name, spans, len(g.Spans.Labels), func(k, i int) (task.Sample, []*tensor.Tensor) {
			s := g.Spans.Scores[k][i]
			return task.Sample{Name: fmt.Sprint(i)}, append(row(s[0]...), row(s[1]...)...)
		})
	}
	for _, b := range []boxCase{g.Boxes, g.Apart} {
		for name, want := range map[string]figures{"map": b.MAP, "map50": b.MAP50, "voc-map": b.VOC, "voc07-map": b.VOC07} {
			agrees(t, want, name, files("instances.json", b.Labels), len(b.Rows[0]), func(k, i int) (task.Sample, []*tensor.Tensor) {
				return task.Sample{Name: fmt.Sprintf("%03d.png", i)}, []*tensor.Tensor{detected(b.Rows[k][i])}
			})
		}
	}
}

// table is a file of labels.
func table[T any](labels []T, text func(T) string) []byte {
	var b bytes.Buffer
	b.WriteString("file\tlabel\n")
	for i, l := range labels {
		fmt.Fprintf(&b, "%d\t%s\n", i, text(l))
	}
	return b.Bytes()
}

// detected are rows of boxes with two that fill up.
func detected(rows [][]float32) *tensor.Tensor {
	var x []float32
	for _, r := range rows {
		x = append(x, r...)
	}
	return tensor.FromF32(append(x, make([]float32, 12)...), 1, len(rows)+2, 6)
}

func plane(m [][]int64) *tensor.Tensor {
	var x []int64
	for _, r := range m {
		x = append(x, r...)
	}
	return tensor.FromI64(x, len(m), len(m[0]))
}

// scoredFirst and scoredLast are maps of scores with the classes before and behind the pixels.
func scoredFirst(classes int) func([][]int64) *tensor.Tensor {
	return func(m [][]int64) *tensor.Tensor {
		out := tensor.New(tensor.Float32, 1, classes, len(m), len(m[0]))
		for y, r := range m {
			for x, c := range r {
				out.F32()[(int(c)*len(m)+y)*len(r)+x] = 1
			}
		}
		return out
	}
}

func scoredLast(classes int) func([][]int64) *tensor.Tensor {
	return func(m [][]int64) *tensor.Tensor {
		out := tensor.New(tensor.Float32, 1, len(m), len(m[0]), classes)
		for y, r := range m {
			for x, c := range r {
				out.F32()[(y*len(r)+x)*classes+int(c)] = 1
			}
		}
		return out
	}
}

// ctc writes a text as scores, each letter in two steps and blanks between.
func ctc(alphabet []string, text string) *tensor.Tensor {
	out := tensor.New(tensor.Float32, 1, 3*len(text)+1, len(alphabet))
	for i, at := range append([]int{}, letters(alphabet, text)...) {
		out.F32()[(3*i)*len(alphabet)] = 1
		out.F32()[(3*i+1)*len(alphabet)+at] = 1
		out.F32()[(3*i+2)*len(alphabet)+at] = 1
	}
	return out
}

func tokens(alphabet []string, text string) *tensor.Tensor {
	out := tensor.New(tensor.Int64, 1, len(text))
	for i, at := range letters(alphabet, text) {
		out.I64()[i] = int64(at)
	}
	return out
}

func letters(alphabet []string, text string) (out []int) {
	for _, c := range text {
		for i, a := range alphabet {
			if a == string(c) {
				out = append(out, i)
			}
		}
	}
	return out
}
