package measure

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
)

// AnswersOptions are the arguments of Answers.
type AnswersOptions struct {
	Data    open.DataOptions // without paths the plan's own
	Profile string           // of the integers; empty: the platform's
	Threads int
}

// mostHeats is how many outputs are drawn.
const mostHeats = 4

// Answers runs the samples and reads what comes out as metrics of the task do.
func Answers(ctx context.Context, j *open.Job, o AnswersOptions) (*analysis.AnswersResult, error) {
	p, err := planning.OpenPlan(j, j.Plan)
	if err != nil {
		return nil, err
	}
	x, err := newTrio(ctx, j, p, o)
	if err != nil {
		return nil, err
	}
	defer x.close()
	a := answering{trio: x, j: j, data: o.Data, closing: func() {}, r: &analysis.AnswersResult{Samples: x.set.Len(), Profile: x.profile}}
	defer func() { a.closing() }()
	parts := analysis.SampleParts{Judge: x.judge}
	tick, finish := j.Progress("answers", x.set.Len())
	defer finish()
	for i := range x.set.Len() {
		s, err := x.set.Sample(i)
		if err != nil {
			return nil, err
		}
		runs, float, sim, err := x.run(ctx, s)
		if err == nil {
			err = parts.Add(sim, float)
		}
		if err == nil {
			err = a.add(ctx, i, s, runs)
		}
		if err != nil {
			return nil, fmt.Errorf("%w (sample %s)", err, s.Name)
		}
		tick(i + 1)
	}
	for i, l := range parts.Losses() {
		a.r.Items[i].NSR, a.r.Items[i].Part = l.NSR, l.Part
	}
	a.end()
	return a.r, nil
}

// The runs of a trio, in its order.
const (
	inFloat = iota
	inSim
	inInt8
	inAll
)

// answering gathers answers.
type answering struct {
	*trio
	j        *open.Job
	data     open.DataOptions
	r        *analysis.AnswersResult
	alphabet []string
	scoring  *task.Scoring
	records  [inAll][]task.Record
	closing  func() // of what scores
}

// begin settles, by the outputs of the first sample, what they are and what scores them.
func (a *answering) begin(ctx context.Context, outputs []*tensor.Tensor) (err error) {
	o := a.data
	if o.Metric.Alphabet != "" {
		if a.alphabet, err = a.j.Alphabet(o.Metric.Alphabet); err != nil {
			return err
		}
	}
	first := ""
	if len(o.Metric.Names) > 0 {
		first = o.Metric.Names[0]
	}
	a.r.Kind = task.KindOf(first, outputs, len(a.alphabet))
	if first == "" && o.Metric.Command == "" {
		if name := map[string]string{task.Boxes: "map50", task.Text: "cer", task.Map: "miou"}[a.r.Kind]; name != "" {
			o.Metric.Names = []string{name}
			if a.set.Labelled() > 0 { // the labels are classes: what they say of a sample is no answer of this kind
				o.Labels = ""
			}
		}
	}
	var list []task.Scoring
	if list, a.closing, err = a.j.Scorings(ctx, a.plan.Reference, a.set, o); err != nil || len(list) == 0 {
		return err
	}
	a.scoring = &list[0]
	a.r.Metric, a.r.Percent, a.r.Lower, a.r.Against = list[0].Name, list[0].Percent, list[0].Lower, "labels"
	if list[0].Float {
		a.r.Against = "float"
	}
	return nil
}

// anchored decodes the outputs of a detector whose boxes stand against anchors, where they are such; else they are as they were.
func anchored(s *exec.Sample, runs [inAll][]*tensor.Tensor) [inAll][]*tensor.Tensor {
	height, width := sides(s)
	for k, outputs := range runs {
		if boxes, ok := task.Anchored(outputs, height, width); ok {
			runs[k] = []*tensor.Tensor{boxes}
		}
	}
	return runs
}

// sides are height and width of a sample that is one picture, 0 of others.
func sides(s *exec.Sample) (height, width int) {
	for _, t := range s.Feeds {
		if len(s.Feeds) != 1 || len(t.Shape) != 4 {
			return 0, 0
		}
		if t.Shape[3] <= 4 {
			return t.Shape[1], t.Shape[2]
		}
		return t.Shape[2], t.Shape[3]
	}
	return 0, 0
}

func (a *answering) add(ctx context.Context, index int, s *exec.Sample, runs [inAll][]*tensor.Tensor) (err error) {
	heats := heats(a.plan, runs)
	runs = anchored(s, runs)
	if a.r.Kind == "" {
		if err := a.begin(ctx, runs[inFloat]); err != nil {
			return err
		}
	}
	item := analysis.SampleAnswer{Index: index, Sample: s.Name, Outputs: heats}
	scores := [inAll]**float64{&item.Scores.Float, &item.Scores.Sim, &item.Scores.Int8}
	for k, outputs := range runs {
		if outputs == nil {
			continue
		}
		read, err := task.Read(a.r.Kind, outputs, a.alphabet)
		if err != nil {
			return err
		}
		switch k {
		case inFloat:
			item.Float = read
		case inSim:
			item.Sim = read
		default:
			item.Int8 = &read
		}
		if a.scoring == nil || a.scoring.Float && k == inFloat {
			continue
		}
		record, err := a.scoring.Record(task.Sample{Name: s.Name, Label: s.Label, Float: runs[inFloat]}, outputs)
		if err != nil {
			return err
		}
		a.records[k] = append(a.records[k], record)
		*scores[k] = defined(a.scoring.Score([]task.Record{record}))
	}
	a.r.Items = append(a.r.Items, item)
	return nil
}

// end scores all samples together and puts the worst first.
func (a *answering) end() {
	if a.scoring != nil {
		for k, at := range []**float64{&a.r.Scores.Float, &a.r.Scores.Sim, &a.r.Scores.Int8} {
			if len(a.records[k]) > 0 {
				*at = defined(a.scoring.Score(a.records[k]))
			}
		}
	}
	worse := func(i *analysis.SampleAnswer) float64 {
		s := i.Scores.Int8
		if s == nil {
			s = i.Scores.Sim
		}
		switch {
		case s == nil:
			return 0
		case a.r.Lower:
			return *s
		}
		return -*s
	}
	arrange.Stable(a.r.Items, func(x, y analysis.SampleAnswer) int {
		return cmp.Or(cmp.Compare(worse(&y), worse(&x)), cmp.Compare(y.NSR, x.NSR))
	})
}

// defined is a score; nil where it is undefined.
func defined(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// heats draws the first few outputs that are float and of one shape in all runs.
func heats(p *planning.Planned, runs [inAll][]*tensor.Tensor) []analysis.Heat {
	list := []analysis.Heat{}
	for k, t := range runs[inFloat] {
		var x [inAll][]float32
		for i, outputs := range runs {
			if outputs == nil {
				continue
			}
			u := exec.Floats(outputs[k])
			if u == nil || !slices.Equal(u.Shape, t.Shape) {
				break
			}
			x[i] = u.ToRowMajor().F32()
		}
		if x[inFloat] == nil || x[inSim] == nil || len(x[inFloat]) == 0 || len(list) == mostHeats {
			continue
		}
		name := p.Reference.Value(p.Reference.Outputs[k]).Name
		list = append(list, analysis.NewHeat(name, analysis.PlaneOf(t.Shape), x[inFloat], x[inSim], x[inInt8]))
	}
	return list
}
