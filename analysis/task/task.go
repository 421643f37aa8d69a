// Package task scores what a network answers against what is right, one metric of a task at a time: top-1, mean intersection over union,
// word error rate and others. A metric keeps a small record of each sample, so that the score of any subset of samples, and with it the
// standard error of the difference of two runs, follows without running the network again.
//
// Unstable: it may change without notice.
package task

import (
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
	// Open makes a scorer. labels is the content of the file of --labels, nil without one; an error says what is wrong with it.
	Open func(labels []byte) (Scorer, error)
}

// Sample is what a metric knows of a sample beside the network's outputs.
type Sample struct {
	Name  string // as data sets name it
	Label int    // class, -1 if unknown
}

// Record is what a scorer keeps of one sample. It is plain data.
type Record any

// Scorer scores the samples of one data set.
type Scorer interface {
	// Record reduces the outputs for one sample, in the order of the graph's. It may be called in parallel. A sample without a label, an output of
	// another shape than the metric needs, and NaN are errors.
	Record(s Sample, outputs []*tensor.Tensor) (Record, error)
	// Score is the metric over some samples. It does not depend on their order. Without records it is NaN.
	Score(records []Record) float64
}
