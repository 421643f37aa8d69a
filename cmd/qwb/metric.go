package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

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
	c.Flags().StringVar(&f.alphabet, "alphabet", "", "text `FILE` for metrics of texts: what the classes of the model stand for, one on a line")
}

func (f *flags) metrics() qwb.MetricOptions {
	o := qwb.MetricOptions{Command: f.metricCommand, Alphabet: f.alphabet}
	if f.metric != "" {
		o.Names = strings.Split(f.metric, ",")
	}
	return o
}

// metricProcess is the program of --metric-cmd. For each sample it gets a line of JSON with the files of the outputs, and answers with one.
type metricProcess struct {
	command string
	names   []string // of the outputs
	folder  string
	files   []string
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	wait    func() error // for its end, any number of times
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

// longestAnswer is how long a line of the program may be.
const longestAnswer = 1 << 20

// startMetric starts the command by the shell of the system. Its standard error is ours.
func startMetric(ctx context.Context, command string, outputs []string) (qwb.MetricCommand, error) {
	p := &metricProcess{command: command, names: outputs}
	shell := []string{"/bin/sh", "-c"}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/C"}
	}
	p.process = exec.CommandContext(ctx, shell[0], append(shell[1:], command)...)
	p.process.Stderr, p.process.WaitDelay = os.Stderr, 5*time.Second
	var err error
	if p.in, err = p.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.wait = sync.OnceValue(p.process.Wait)
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, longestAnswer)
	if p.folder, err = os.MkdirTemp("", "qwb-metric-"); err != nil {
		return nil, err
	}
	for i := range outputs {
		p.files = append(p.files, filepath.Join(p.folder, fmt.Sprintf("%d.npy", i)))
	}
	if err := p.process.Start(); err != nil {
		_ = os.RemoveAll(p.folder) // the error that matters is err
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = out.Close() }) // what the shell started may outlive it, and hold the other end
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
	line, err := json.Marshal(request)
	if err != nil {
		return 0, 0, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return 0, 0, p.ended()
	}
	if !p.out.Scan() {
		if err := p.out.Err(); err != nil {
			return 0, 0, err
		}
		return 0, 0, p.ended()
	}
	return parseMetricAnswer(p.out.Bytes())
}

// ended says how the program ended without an answer.
func (p *metricProcess) ended() error {
	_ = p.in.Close() // it may have closed its own end
	if err := p.wait(); err != nil {
		return fmt.Errorf("ended without an answer: %w", err)
	}
	return errors.New("ended without an answer; it has to answer every line of its standard input with one line")
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

// Close implements qwb.MetricCommand: the program sees the end of its input, and is given time to end.
func (p *metricProcess) Close() error {
	_ = p.in.Close() // it may have ended already
	done := make(chan error, 1)
	go func() { done <- p.wait() }()
	select {
	case err := <-done:
		return errors.Join(err, os.RemoveAll(p.folder))
	case <-time.After(p.process.WaitDelay):
		_ = p.process.Process.Kill() // Wait says what there is to say
		return errors.Join(<-done, os.RemoveAll(p.folder))
	}
}
