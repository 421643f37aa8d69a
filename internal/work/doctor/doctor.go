// Package doctor looks for what is wrong with data, and with files for engines.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/quantizer/plan"
)

// Options are the arguments of doctor.
type Options struct {
	Data    open.DataOptions
	Trial   int // labelled samples on which preprocessings and offsets are tried; 0: Trial
	Threads int
}

// Trial is on how many labelled samples doctor tries preprocessings and label offsets unless told otherwise.
const Trial = 32

// Finding is something that doctor says: of level fault where results will be wrong, hint where somebody should look.
type Finding struct {
	Rule  string  `json:"rule"`
	Level string  `json:"level"`
	Node  string  `json:"node"` // data, labels, or an input of the model
	Text  string  `json:"text"`
	Fix   string  `json:"fix"`
	Value float64 `json:"value"` // the number that it hinges on
}

// Result is what doctor found out about a model's data.
type Result struct {
	Model   string `json:"model"`
	Plan    string `json:"plan,omitempty"`
	Samples int    `json:"samples"`
	// Classes says which classes the labelled samples are of; nil without labels.
	Classes *plan.Classes `json:"classes,omitempty"`
	// Trials are what was tried on the samples to choose by, best first; Best is what came out of it, nil where nothing could be tried.
	Trials   []DoctorChoice `json:"trials"`
	Best     *DoctorBest    `json:"best,omitempty"`
	Findings []Finding      `json:"findings"`
	Seconds  float64        `json:"seconds"`
}

// Faults counts the findings of level fault.
func (r *Result) Faults() (n int) {
	for _, f := range r.Findings {
		if f.Level == data.Fault {
			n++
		}
	}
	return n
}

// Run looks at the data of a model, or at those that a plan is evaluated with.
func Run(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	elapsed := j.Stopwatch()
	d := &doctor{Job: j, o: o, r: &Result{Trials: []DoctorChoice{}, Findings: []Finding{}}}
	if j.Plan != "" {
		p, err := planning.OpenPlan(j, j.Plan)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		d.plan, d.m, d.g, d.own = p, p.Model, p.Reference, len(o.Data.Paths) == 0
		d.o.Data, d.r.Plan = p.Data(o.Data), j.Plan
	} else {
		m, err := j.OpenModel(j.Model)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		d.m, d.g, d.o.Data = m, m.Graph, o.Data.Of(m)
	}
	d.r.Model = d.m.Path
	if err := d.examine(ctx); err != nil {
		return nil, err
	}
	d.r.Seconds = elapsed()
	if n := d.r.Faults(); n > 0 {
		return d.r, fault.Checkf("%s wrong with the data or how they are read", things(n))
	}
	return d.r, nil
}

func things(n int) string {
	if n == 1 {
		return "1 thing is"
	}
	return fmt.Sprintf("%d things are", n)
}

// doctor is one examination.
type doctor struct {
	*open.Job
	o    Options
	m    *open.Model
	g    *graph.Graph
	plan *planning.Planned // nil: of a model
	own  bool              // the data are those of the plan
	spec data.InputSpec
	pre  plan.Preprocess
	set  *data.Set
	r    *Result
}

func (d *doctor) add(list ...data.Finding) {
	for _, f := range list {
		d.r.Findings = append(d.r.Findings, Finding(f))
	}
}

func (d *doctor) examine(ctx context.Context) error {
	d.spec = data.SpecOf(d.g)
	if err := d.open(); err != nil {
		return d.unreadable(ctx, err)
	}
	d.r.Samples = d.set.Len()
	d.labels()
	doc, thumbs := data.NewDoctor(d.spec, d.m.Loaded, &d.pre), data.NewThumbnails(d.spec)
	var hashes [][32]byte
	err := d.each(ctx, "doctor", d.set, func(s *exec.Sample) {
		doc.Observe(s)
		thumbs.Observe(s)
		hashes = append(hashes, s.Hash)
	})
	if err != nil {
		return d.unreadable(ctx, err)
	}
	d.add(doc.Findings()...)
	if err := d.refused(ctx, doc.Suspects()); err != nil {
		return err
	}
	d.near(thumbs)
	if d.plan != nil && !d.own {
		if err := d.overlap(ctx, hashes, thumbs); err != nil {
			return err
		}
	}
	return d.trial(ctx)
}

// unreadable makes a finding of an error that is one of single files: of the samples that cannot be read while others can.
func (d *doctor) unreadable(ctx context.Context, err error) error {
	if d.set == nil || !errors.As(err, new(*graph.FileError)) {
		return err
	}
	var bad []string
	for i := range d.set.Len() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if e := graph.Try(func() error { _, err := d.set.Sample(i); return err }); e != nil {
			bad = append(bad, e.Error())
		}
	}
	if d.r.Samples = d.set.Len(); len(bad) == 0 || len(bad) == d.set.Len() {
		return err // it is not the files
	}
	text := strings.Join(bad[:min(3, len(bad))], "; ")
	if len(bad) > 3 {
		text += fmt.Sprintf("; and %d more", len(bad)-3)
	}
	d.add(data.Finding{Rule: "unreadable", Level: data.Fault, Node: "data", Value: float64(len(bad)),
		Text: fmt.Sprintf("%d of %d samples cannot be read: %s", len(bad), d.set.Len(), text),
		Fix:  "replace these files or take them away; what else doctor looks for needs all samples"})
	return nil
}

// open opens the data. Where pictures do not get the size that the input takes, the resize and crop of a preset stand in.
func (d *doctor) open() error {
	var err error
	if d.set, d.pre, err = d.OpenData(d.g, d.o.Data); err == nil && d.set.Len() > 0 {
		if _, err = d.set.Sample(0); err == nil {
			return nil
		}
	}
	if err == nil {
		return errors.New("doctor: the data hold no sample")
	}
	preset, presetErr := data.Preprocessing("imagenet-torch", d.spec, d.Files())
	if presetErr != nil {
		return err
	}
	pre := d.pre
	pre.Resize, pre.CenterCrop = preset.Resize, preset.CenterCrop
	o := d.o.Data
	o.Preprocess, o.Stored = "", &pre
	set, _, again := d.OpenData(d.g, o)
	if again == nil {
		_, again = set.Sample(0)
	}
	if again != nil || !set.Pictures() {
		return err // it is not the size
	}
	d.add(data.Finding{Rule: "picture-size", Level: data.Fault, Node: "data",
		Text: fmt.Sprintf("the pictures do not get the size that the model takes: %v", err),
		Fix:  "--preprocess with a resize and a crop; all presets but none have them"})
	d.set, d.pre, d.o.Data = set, pre, o
	return nil
}

// each shows all samples of a set.
func (d *doctor) each(ctx context.Context, what string, set *data.Set, see func(*exec.Sample)) error {
	tick, finish := d.Progress(what, set.Len())
	defer finish()
	it := set.Iterator()
	for n := 1; ; n++ {
		s, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		see(s)
		tick(n)
	}
}

// labels looks at which samples have a label, and which classes there are.
func (d *doctor) labels() {
	counts, missing, first := map[int]int{}, 0, ""
	for i := range d.set.Len() {
		if l := d.set.Label(i); l >= 0 {
			counts[l]++
		} else if missing++; missing == 1 {
			first = d.set.Name(i)
		}
	}
	if d.o.Data.Labels != "" && missing > 0 {
		d.add(data.Finding{Rule: "labels-missing", Level: data.Fault, Node: "labels", Value: float64(missing),
			Text: fmt.Sprintf("%d of %d samples have no label (first: %s)", missing, d.set.Len(), first),
			Fix:  "add lines for these samples to --labels, or remove the samples"})
	}
	if d.r.Classes = plan.ClassesOf(counts, open.Scores(d.g)); d.r.Classes == nil {
		return
	}
	outside := 0
	for l, n := range counts {
		if of := d.r.Classes.Of; of > 0 && l >= of {
			outside += n
		}
	}
	if outside > 0 {
		d.add(data.Finding{Rule: "labels-outside", Level: data.Fault, Node: "labels", Value: float64(outside),
			Text: fmt.Sprintf("%d labels are not below the %d classes of the model", outside, d.r.Classes.Of),
			Fix:  "another --label-offset, or the labels of this model"})
	}
	if c := d.r.Classes; c.Lacking() {
		d.add(data.Finding{Rule: "class-coverage", Level: data.Hint, Node: "labels", Value: float64(c.Seen),
			Text: fmt.Sprintf("%d labelled samples are of %d of %d classes; a random choice has about %.0f", c.Labelled, c.Seen, c.Of, c.Expected()),
			Fix:  "choose samples of all classes: --samples N draws them at random from a larger set"})
	}
}

// near looks for samples that are nearly equal.
func (d *doctor) near(t *data.Thumbnails) {
	list := t.Pairs()
	if len(list) > 0 {
		d.add(data.Finding{Rule: "near-duplicates", Level: data.Hint, Node: "data", Value: float64(len(list)),
			Text: fmt.Sprintf("%s nearly the same (most alike: %s and %s, correlation %.4f)", pairs(len(list)), list[0].A, list[0].B,
				list[0].Correlation),
			Fix: "keep one of each pair: what looks like more samples are the same ones"})
	}
	if i := slices.IndexFunc(list, func(p data.Pair) bool {
		return p.Labels[0] >= 0 && p.Labels[1] >= 0 && p.Labels[0] != p.Labels[1]
	}); i >= 0 {
		p := list[i]
		d.add(data.Finding{Rule: "labels-conflict", Level: data.Hint, Node: "labels", Value: p.Correlation,
			Text: fmt.Sprintf("%s and %s are nearly the same and have the classes %d and %d", p.A, p.B, p.Labels[0], p.Labels[1]),
			Fix:  "one of the two labels is wrong"})
	}
	if n := t.Left(); n > 0 {
		d.Note("doctor: %d samples beyond %d were not compared with the others", n, data.MaxThumbnails)
	}
}

func pairs(n int) string {
	if n == 1 {
		return "1 pair of samples is"
	}
	return fmt.Sprintf("%d pairs of samples are", n)
}

// overlap looks for samples that the plan was calibrated on.
func (d *doctor) overlap(ctx context.Context, hashes [][32]byte, thumbs *data.Thumbnails) error {
	stats, err := planning.PlanStats(d.Job, d.plan)
	if err != nil {
		d.Note("doctor: overlap with the calibration data was not looked for: %v", err)
		return nil
	}
	for _, w := range data.Overlap(planning.SampleHashes(stats), hashes) {
		d.add(data.Finding{Rule: "overlap", Level: data.Fault, Node: "data", Value: w.Value, Text: w.Text,
			Fix: "evaluate on samples that calibration has not seen"})
	}
	o := d.plan.Data(open.DataOptions{Threads: d.o.Data.Threads})
	set, _, err := d.OpenData(d.g, o)
	if err != nil {
		d.Note("doctor: near overlap with the calibration data was not looked for: %v", err)
		return nil
	}
	seen := data.NewThumbnails(d.spec)
	if err := d.each(ctx, "calibration data", set, seen.Observe); err != nil {
		return err
	}
	if list := thumbs.Across(seen); len(list) > 0 {
		d.add(data.Finding{Rule: "near-overlap", Level: data.Fault, Node: "data", Value: float64(len(list)),
			Text: fmt.Sprintf("%d of %d evaluation samples are nearly the same as one of calibration (most alike: %s and %s, correlation %.4f)",
				len(list), len(hashes), list[0].A, list[0].B, list[0].Correlation), Fix: "evaluate on samples that calibration has not seen"})
	}
	return nil
}
