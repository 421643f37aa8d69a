package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/graph/tensor"
)

// What a network writes: character and word error rates of all texts together, and the share of texts that are right.
var (
	cer = textMetric("cer", "character error rate: edits (Levenshtein) over the length of the labels; labels: file<TAB>text", true,
		func(right, text []int32) (errors, length float64) {
			return float64(distance(right, text)), float64(len(right))
		})
	wer = textMetric("wer", "word error rate: edits over the number of words of the labels; labels: file<TAB>text", true,
		func(right, text []int32) (errors, length float64) {
			a, b := strings.Fields(string(right)), strings.Fields(string(text))
			return float64(distance(a, b)), float64(len(a))
		})
	em = textMetric("em", "share of samples whose text is that of the label; labels: file<TAB>text", false,
		func(right, text []int32) (same, one float64) {
			if slices.Equal(right, text) {
				return 1, 1
			}
			return 0, 1
		})
)

// textMetric is a metric of texts: the sum of the first figure of judge over the sum of the second one.
func textMetric(name, doc string, lower bool, judge func(right, text []int32) (value, weight float64)) *Metric {
	return &Metric{Name: name, Doc: doc, Percent: true, Lower: lower, Open: func(l Labels) (Scorer, error) {
		s := &textScorer{alphabet: l.Alphabet, float: l.Float, judge: judge}
		if l.Alphabet == nil && (!l.Float || name == "wer") {
			return nil, errors.New("needs --alphabet: the file of what the classes of the network stand for")
		}
		var err error
		if !l.Float {
			s.texts, err = readTable(l, func(text string) ([]int32, error) { return []rune(strings.TrimSpace(text)), nil })
		}
		return s, err
	}}
}

type textScorer struct {
	alphabet []string
	texts    table[[]int32]
	float    bool
	judge    func(right, text []int32) (value, weight float64)
}

func (t *textScorer) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	text, err := decodeText(outputs, t.alphabet)
	if err != nil {
		return nil, err
	}
	var right []int32
	if t.float {
		right, err = decodeText(s.Float, t.alphabet)
	} else {
		right, err = t.texts.of(s)
	}
	if err != nil {
		return nil, err
	}
	value, weight := t.judge(right, text)
	return weighted{value, weight}, nil
}

func (*textScorer) Terms(r Record) (value, weight float64) {
	w := r.(weighted)
	return w.Value, w.Weight
}

func (t *textScorer) Score(records []Record) float64 { return quotient(t, records) }

// decodeText reads the text that the first output stands for, as code points without spaces around them; without an alphabet as the classes
// themselves. Scores of classes at every step are read by the best path of CTC (Graves et al., Connectionist Temporal Classification,
// 2006): the largest class of each step, of equal ones in a row one, without class 0, the blank. Whole numbers are classes as they stand.
func decodeText(outputs []*tensor.Tensor, alphabet []string) ([]int32, error) {
	classes, err := textClasses(outputs, len(alphabet))
	if err != nil || alphabet == nil {
		return classes, err
	}
	var text strings.Builder
	for _, c := range classes {
		if int(c) >= len(alphabet) {
			return nil, fmt.Errorf("class %d is beyond the alphabet of %d", c, len(alphabet))
		}
		text.WriteString(alphabet[c])
	}
	return []rune(strings.TrimSpace(text.String())), nil
}

// readText is the text; without an alphabet the numbers of its classes, with spaces between.
func readText(outputs []*tensor.Tensor, alphabet []string) (string, error) {
	text, err := decodeText(outputs, alphabet)
	if err != nil || alphabet != nil {
		return string(text), err
	}
	return strings.Trim(fmt.Sprint(text), "[]"), nil
}

// textClasses are the classes of a text.
func textClasses(outputs []*tensor.Tensor, alphabet int) ([]int32, error) {
	if len(outputs) == 0 {
		return nil, errors.New("the network has no output")
	}
	t := outputs[0].ToRowMajor()
	long := 0
	for _, d := range t.Shape[:max(len(t.Shape)-1, 0)] {
		if d != 1 {
			long++
		}
	}
	switch {
	case len(t.Shape) == 0 || long > 1 || t.DType != tensor.Float32 && long > 0:
	case t.DType == tensor.Int64:
		return ids(t.I64())
	case t.DType == tensor.Int32:
		return ids(tensor.Of[int32](t))
	case t.DType == tensor.Float32 && t.Shape[len(t.Shape)-1] > 1:
		n := t.Shape[len(t.Shape)-1]
		if alphabet > 0 && alphabet != n {
			return nil, fmt.Errorf("the first output has %d classes and the alphabet %d lines: one for each class, the first for the blank", n,
				alphabet)
		}
		x, err := floats(outputs, 0)
		return bestPath(x, n), err
	}
	return nil, fmt.Errorf("the first output is %s; a text is float32 [steps, classes], read by CTC, or whole numbers [steps]", t.Type())
}

func ids[T int32 | int64](list []T) ([]int32, error) {
	out := make([]int32, len(list))
	for i, c := range list {
		if c < 0 || int64(c) != int64(int32(c)) {
			return nil, fmt.Errorf("class %d of a text is negative or too large", c)
		}
		out[i] = int32(c)
	}
	return out, nil
}

// bestPath is the text of steps with n scores each.
func bestPath(x []float32, n int) []int32 {
	out := []int32{}
	last := 0
	for ; len(x) >= n; x = x[n:] {
		c := largest(x[:n])
		if c != 0 && c != last {
			out = append(out, int32(c))
		}
		last = c
	}
	return out
}

// distance is Levenshtein's: how many elements must be put in, left out or replaced to make b of a.
func distance[T comparable](a, b []T) int {
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i, x := range a {
		diagonal := row[0]
		row[0] = i + 1
		for k, y := range b {
			cost := diagonal
			if x != y {
				cost++
			}
			diagonal = row[k+1]
			row[k+1] = min(cost, row[k]+1, row[k+1]+1)
		}
	}
	return row[len(b)]
}
