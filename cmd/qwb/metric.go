package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis/task"
	"qwb/calib/data/npy"
	"qwb/graph/tensor"
)

// addMetric adds what says how samples are scored, and their labels. Several metrics make sense where nothing is decided by them.
func (f *flags) addMetric(c *cobra.Command, several bool) {
	c.Flags().StringVar(&f.labels, "labels", "", "labels: TSV or MNIST label file of classes; for other metrics as docs/metrics.md says")
	c.Flags().IntVar(&f.labelOffset, "label-offset", 0, "number to add to each label to get the class index of the model")
	what := "`NAME` of what scores the outputs: " + strings.Join(task.Names(), ", ")
	if several {
		what += "; several with commas between"
	}
	c.Flags().StringVar(&f.metric, "metric", "", what+" (docs/metrics.md)")
	c.Flags().StringVar(&f.metricCommand, "metric-cmd", "", "command that scores the outputs: it gets npy files, and answers with one line of JSON per sample")
	name := "output"
	if c.Flags().Lookup(name) != nil { // the file to write
		name = "metric-output"
	}
	c.Flags().StringSliceVar(&f.outputs, name, nil, "`NAME` of the output that the metric reads, of several those it reads, in its order (default: all, the first one first)")
	c.Flags().StringVar(&f.alphabet, "alphabet", "", "text `FILE` for metrics of texts: what the classes of the model stand for, one on a line")
}

func (f *flags) metrics() qwb.MetricOptions {
	o := qwb.MetricOptions{Command: f.metricCommand, Outputs: f.outputs, Alphabet: f.alphabet}
	if f.metric != "" {
		o.Names = strings.Split(f.metric, ",")
	}
	return o
}

// metricProcess is the program of --metric-cmd. For each sample it gets a line of JSON with the files of the outputs, and answers with one.
type metricProcess struct {
	*lineProcess
	names []string // of the outputs
	files []string
}

// metricRequest is what the program is told of a sample.
type metricRequest struct {
	Sample  string         `json:"sample"`
	Label   *int           `json:"label,omitempty"`
	Outputs []metricOutput `json:"outputs"`
}

type metricOutput struct {
	Name string `json:"name"`
	File string `json:"file"`
}

// startMetric starts the command by the shell of the system.
func startMetric(ctx context.Context, command string, outputs []string) (qwb.MetricCommand, error) {
	l, err := startLines(ctx, command, "qwb-metric-")
	if err != nil {
		return nil, err
	}
	p := &metricProcess{lineProcess: l, names: outputs}
	for i := range outputs {
		p.files = append(p.files, filepath.Join(l.folder, fmt.Sprintf("%d.npy", i)))
	}
	return p, nil
}

// Score implements qwb.MetricCommand.
func (p *metricProcess) Score(sample string, label int, outputs []*tensor.Tensor) (value, weight float64, err error) {
	value, weight, err = p.ask(sample, label, outputs)
	if err != nil {
		err = fmt.Errorf("--metric-cmd %q: %w", p.command, err)
	}
	return value, weight, err
}

func (p *metricProcess) ask(sample string, label int, outputs []*tensor.Tensor) (value, weight float64, err error) {
	request := metricRequest{Sample: sample}
	if label >= 0 {
		request.Label = &label
	}
	for i, t := range outputs {
		request.Outputs = append(request.Outputs, metricOutput{p.names[i], p.files[i]})
		if err := writeArray(p.files[i], t); err != nil {
			return 0, 0, err
		}
	}
	answer, err := p.exchange(request)
	if err != nil {
		return 0, 0, err
	}
	return parseMetricAnswer(answer)
}

// parseMetricAnswer reads {"value":0.5,"weight":2}; the weight is 1 where it is left out.
func parseMetricAnswer(line []byte) (value, weight float64, err error) {
	var answer struct {
		Value  *float64 `json:"value"`
		Weight *float64 `json:"weight"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&answer); err != nil || answer.Value == nil || d.More() {
		return 0, 0, fmt.Errorf("answered %.100q; an answer is one line such as {\"value\":0.5} or {\"value\":0.5,\"weight\":2}", line)
	}
	weight = 1
	if answer.Weight != nil {
		weight = *answer.Weight
	}
	return *answer.Value, weight, nil
}

func writeArray(file string, t *tensor.Tensor) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err = npy.Write(w, t); err == nil {
		err = w.Flush()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
