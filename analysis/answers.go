package analysis

import "qwb/analysis/task"

// AnswersResult is what a network answers sample by sample, in float, simulated and on integers.
type AnswersResult struct {
	Samples int    `json:"samples"`
	Kind    string `json:"kind"`    // of task: boxes, text, map or numbers
	Profile string `json:"profile"` // of the integers that were run; empty: none could be
	// Metric scores each sample, and all of these together; Against says what is taken for right: labels, or float.
	Metric  string         `json:"metric"`
	Percent bool           `json:"percent"`
	Lower   bool           `json:"lower"` // is better
	Against string         `json:"against"`
	Scores  AnswerScores   `json:"scores"`
	Items   []SampleAnswer `json:"items"` // the worst first
}

// AnswerScores are scores of the three runs; null where undefined, where no integers were run, and of float where it is what is right.
type AnswerScores struct {
	Float *float64 `json:"float"`
	Sim   *float64 `json:"sim"`
	Int8  *float64 `json:"int8"`
}

// SampleAnswer is one sample.
type SampleAnswer struct {
	Index  int           `json:"index"` // in the data
	Sample string        `json:"sample"`
	NSR    float64       `json:"nsr"` // of the simulation, as Flip has it
	Part   string        `json:"worst_slice,omitempty"`
	Float  task.Reading  `json:"float"`
	Sim    task.Reading  `json:"sim"`
	Int8   *task.Reading `json:"int8"`
	Scores AnswerScores  `json:"scores"`
	// Outputs are the first few float outputs as rows and colours.
	Outputs []Heat `json:"outputs"`
}

// FeatureMap is a tensor inside the network on one sample.
type FeatureMap struct {
	Sample string `json:"sample"`
	Node   string `json:"node"`  // asked for
	At     string `json:"at"`    // the tensor: of what is computed together with the operator the last one
	Shape  []int  `json:"shape"` // of the tensor
	Heat   Heat   `json:"heat"`  // of a channel, or with a row for each channel
	// Channel is the one that is drawn, -1 for all; Errors are the NSR of each channel on this sample, null where it is 0 in float.
	Channel int        `json:"channel"`
	Errors  []*float64 `json:"errors"`
}
