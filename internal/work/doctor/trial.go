package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/internal/arrange"
	"qwb/internal/work/open"
	"qwb/internal/work/samples"
)

// DoctorChoice is a preprocessing and a label offset, and how often the float model is right with them.
type DoctorChoice struct {
	Preprocess  string `json:"preprocess"` // of a preset, or what it does to pixels
	Flag        string `json:"flag"`       // what --preprocess takes: a preset, or the content of a YAML file
	LabelOffset int    `json:"label_offset"`
	Correct     int    `json:"correct"`
	Samples     int    `json:"samples"`
}

// DoctorBest is the choice that was best on one half of the samples, on the other half: beside what was asked for there, and the chance
// that it does so much better where it is no better (exact paired test).
type DoctorBest struct {
	DoctorChoice
	Before int     `json:"before"` // correct as it is
	Chance float64 `json:"chance"`
}

// sure is the chance below which a trial counts; with fewer than fewLabels samples not even a large difference is likely to. farOffset is
// the chance below which an offset of labels other than one counts. tieFactor is how many times the samples of a trial are read to tell the
// best preprocessings apart.
const (
	sure      = 0.01
	fewLabels = 20
	farOffset = 1e-4
	tieFactor = 4
)

// trial evaluates the float model with each preprocessing that the input can take, for all label offsets at once. One half of the samples,
// by exec.HeldOut, chooses, the other one confirms.
func (d *doctor) trial(ctx context.Context) error {
	classes := open.Scores(d.g)
	if d.r.Classes == nil || classes == 0 || d.m.Checkpoint != nil {
		return nil
	}
	o := d.o.Data
	o.Samples, o.Seed = cmp.Or(d.o.Trial, Trial), d.o.Data.Seed
	pictures := d.set.Pictures() && len(d.spec) == 1
	asked := data.Candidate{Name: "as it is", Pre: d.pre}
	list := []data.Candidate{asked}
	if pictures {
		pixels := data.Pixels(d.pre)
		o.Preprocess, o.Stored = "", &pixels
		for _, c := range data.Candidates(d.spec, d.pre) {
			if data.SamePixels(d.spec, c.Pre, d.pre) {
				list[0].Name, list[0].Flag = c.Name, c.Flag
			} else {
				list = append(list, c)
			}
		}
	}
	t := &doctorTrial{d: d, given: o.LabelOffset}
	if err := t.read(ctx, o); err != nil || len(t.fit) == 0 || len(t.held) == 0 {
		return err
	}
	if n := len(t.fit) + len(t.held); n < fewLabels {
		d.Note("doctor: %d labelled samples are few to tell preprocessings and offsets apart; %d are enough for a clear difference", n, Trial)
	}
	tick, finish := d.Progress("trial", len(list))
	defer finish()
	for i, c := range list {
		differences, err := t.run(ctx, t.fit, c, pictures)
		if err != nil {
			return err
		}
		t.chosen = append(t.chosen, t.choice(c, differences, classes))
		tick(i + 1)
	}
	most := slices.MaxFunc(t.chosen, func(a, b DoctorChoice) int { return a.Correct - b.Correct }).Correct
	var tied []int
	for i, c := range t.chosen {
		if c.Correct >= most-1 {
			tied = append(tied, i) // what is asked for first, then presets
		}
	}
	best, err := t.untie(ctx, o, list, tied, pictures)
	if err != nil {
		return err
	}
	return t.confirm(ctx, list[0], list[best], t.chosen[best], pictures, classes)
}

// untie tells preprocessings that are equally good apart on more samples, where there are more, and returns the best; what is still as good
// as it is said.
func (t *doctorTrial) untie(ctx context.Context, o open.DataOptions, list []data.Candidate, tied []int, pictures bool) (int, error) {
	best := tied[0]
	if len(tied) == 1 || best == 0 && t.d.o.Data.Preprocess != "" { // what was asked for is as good as any
		return best, nil
	}
	more := &doctorTrial{d: t.d, given: t.given}
	if o.Samples *= tieFactor; o.Samples > 0 {
		if err := more.read(ctx, o); err != nil {
			return 0, err
		}
	}
	var counts []int
	for _, i := range tied {
		differences, err := more.run(ctx, more.fit, list[i], pictures)
		if err != nil {
			return 0, err
		}
		n := 0
		for _, v := range differences {
			if v == t.chosen[i].LabelOffset {
				n++
			}
		}
		if len(counts) > 0 && n > slices.Max(counts) {
			best = i
		}
		counts = append(counts, n)
	}
	top := slices.Max(counts)
	var names []string
	for k, i := range tied {
		if counts[k] == top && (len(names) == 0 || t.chosen[i].Preprocess != names[len(names)-1]) {
			names = append(names, t.chosen[i].Preprocess)
		}
	}
	if len(names) > 1 {
		t.d.Note("doctor: %s are equally good: %d of %d predictions are correct with each; more labelled samples would tell",
			strings.Join(names, " and "), top, len(more.fit))
	}
	return best, nil
}

type doctorTrial struct {
	d         *doctor
	given     int // offset
	fit, held []*exec.Sample
	chosen    []DoctorChoice // by candidate
}

// read reads the labelled samples of the trial.
func (t *doctorTrial) read(ctx context.Context, o open.DataOptions) error {
	want := o.Samples
	o.Samples = 0
	set, _, err := t.d.OpenData(t.d.g, o)
	if err != nil {
		return err
	}
	var all []*exec.Sample
	for _, i := range set.Choose(want, o.Seed) {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := set.Sample(i)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	t.fit, t.held = samples.Halved(all)
	return nil
}

// run runs the float model on samples as a candidate has them and returns, by sample, the class it says less the label without offset.
func (t *doctorTrial) run(ctx context.Context, taken []*exec.Sample, c data.Candidate, pictures bool) ([]int, error) {
	var list []*exec.Sample
	for _, s := range taken {
		shown := s
		if pictures {
			var err error
			if shown, err = data.Repaint(t.d.spec, s, c.Pre); err != nil {
				return nil, err
			}
		}
		one := *shown
		one.Label = 0 // which it is does not matter here, and it may be none of the model's
		list = append(list, &one)
	}
	r, err := analysis.Eval(ctx, t.d.g, &exec.InMemory{Samples: list},
		analysis.AccuracyConfig{Threads: t.d.o.Threads, Memory: t.d.o.Data.Budget})
	if err != nil {
		return nil, samples.BudgetHint(t.d.m.Named("doctor", err))
	}
	differences := make([]int, len(taken))
	for i, a := range r.Answers {
		differences[i] = a.Class - (taken[i].Label - t.given)
	}
	return differences, nil
}

// choice is the offset that makes most samples right: that given on a tie, then the smallest. Labels are off by one where they are; other
// offsets are taken only where chance would not give so many hits to any of them.
func (t *doctorTrial) choice(c data.Candidate, differences []int, classes int) DoctorChoice {
	counts := map[int]int{}
	for _, v := range differences {
		counts[v]++
	}
	for v, n := range counts {
		far := v < t.given-1 || v > t.given+1
		if far && analysis.BinomialTail(len(differences), n, 1/float64(classes))*2*float64(classes) > farOffset {
			delete(counts, v)
		}
	}
	offset := t.given
	for v, n := range counts {
		if n > counts[offset] || n == counts[offset] && offset != t.given && v < offset {
			offset = v
		}
	}
	return DoctorChoice{c.Name, c.Flag, offset, counts[offset], len(differences)}
}

// confirm holds the best choice against what was asked for, on the other half of the samples, and says what is wrong.
func (t *doctorTrial) confirm(ctx context.Context, asked, best data.Candidate, choice DoctorChoice, pictures bool, classes int) error {
	d := t.d
	before, err := t.run(ctx, t.held, asked, pictures)
	if err != nil {
		return err
	}
	after := before
	if !data.SamePixels(d.spec, asked.Pre, best.Pre) {
		if after, err = t.run(ctx, t.held, best, pictures); err != nil {
			return err
		}
	}
	right := func(differences []int, offset int) (list []bool, n int) {
		for _, v := range differences {
			list = append(list, v == offset)
			if v == offset {
				n++
			}
		}
		return list, n
	}
	won, n := right(after, choice.LabelOffset)
	chance := func(differences []int, offset int) float64 {
		better, worse := 0, 0
		other, _ := right(differences, offset)
		for i, ok := range other {
			if won[i] && !ok {
				better++
			} else if ok && !won[i] {
				worse++
			}
		}
		return analysis.SignTest(better, worse)
	}
	_, asIs := right(before, t.given)
	choice.Correct, choice.Samples = n, len(t.held)
	d.r.Best = &DoctorBest{choice, asIs, chance(before, t.given)}
	d.r.Trials = slices.Clone(t.chosen)
	arrange.Stable(d.r.Trials, func(a, b DoctorChoice) int { return b.Correct - a.Correct })
	said := func(was int) string {
		return fmt.Sprintf("%d of %d predictions of the float model are correct, %d", was, len(t.held), n)
	}
	_, sameOffset := right(before, choice.LabelOffset)
	_, samePre := right(after, t.given)
	// the other half chose the best of many, which is right by chance more often
	if analysis.BinomialTail(len(t.held), n, 1/float64(classes)) > sure {
		d.add(data.Finding{Rule: "labels", Level: data.Fault, Node: "labels", Value: float64(n),
			Text: fmt.Sprintf("with no preprocessing and label offset that was tried is the float model right more often than by chance: "+
				"%d of %d with the best of them", n, len(t.held)),
			Fix: "the labels belong to other classes or samples, or the model wants another preprocessing: look at qwb preprocess --dump"})
		return nil
	}
	// What the model says of its data stands above the rules of thumb about numbers.
	d.r.Findings = slices.DeleteFunc(d.r.Findings, func(f Finding) bool { return f.Rule == data.RuleNormalised })
	if d.r.Best.Chance > sure {
		return nil
	}
	if choice.LabelOffset != t.given && chance(after, t.given) <= sure {
		d.add(data.Finding{Rule: "label-offset", Level: data.Fault, Node: "labels", Value: float64(choice.LabelOffset),
			Text: fmt.Sprintf("%s with --label-offset %d", said(samePre), choice.LabelOffset),
			Fix:  fmt.Sprintf("--label-offset %d", choice.LabelOffset)})
	}
	if !data.SamePixels(d.spec, asked.Pre, best.Pre) && chance(before, choice.LabelOffset) <= sure {
		fix := "--preprocess " + choice.Flag
		if strings.HasPrefix(choice.Flag, "{") {
			fix = "--preprocess FILE.yaml, a file that holds " + choice.Flag
		}
		d.add(data.Finding{Rule: "preprocessing", Level: data.Fault, Node: "data", Value: float64(n - sameOffset),
			Text: fmt.Sprintf("%s with %s", said(sameOffset), choice.Preprocess), Fix: fix})
	}
	return nil
}
