package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"qwb"
	"qwb/calib/data/npy"
	"qwb/graph/tensor"
)

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
