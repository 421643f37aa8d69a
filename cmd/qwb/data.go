package main

import (
	"qwb"
)

func (f *flags) dataOptions() qwb.DataOptions {
	return qwb.DataOptions{Paths: f.data, Preprocess: f.preprocess, Samples: f.samples, Seed: f.seed, Threads: f.workers(), Tokenizer: f.tokenizer, Slices: f.slices,
		Labels: f.labels, LabelOffset: f.labelOffset, Metric: f.metrics()}
}
