// Package recipe reads recipes, qwb's own and those of other tools, and brings them to a model.
package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/internal/work/tune"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// maxRecipe is how large the file of a recipe may be.
const maxRecipe = 4 << 20

// Source is a recipe that was read. What another tool wrote becomes one when the model is known, and a preset is fitted to the target then.
type Source struct {
	Recipe *decision.Recipe
	forms  func(m *open.Model, t *target.Target) (*decision.Recipe, error)
}

// Follows reports whether steps other than decisions follow.
func (s *Source) Follows() bool {
	return s.Recipe != nil && slices.ContainsFunc(s.Recipe.Steps, func(s decision.Step) bool { return s.Tune != nil || s.Gate != nil })
}

// Read reads what names say: files of qwb, or KIND:NAME of recipeKinds.
func Read(j *open.Job, names []string) ([]Source, error) {
	var list []Source
	for _, name := range names {
		src, err := readRecipe(j, name)
		if err != nil {
			return nil, fmt.Errorf("recipe: %w", err)
		}
		list = append(list, src)
	}
	return list, nil
}

func readRecipe(j *open.Job, name string) (Source, error) {
	word, rest, _ := strings.Cut(name, ":")
	for _, k := range recipeKinds {
		if k.name == word && rest != "" {
			return k.read(j, rest)
		}
	}
	src, err := store.ReadFile(j.Files(), name, maxRecipe)
	if err != nil {
		return Source{}, err
	}
	r, err := decision.ParseRecipe(name, src)
	return Source{Recipe: r}, err
}

// Step is a step with the recipe that it stands in.
type Step struct {
	*decision.Step
	Recipe *decision.Recipe
	i      int
}

// Fail says where the step stands.
func (s *Step) Fail(key string, err error) error {
	return fmt.Errorf("recipe: %w", s.Recipe.Fail(s.i, key, err))
}

// Steps are the steps of all recipes for one model: First are the decisions that calibrating begins with, Rest is what is done with
// the plan then.
type Steps struct {
	First, Rest []Step
}

// Tune reports whether a step tunes.
func (s *Steps) Tune() bool {
	return slices.ContainsFunc(s.Rest, func(s Step) bool { return s.Tune != nil })
}

// Resolve brings recipes to a model: what they select has to be there, or is left out where that is optional.
func Resolve(j *open.Job, m *open.Model, t *target.Target, sources []Source) (*Steps, error) {
	all := &Steps{}
	set := tqc.NewSet(m.Graph)
	for _, src := range sources {
		r := src.Recipe
		if src.forms != nil {
			var err error
			if r, err = src.forms(m, t); err != nil {
				return nil, fmt.Errorf("recipe: %w", err)
			}
		}
		for i := range r.Steps {
			s := Step{&r.Steps[i], r, i}
			if err := checkStep(j, &s); err != nil {
				return nil, err
			}
			if d := &s.Decision; len(d.Select) > 0 {
				sel, err := d.Select.Selector()
				if err == nil {
					_, err = sel.Match(m.Graph, set)
				}
				if err != nil && s.Optional {
					j.Note("%v: left out", s.Fail("select", err))
					continue
				}
				if err != nil {
					return nil, s.Fail("select", err)
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
func checkStep(j *open.Job, s *Step) error {
	d := &s.Decision
	if name, _, _ := d.Observer.Split(); name.Own() && observers.Find(name, j.Catalog.Observers...) == nil {
		return s.Fail("observer", fmt.Errorf("unknown observer %q: it is not built into this program", d.Observer))
	}
	if _, err := dispatch.FindStrategy(d.Dispatcher); err != nil {
		return s.Fail("dispatcher", err)
	}
	if s.Tune != nil {
		_, err := s.TuneOptions()
		return err
	}
	return nil
}

// tune.Options are the arguments of a step that tunes.
func (s *Step) TuneOptions() (tune.Options, error) {
	t := s.Tune
	o := tune.Options{Methods: t.Method, Budget: t.Budget, Force: t.Force, AllowFP32: t.AllowFP32, MaxWork: t.MaxWork, MaxBytes: t.MaxBytes,
		Steps: t.Steps, Blocks: t.Blocks, Loss: t.Loss, Optimizer: t.Optimizer, Profile: t.Profile, Data: open.DataOptions{Samples: t.Samples}}
	_, err := tune.Methods(t.Method)
	if err == nil {
		work, budget := tune.ParseBudget(t.Budget)
		if err = budget; err == nil && work.Time > 0 {
			err = fmt.Errorf("budget %s: a time is other work on each machine; give forward passes: 5000forwards", t.Budget)
		}
	}
	if err = cmp.Or(err, o.Learning()); err != nil {
		return o, s.Fail("tune", err)
	}
	return o, nil
}

// Decisions are the decisions of steps that neither tune nor gate.
func Decisions(steps []Step) []decision.Decision {
	var list []decision.Decision
	for i := range steps {
		list = append(list, steps[i].Decision)
	}
	return list
}

// Has reports whether a step decides the same.
func (r *Steps) Has(d *decision.Decision) bool { return r.step(d) != nil }

func (r *Steps) step(d *decision.Decision) *Step {
	for _, steps := range [][]Step{r.First, r.Rest} {
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

// At adds to an error about a decision of list where the recipe says it.
func (r *Steps) At(list []decision.Decision, err error) error {
	var e *decision.Error
	if r == nil || !errors.As(err, &e) || e.Number < 1 || e.Number > len(list) || list[e.Number-1].By != decision.ByRecipe {
		return err
	}
	if s := r.step(&list[e.Number-1]); s != nil {
		return s.Fail("", err)
	}
	return err
}

// WarnIdle warns of steps that select something and from which nothing follows. They are decisions of list from number first on, from 0.
func WarnIdle(j *open.Job, r *Steps, list []decision.Decision, first int, out *planning.Derived) {
	for i := first; i < len(list); i++ {
		d := &list[i]
		if d.By != decision.ByRecipe || len(d.Select) == 0 || out.Effects.Used[i+1] {
			continue
		}
		if s := r.step(d); s != nil && !s.Optional {
			j.Warn("%v", s.Fail("select", fmt.Errorf("%s changes nothing for this model and target", d)))
		}
	}
}

// MadeIn returns where, from pos on, a list has the decision that a step makes; -1 for nowhere.
func (s *Step) MadeIn(list []decision.Decision, pos int) int {
	for i := min(pos, len(list)); i < len(list); i++ {
		d := &list[i]
		if s.Tune == nil && sameDecision(d, &s.Decision) {
			return i
		}
		if s.Tune != nil && d.By == decision.ByTune && d.Method == strings.Join(s.Tune.Method, ",") {
			o, err := s.TuneOptions()
			params, err2 := o.Params(&tune.Result{})
			if err == nil && err2 == nil && string(params) == string(d.Params) {
				return i
			}
		}
	}
	return -1
}
