package task

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// Answers to questions, as spans of a text's tokens (Rajpurkar et al., SQuAD, 2016).
var (
	qaF1 = spanMetric("qa-f1", "mean F1 between the tokens of the span answered and of the label's; labels: file<TAB>first last, more "+
		"answers after semicolons",
		func(right, answer [2]int) float64 {
			both := min(right[1], answer[1]) - max(right[0], answer[0]) + 1
			if both <= 0 {
				return 0
			}
			return 2 * float64(both) / float64(right[1]-right[0]+answer[1]-answer[0]+2)
		})
	qaEM = spanMetric("qa-em", "share of samples whose span is that of the label; labels as for qa-f1",
		func(right, answer [2]int) float64 {
			if right == answer {
				return 1
			}
			return 0
		})
)

// longestSpan is how many tokens an answer may have, as in the scripts of BERT.
const longestSpan = 30

func spanMetric(name, doc string, judge func(right, answer [2]int) float64) *Metric {
	return &Metric{Name: name, Doc: doc, Percent: true, Open: func(l Labels) (Scorer, error) {
		s := &spanScorer{judge: judge, float: l.Float}
		var err error
		if !l.Float {
			s.spans, err = readTable(l, parseSpans)
		}
		return s, err
	}}
}

// parseSpans reads "3 5;7 7": the first and the last token of each answer.
func parseSpans(text string) (out [][2]int, err error) {
	for _, answer := range strings.Split(text, ";") {
		f := strings.Fields(answer)
		if len(f) != 2 {
			return nil, fmt.Errorf("%q is not the first and the last token of an answer", answer)
		}
		var span [2]int
		for i := range span {
			if span[i], err = strconv.Atoi(f[i]); err != nil || span[i] < 0 {
				return nil, fmt.Errorf("%q is no number of a token", f[i])
			}
		}
		if span[1] < span[0] {
			return nil, fmt.Errorf("%q ends before it begins", answer)
		}
		out = append(out, span)
	}
	return out, nil
}

type spanScorer struct {
	spans table[[][2]int]
	float bool
	judge func(right, answer [2]int) float64
}

// Record takes the best of several right answers.
func (q *spanScorer) Record(s Sample, outputs []*tensor.Tensor) (Record, error) {
	answer, err := bestSpan(outputs)
	if err != nil {
		return nil, err
	}
	var right [][2]int
	if q.float {
		var span [2]int
		span, err = bestSpan(s.Float)
		right = append(right, span)
	} else {
		right, err = q.spans.of(s)
	}
	if err != nil {
		return nil, err
	}
	var best float64
	for _, r := range right {
		best = max(best, q.judge(r, answer))
	}
	return best, nil
}

func (*spanScorer) Terms(r Record) (value, weight float64) { return r.(float64), 1 }

func (q *spanScorer) Score(records []Record) float64 { return quotient(q, records) }

// bestSpan is the span with the largest sum of the score of its first token (first output) and of its last one (second output), of at
// most longestSpan tokens; of equal ones the first.
func bestSpan(outputs []*tensor.Tensor) (best [2]int, err error) {
	start, err := floats(outputs, 0)
	if err != nil {
		return best, err
	}
	end, err := floats(outputs, 1)
	if err != nil {
		return best, err
	}
	if len(start) != len(end) || len(start) == 0 {
		return best, fmt.Errorf("the outputs are %s and %s; a span is the scores of its first and of its last token, one of each for every token",
			outputs[0].Type(), outputs[1].Type())
	}
	most := math.Inf(-1)
	for i, a := range start {
		for k := i; k < min(i+longestSpan, len(end)); k++ {
			if sum := float64(a) + float64(end[k]); sum > most {
				most, best = sum, [2]int{i, k}
			}
		}
	}
	return best, nil
}
