package open

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/work/fault"
)

// MetricOptions say what scores a network. The zero value is top-1 for data with labels, and agreement with float for data without.
type MetricOptions struct {
	Names    []string // of task.Metrics
	Command  string   // an external program that scores the outputs, in place of names
	Outputs  []string // of the network, that the metrics read in this order; nil: all as they are
	Alphabet string   // file of what the classes of a network that writes text stand for, one on a line
}

// MetricCommand is a running program that scores outputs.
type MetricCommand interface {
	// Score says how good the outputs for a sample are, the larger the better, and how much the sample weighs. label is -1 where it is
	// unknown.
	Score(sample string, label int, outputs []*tensor.Tensor) (value, weight float64, err error)
	// Close ends the program.
	Close() error
}

// find returns the metrics by their names. Those of one run take the same kind of labels.
func (o *MetricOptions) find() ([]*task.Metric, error) {
	if len(o.Names) > 0 && o.Command != "" {
		return nil, fault.Usagef("--metric and --metric-cmd exclude each other")
	}
	var list []*task.Metric
	for _, name := range o.Names {
		m, err := task.Find(name)
		if err != nil {
			return nil, fault.Usagef("--metric: %w", err)
		}
		for _, other := range list {
			switch {
			case other.Name == m.Name:
				return nil, fault.Usagef("--metric: %s is there twice", m.Name)
			case other.Classes != m.Classes:
				return nil, fault.Usagef("--metric: %s and %s take different labels; they need two runs", other.Name, m.Name)
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// classLabels is the file of labels for the data set: none where a metric reads it.
func (o *DataOptions) classLabels() (string, error) {
	list, err := o.Metric.find()
	if len(list) > 0 && !list[0].Classes {
		return "", err
	}
	return o.Labels, err
}

// Scorings opens the metrics for a data set of g. Without any they are top-1 for samples with labels, for samples without what says how
// far the outputs are from those of the float network. closing is to be called in the end, also after an error.
func (j *Job) Scorings(ctx context.Context, g *graph.Graph, set *data.Set,
	o DataOptions) (scorings []task.Scoring, closing func(), err error) {
	closing = func() {}
	order, err := o.Metric.order(g)
	if err != nil {
		return nil, closing, err
	}
	defer func() {
		for i := range scorings {
			if order != nil && err == nil {
				scorings[i] = scorings[i].Reading(order)
			}
		}
	}()
	if o.Metric.Command != "" {
		return j.commandScoring(ctx, g, o.Metric.Command, order)
	}
	list, err := o.Metric.find()
	if err != nil {
		return nil, closing, err
	}
	var labels task.Labels
	if len(list) == 0 || list[0].Classes {
		if labels.Float = o.Labels == "" && set.Labelled() == 0; !labels.Float {
			err = set.RequireLabels()
		}
	} else {
		labels = task.Labels{FS: j.Files(), Path: o.Labels, Float: o.Labels == ""}
	}
	if err == nil && o.Metric.Alphabet != "" {
		labels.Alphabet, err = j.Alphabet(o.Metric.Alphabet)
	}
	if err != nil {
		return nil, closing, err
	}
	if len(list) == 0 {
		list = defaultMetrics(g, o.Metric.First(g), labels.Float)
	}
	for _, m := range list {
		s, err := m.On(labels)
		if err != nil {
			return nil, closing, fmt.Errorf("metric %s: %w", m.Name, err)
		}
		scorings = append(scorings, s)
	}
	return scorings, closing, nil
}

// order is the index of each output that is to be read; nil for all as they are.
func (o *MetricOptions) order(g *graph.Graph) (order []int, err error) {
	var names []string
	for _, v := range g.Outputs {
		names = append(names, g.Value(v).Name)
	}
	for _, name := range o.Outputs {
		k := slices.Index(names, name)
		if k < 0 {
			return nil, fault.Usagef("--output %s: the network has no such output, but %s", name, strings.Join(names, ", "))
		}
		order = append(order, k)
	}
	return order, nil
}

// First is the index of the output that metrics read first.
func (o *MetricOptions) First(g *graph.Graph) int {
	if order, err := o.order(g); err == nil && len(order) > 0 {
		return order[0]
	}
	return 0
}

// defaultMetrics are those of data without a word about metrics, which read the output of index k. Nothing scores the agreement of whole
// numbers that are no class, and of outputs whose size depends on the numbers.
func defaultMetrics(g *graph.Graph, k int, agreement bool) []*task.Metric {
	names := []string{"top1"}
	if agreement {
		if names = nil; g.Value(g.Outputs[k]).DType.IsFloat() && !analysis.Counted(g, k) {
			names = append(names, "cosine")
		}
		if ScoresClasses(g, k) {
			names = append(names, "top1")
		}
	}
	var list []*task.Metric
	for _, name := range names {
		if m, err := task.Find(name); err == nil {
			list = append(list, m)
		}
	}
	return list
}

// commandScoring starts the program that scores the outputs of g, those of order or all.
func (j *Job) commandScoring(ctx context.Context, g *graph.Graph, command string, order []int) ([]task.Scoring, func(), error) {
	if j.Catalog.MetricCommand == nil {
		return nil, func() {}, fault.Usagef("--metric-cmd: this program starts no others")
	}
	var names []string
	for k := range g.Outputs {
		if order == nil {
			names = append(names, g.Value(g.Outputs[k]).Name)
		}
	}
	for _, k := range order {
		names = append(names, g.Value(g.Outputs[k]).Name)
	}
	running, err := j.Catalog.MetricCommand(ctx, command, names)
	if err != nil {
		return nil, func() {}, fmt.Errorf("--metric-cmd: %w", err)
	}
	// its error would be that it ended otherwise than it should
	return []task.Scoring{task.External(running.Score)}, func() { _ = running.Close() }, nil
}

// mostAlphabet is the size of an alphabet's file at most.
const mostAlphabet = 16 << 20

// Alphabet reads what the classes of a network that writes text stand for: line 1 is class 0, the blank of CTC, whatever is on it.
func (j *Job) Alphabet(file string) ([]string, error) {
	src, err := fs.ReadFile(j.Files(), file)
	if err == nil && len(src) > mostAlphabet {
		err = fmt.Errorf("%d bytes are too many for an alphabet", len(src))
	}
	if err != nil {
		return nil, &fault.FileError{File: file, Err: err}
	}
	lines := strings.Split(strings.TrimPrefix(string(src), "\ufeff"), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return lines, nil
}

// ScoresClasses reports whether output k of a graph is one row of numbers, as class scores are, or one whole number, as a class is. An open
// dimension counts as a row, but for that of the batch.
func ScoresClasses(g *graph.Graph, k int) bool {
	v := g.Value(g.Outputs[k])
	if v.Shape == nil || analysis.Counted(g, k) {
		return false
	}
	if v.DType == tensor.Int64 || v.DType == tensor.Int32 {
		n, err := v.Shape.Elements()
		return err == nil && n == 1 || len(v.Shape) == 1 && !v.Shape[0].Known()
	}
	if !v.DType.IsFloat() {
		return false
	}
	long := 0
	for i, d := range v.Shape {
		if d.N > 1 || d.N <= 0 && i > 0 {
			long++
		}
	}
	return long == 1
}

// Classes is how many classes the model has scores for; 0 where its output does not say.
func (m *Model) Classes() int { return Scores(m.Graph) }

// Scores is how many classes the first output of a graph has a score for: its one dimension that is not 1; 0 if there is none, or several.
func Scores(g *graph.Graph) int {
	if len(g.Outputs) == 0 {
		return 0
	}
	n := 0
	for axis, dim := range g.Value(g.Outputs[0]).Shape {
		switch {
		case axis == 0 && !dim.Known() || dim.N == 1:
		case !dim.Known() || n > 0 || dim.N < 2:
			return 0
		default:
			n = int(dim.N)
		}
	}
	return n
}
