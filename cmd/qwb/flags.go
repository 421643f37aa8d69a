package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
)

// flags are the flags that mean the same in every command that has them.
type flags struct {
	data       []string
	preprocess string
	samples    int
	batch      int
	seed       uint64
	tokenizer  string
	slices     string
	threads    int
	mem        string
	observer   string
	platform   string
	mode       string
	out        string
	json       bool

	labels        string
	labelOffset   int
	metric        string
	metricCommand string
	alphabet      string
	outputs       []string
}

func (f *flags) addData(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.data, "data", nil, "`PATH` of samples: folder of images, npy, npz, CIFAR or MNIST file, raw bins, test_data_set folder, text (language models: one sample per line), or synthetic:N for N random samples; may be repeated")
	c.Flags().StringVar(&f.preprocess, "preprocess", "", "how images become model inputs: imagenet-torch, imagenet-inception, imagenet-caffe, none, or a YAML file")
	c.Flags().IntVar(&f.samples, "samples", 0, "use this many samples, drawn at random with --seed (0: all)")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "random seed for drawing samples")
}

func (f *flags) addSlices(c *cobra.Command) {
	c.Flags().StringVar(&f.slices, "slices", "", "`FILE` of parts that outputs are judged by, in place of those of the network: lines of name, axis, from, to (not included), and the output where there are several, with tabs between")
}

func (f *flags) addTokenizer(c *cobra.Command) {
	c.Flags().StringVar(&f.tokenizer, "tokenizer", "", "tokenizer.json or tokenizer.bin (default: the one in the model or in its folder)")
	underHeading(c, helpLanguage, "tokenizer")
}

func (f *flags) addRun(c *cobra.Command) {
	c.Flags().IntVar(&f.threads, "threads", 0, "number of threads (0: one per core); results do not depend on it")
}

func (f *flags) addMemory(c *cobra.Command) {
	c.Flags().StringVar(&f.mem, "mem", "2G", "memory for stored activations, for example 512M or 4G")
}

// addBudget is addMemory of commands that keep nothing: it bounds what the values of one run take.
func (f *flags) addBudget(c *cobra.Command) {
	c.Flags().StringVar(&f.mem, "mem", "", "memory for the tensors of one run, for example 512M or 4G (default: half of the machine's memory; 4G for one tensor of a small model)")
}

func (f *flags) addPlatform(c *cobra.Command, what string) {
	c.Flags().StringVar(&f.platform, "platform", "", what)
}

func (f *flags) addOut(c *cobra.Command, what string) {
	c.Flags().StringVarP(&f.out, "output", "o", "", what)
}

func (f *flags) addJSON(c *cobra.Command) {
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object instead of text")
}

// check validates what does not depend on the command.
func (f *flags) check() error {
	switch {
	case f.samples < 0:
		return usagef("--samples %d: must be 0 or more", f.samples)
	case f.batch < 0:
		return usagef("--batch %d: must be 0 or more", f.batch)
	case f.threads < 0:
		return usagef("--threads %d: must be 0 or more", f.threads)
	}
	if _, err := f.memory(); err != nil {
		return qwb.UsageError{Err: err}
	}
	return nil
}

// workers is the number of threads to use.
func (f *flags) workers() int {
	if f.threads > 0 {
		return f.threads
	}
	return runtime.GOMAXPROCS(0)
}

// budget is --mem of addBudget in bytes, 0 if it was not given.
func (f *flags) budget() int64 {
	if f.mem == "" {
		return 0
	}
	n, _ := f.memory() // checked before
	return n
}

// memory parses --mem into bytes.
func (f *flags) memory() (int64, error) {
	s := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(f.mem), "B"), "I")
	if s == "" {
		return 2 << 30, nil
	}
	shift := strings.IndexByte("KMGT", s[len(s)-1])
	if shift >= 0 {
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseFloat(s, 64)
	bytes := n * float64(int64(1)<<(10*(shift+1)))
	if err != nil || !(bytes >= 1<<20) || bytes > 1<<50 {
		return 0, fmt.Errorf("--mem %q: not a size; give for example 512M or 4G, at least 1M", f.mem)
	}
	return int64(bytes), nil
}
