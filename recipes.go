package qwb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// maxRecipe is how large the file of a recipe may be.
const maxRecipe = 4 << 20

// recipeSource is a recipe that was read. What another tool wrote becomes one when the model is known.
type recipeSource struct {
	recipe *decision.Recipe
	forms  func(m *Model, t *target.Target) (*decision.Recipe, error)
}

// readRecipes reads what names say: files of qwb, or KIND:NAME of recipeKinds.
func (j *job) readRecipes(names []string) ([]recipeSource, error) {
	var list []recipeSource
	for _, name := range names {
		src, err := j.readRecipe(name)
		if err != nil {
			return nil, fmt.Errorf("recipe: %w", err)
		}
		list = append(list, src)
	}
	return list, nil
}

func (j *job) readRecipe(name string) (recipeSource, error) {
	word, rest, _ := strings.Cut(name, ":")
	for _, k := range recipeKinds {
		if k.name == word && rest != "" {
			return k.read(j, rest)
		}
	}
	src, err := readFile(j.store(), name, maxRecipe)
	if err != nil {
		return recipeSource{}, err
	}
	r, err := decision.ParseRecipe(name, src)
	return recipeSource{recipe: r}, err
}

// recipeStep is a step with the recipe that it stands in.
type recipeStep struct {
	*decision.Step
	recipe *decision.Recipe
	i      int
}

// fail says where the step stands.
func (s *recipeStep) fail(key string, err error) error {
	return fmt.Errorf("recipe: %w", s.recipe.Fail(s.i, key, err))
}

// recipeSteps are the steps of all recipes for one model: First are the decisions that calibrating begins with, Rest is what is done with
// the plan then.
type recipeSteps struct {
	First, Rest []recipeStep
}

// resolve brings recipes to a model: what they select has to be there, or is left out where that is optional.
func (j *job) resolve(m *Model, t *target.Target, sources []recipeSource) (*recipeSteps, error) {
	all := &recipeSteps{}
	set := tqc.NewSet(m.Graph)
	for _, src := range sources {
		r := src.recipe
		if r == nil {
			var err error
			if r, err = src.forms(m, t); err != nil {
				return nil, fmt.Errorf("recipe: %w", err)
			}
		}
		for i := range r.Steps {
			s := recipeStep{&r.Steps[i], r, i}
			if err := j.checkStep(&s); err != nil {
				return nil, err
			}
			if d := &s.Decision; len(d.Select) > 0 {
				sel, err := d.Select.Selector()
				if err == nil {
					_, err = sel.Match(m.Graph, set)
				}
				if err != nil && s.Optional {
					j.note("%v: left out", s.fail("select", err))
					continue
				}
				if err != nil {
					return nil, s.fail("select", err)
				}
			}
			if s.Tune == nil && s.Gate == nil && len(all.Rest) == 0 {
				all.First = append(all.First, s)
			} else {
				all.Rest = append(all.Rest, s)
			}
		}
	}
	return all, nil
}

// checkStep holds a step to what this program has.
func (j *job) checkStep(s *recipeStep) error {
	d := &s.Decision
	if name, _, _ := d.Observer.Split(); name.Own() && observers.Find(name, j.Catalog.Observers...) == nil {
		return s.fail("observer", fmt.Errorf("unknown observer %q: it is not built into this program", d.Observer))
	}
	if _, err := dispatch.FindStrategy(d.Dispatcher); err != nil {
		return s.fail("dispatcher", err)
	}
	if s.Tune != nil {
		_, err := s.tuneOptions()
		return err
	}
	return nil
}

// tuneOptions are the arguments of a step that tunes.
func (s *recipeStep) tuneOptions() (TuneOptions, error) {
	t := s.Tune
	o := TuneOptions{Methods: t.Method, Budget: t.Budget, Force: t.Force, AllowFP32: t.AllowFP32, Profile: t.Profile, Data: DataOptions{Samples: t.Samples}}
	_, err := methodsNamed(t.Method)
	if err == nil {
		work, budget := parseBudget(t.Budget)
		if err = budget; err == nil && work.Time > 0 {
			err = fmt.Errorf("budget %s: a time is other work on each machine; give forward passes: 5000forwards", t.Budget)
		}
	}
	if err != nil {
		return o, s.fail("tune", err)
	}
	return o, nil
}

// decisionsOf are the decisions of steps that neither tune nor gate.
func decisionsOf(steps []recipeStep) []decision.Decision {
	var list []decision.Decision
	for i := range steps {
		list = append(list, steps[i].Decision)
	}
	return list
}

// has reports whether a step decides the same.
func (r *recipeSteps) has(d *decision.Decision) bool { return r.step(d) != nil }

func (r *recipeSteps) step(d *decision.Decision) *recipeStep {
	for _, steps := range [][]recipeStep{r.First, r.Rest} {
		for i := range steps {
			if steps[i].Tune == nil && steps[i].Gate == nil && sameDecision(&steps[i].Decision, d) {
				return &steps[i]
			}
		}
	}
	return nil
}

func sameDecision(a, b *decision.Decision) bool {
	x, err := a.Encode()
	y, err2 := b.Encode()
	return err == nil && err2 == nil && string(x) == string(y)
}

// at adds to an error about a decision of list where the recipe says it.
func (r *recipeSteps) at(list []decision.Decision, err error) error {
	var e *decision.Error
	if r == nil || !errors.As(err, &e) || e.Number < 1 || e.Number > len(list) || list[e.Number-1].By != decision.ByRecipe {
		return err
	}
	if s := r.step(&list[e.Number-1]); s != nil {
		return s.fail("", err)
	}
	return err
}

// warnIdle warns of steps that select something and from which nothing follows. They are decisions of list from number first on, from 0.
func (j *job) warnIdle(r *recipeSteps, list []decision.Decision, first int, out *derived) {
	for i := first; i < len(list); i++ {
		d := &list[i]
		if d.By != decision.ByRecipe || len(d.Select) == 0 || out.Effects.Used[i+1] {
			continue
		}
		if s := r.step(d); s != nil && !s.Optional {
			j.warn("%v", s.fail("select", fmt.Errorf("%s changes nothing for this model and target", d)))
		}
	}
}

// GateResult is what a gate of a recipe measured.
type GateResult struct {
	Recipe  string   `json:"recipe"`
	Line    int      `json:"line"`
	Metric  string   `json:"metric"` // nsr, cosine, drop
	Limit   float64  `json:"limit"`
	Value   float64  `json:"value"`
	Error   *float64 `json:"error"` // standard error of Value; null where there is none
	Samples int      `json:"samples"`
	Held    bool     `json:"held"`
	Note    string   `json:"note,omitempty"`
}

// String is one line about a gate.
func (g *GateResult) String() string {
	word := "held"
	if !g.Held {
		word = "missed"
	}
	text := fmt.Sprintf("%s:%d: gate %s: %s %s, limit %g, %d samples", g.Recipe, g.Line, word, g.Metric, reports.WithError(g.Value, g.Error), g.Limit, g.Samples)
	if g.Note != "" {
		text += " (" + g.Note + ")"
	}
	return text
}

// calibrateAll calibrates and carries out what the recipes say to do then. Plan and tuned values are written when all of it is done and
// every gate holds, or not at all.
func (j *job) calibrateAll(ctx context.Context, o CalibrateOptions, sources []recipeSource) (*CalibrateResult, error) {
	elapsed := j.stopwatch()
	s := &scratch{base: j.store()}
	p := *j.project
	p.Store = s
	inner := &job{project: &p, ctx: ctx}
	res, steps, err := inner.calibrateWith(ctx, o, given{}, sources)
	if err == nil {
		err = inner.follow(ctx, o, steps, res)
	}
	j.warnings = append(j.warnings, inner.warnings...)
	if err == nil {
		err = j.adopt(s)
	} else if b := s.file(j.stats()); b != nil {
		if _, statErr := readFile(s.base, j.stats(), 1); missing(statErr) { // what took long is kept where it replaces nothing
			if _, writeErr := WriteFile(s.base, j.stats(), bytesOf(b)); writeErr == nil {
				j.note("%s keeps the statistics", j.stats())
			}
		}
	}
	if res != nil {
		res.Seconds, res.PeakRSS = elapsed(), j.peakMemory()
		if err != nil && !errors.As(err, new(CheckError)) {
			res = nil
		}
	}
	return res, err
}

// adopt writes what a scratch holds: the plan over the one that is there, with all other files.
func (j *job) adopt(s *scratch) error {
	more := func(stage Stage) error {
		for _, name := range s.names() {
			if name == filepath.Clean(j.Plan) || name == filepath.Clean(j.Plan+".bak") {
				continue
			}
			if err := stage.Add(name, bytesOf(s.file(name))); err != nil {
				return err
			}
		}
		return nil
	}
	p, _, err := (&job{project: &project{Store: s}}).readPlan(j.Plan)
	if err != nil {
		return err
	}
	if _, err := j.writePlan(j.Plan, p, "", more); err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	return nil
}

// follow carries out the steps behind the first decisions. Those that the plan has already, in this order, are not done again, nor are the
// gates before the last of them, which held then.
func (j *job) follow(ctx context.Context, o CalibrateOptions, r *recipeSteps, res *CalibrateResult) error {
	p, _, err := j.readPlan(j.Plan)
	if err != nil {
		return err
	}
	done, pos := 0, 0
	for i := range p.Decisions { // behind the last calibration
		if d := &p.Decisions[i]; d.By == decision.ByCalibrate && len(d.Select) == 0 {
			pos = i + 2 + len(r.First)
		}
	}
	for i := range r.Rest {
		s := &r.Rest[i]
		if s.Gate != nil {
			continue
		}
		at := s.madeIn(p.Decisions, pos)
		if at < 0 {
			break
		}
		done, pos = i+1, at+1
	}
	for i := done; i < len(r.Rest); {
		s := &r.Rest[i]
		switch {
		case s.Gate != nil:
			i++
			err = j.gate(ctx, o, s, res)
		case s.Tune != nil:
			i++
			err = j.tuneBy(ctx, o, s, res)
		default:
			from := i
			for i < len(r.Rest) && r.Rest[i].Gate == nil && r.Rest[i].Tune == nil {
				i++
			}
			err = j.decideBy(ctx, o, r, r.Rest[from:i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// madeIn returns where, from pos on, a list has the decision that a step makes; -1 for nowhere.
func (s *recipeStep) madeIn(list []decision.Decision, pos int) int {
	for i := min(pos, len(list)); i < len(list); i++ {
		d := &list[i]
		if s.Tune == nil && sameDecision(d, &s.Decision) {
			return i
		}
		if s.Tune != nil && d.By == decision.ByTune && d.Method == strings.Join(s.Tune.Method, ",") {
			o, err := s.tuneOptions()
			params, err2 := o.params(&TuneResult{})
			if err == nil && err2 == nil && string(params) == string(d.Params) {
				return i
			}
		}
	}
	return -1
}

func (j *job) decideBy(ctx context.Context, o CalibrateOptions, r *recipeSteps, steps []recipeStep) error {
	c, err := j.change(ctx, o.Threads)
	if err != nil {
		return err
	}
	defer c.close()
	first := len(c.p.Plan.Decisions)
	list := slices.Concat(c.p.Plan.Decisions, decisionsOf(steps))
	out, err := c.decide(ctx, list[first:]...)
	if err != nil {
		return r.at(list, err)
	}
	j.warnIdle(r, list, first, out)
	return nil
}

func (j *job) tuneBy(ctx context.Context, o CalibrateOptions, s *recipeStep, res *CalibrateResult) error {
	opts, err := s.tuneOptions()
	if err != nil {
		return err
	}
	opts.Threads, opts.Memory = o.Threads, o.Memory
	t, err := j.tune(ctx, opts, true)
	if err != nil {
		return s.fail("tune", err)
	}
	res.Tuned = append(res.Tuned, t)
	return nil
}

// gate measures the plan and holds it to the limits of a step.
func (j *job) gate(ctx context.Context, o CalibrateOptions, s *recipeStep, res *CalibrateResult) error {
	g, before := s.Gate, len(res.Gates)
	data := DataOptions{Samples: g.Samples, Threads: o.Threads, Memory: o.Data.Memory}
	beside := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(s.recipe.File), name)
	}
	for _, name := range g.Data {
		data.Paths = append(data.Paths, beside(name))
	}
	if g.Labels != "" {
		data.Labels = beside(g.Labels)
	}
	if g.MaxNSR != nil || g.MinCosine != nil {
		a := AnalyzeOptions{Data: data}
		a.Data.Labels = ""
		a.Outputs, a.Threads, a.Memory = true, o.Threads, o.Memory
		r, err := j.measure(ctx, a, nil)
		if err != nil {
			return s.fail("gate", err)
		}
		for _, limit := range []*float64{g.MaxNSR, g.MinCosine} {
			if limit == nil {
				continue
			}
			one := GateResult{Metric: "nsr", Limit: *limit, Samples: r.Samples}
			for i := range r.Outputs { // the worst output counts
				out := &r.Outputs[i]
				if limit == g.MinCosine {
					if one.Metric = "cosine"; i == 0 || out.Cosine < one.Value {
						one.Value = out.Cosine
					}
				} else if i == 0 || out.NSR > one.Value {
					one.Value, one.Error = out.NSR, out.NSRError
				}
			}
			if len(g.Data) == 0 {
				one.Note = "measured on the samples that the plan was calibrated on"
			}
			s.judge(res, one)
		}
	}
	if g.MaxDrop != nil {
		r, err := j.eval(ctx, EvalOptions{Mode: "sim", Data: data, Threads: o.Threads})
		if err != nil {
			return s.fail("gate", err)
		}
		one := GateResult{Metric: "drop", Limit: *g.MaxDrop, Value: r.Drop, Samples: r.N}
		if r.DropError > 0 {
			one.Error = &r.DropError
		}
		s.judge(res, one)
	}
	for _, one := range res.Gates[before:] {
		if !one.Held {
			return Checkf("recipe: %s; %s is unchanged", one, j.Plan)
		}
		j.note("%s", one)
	}
	return nil
}

// gateErrors is by how many standard errors a limit may be missed: one-sided, 95 %.
const gateErrors = 1.645

// judge holds a figure to its limit and adds it to the result.
func (s *recipeStep) judge(res *CalibrateResult, g GateResult) {
	g.Recipe, g.Line = s.recipe.File, s.Line
	over := g.Value - g.Limit
	if g.Metric == "cosine" {
		over = -over
	}
	g.Held = over <= 0
	if within := g.Error != nil && over <= gateErrors**g.Error; !g.Held && within && !s.Gate.Strict {
		g.Held, g.Note = true, strings.TrimPrefix(g.Note+"; over the limit by less than the measurement can tell", "; ")
	}
	res.Gates = append(res.Gates, &g)
}
