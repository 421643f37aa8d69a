// Package task scores what a network answers against what is right, one metric of a task at a time: top-1, mean intersection over union,
// word error rate and others. A metric keeps a small record of each sample, so that the score of any subset of samples, and with it the
// standard error of the difference of two runs, follows without running the network again.
//
// Unstable: it may change without notice.
package task

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// Metric is one way to score a network: a row of Metrics.
type Metric struct {
	Name string // as --metric takes it: "top1", "miou"
	Doc  string // one line: what it is, and what the labels look like
	// Percent says that scores lie between 0 and 1 and differences are given in percentage points.
	Percent bool
	// Lower says that a smaller score is better: error rates.
	Lower bool
	// Graded says that every sample changes a little, as a cosine does: how much one may change follows from those seen. A sample of other
	// metrics may turn from right to wrong, where thousands stay as they are.
	Graded bool
	// Classes says that labels are classes of samples, which data sets read themselves (Sample.Label). The labels of other metrics are
	// a file or a folder.
	Classes bool
	// Open makes a scorer. An error says what is wrong with the labels.
	Open func(l Labels) (Scorer, error)
}

// Labels are what is right for the samples of a data set. The zero value stands for the classes of the samples.
type Labels struct {
	FS   fs.FS  // where Path is
	Path string // file or folder of --labels, for a metric whose labels are no classes
	// Alphabet is what the classes of a network that writes text stand for; Alphabet[0] is the blank of CTC. Without one texts are lists of
	// classes, which can be compared with each other and not with labels.
	Alphabet []string
	// Float says that there are no labels: what the float network answers is taken for right, and scores are agreement with it.
	Float bool
}

// Scoring is a metric opened for one data set.
type Scoring struct {
	*Metric
	Scorer
	Float bool // scores are agreement with the float network
}

// On opens the metric for a data set.
func (m *Metric) On(l Labels) (Scoring, error) {
	s, err := m.Open(l)
	return Scoring{m, s, l.Float}, err
}

// Sample is what a metric knows of a sample beside the network's outputs.
type Sample struct {
	Name  string           // as data sets name it
	Label int              // class, -1 if unknown
	Float []*tensor.Tensor // the outputs of the float network, for Labels.Float
}

// Record is what a scorer keeps of one sample. It is plain data.
type Record any

// Records has a value of each type that records have.
func Records() []any {
	return []any{Ranked{}, scored{}, weighted{}, pair{}, []overlap(nil), &picture{}, float64(0)}
}

// Scorer scores the samples of one data set.
type Scorer interface {
	// Record reduces the outputs for one sample, in the order of the graph's. It may be called in parallel. A sample without a label, an
	// output of another shape than the metric needs, and NaN are errors.
	Record(s Sample, outputs []*tensor.Tensor) (Record, error)
	// Score is the metric over some samples. It does not depend on their order. Without records it is NaN.
	Score(records []Record) float64
}

// Metrics are the metrics there are, by what --metric takes.
var Metrics = []*Metric{top(1), top(5), f1, auc, miou, cocoMAP, coco50, vocMAP, voc07MAP, cer, wer, em, qaF1, qaEM, spearman, cosine}

// Find returns the metric of a name. top1, top2 and so on are all there.
func Find(name string) (*Metric, error) {
	for _, m := range Metrics {
		if m.Name == name {
			return m, nil
		}
	}
	if digits, ok := strings.CutPrefix(name, "top"); ok {
		if k, err := strconv.Atoi(digits); err == nil && k > 0 && strconv.Itoa(k) == digits {
			return top(k), nil
		}
	}
	return nil, fmt.Errorf("no metric %q: there are %s", name, strings.Join(Names(), ", "))
}

// Names lists the names of Metrics.
func Names() []string {
	var names []string
	for _, m := range Metrics {
		names = append(names, m.Name)
	}
	return slices.Clip(names)
}
