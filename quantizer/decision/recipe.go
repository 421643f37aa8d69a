package decision

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"qwb/internal/strictjson"
)

// Recipe is a list of steps that make a plan: decisions, tuning and gates, in the order in which they are carried out.
type Recipe struct {
	File  string // names it in errors
	Steps []Step
}

// Step is one entry of a recipe: a decision, or tuning, or a gate.
type Step struct {
	Line     int      // of the file, from 1; 0 where it has none
	Optional bool     // a decision whose selector matches nothing is left out, and no error
	Decision Decision // by "recipe"; where Tune and Gate are nil
	Tune     *Tuning
	Gate     *Gate
	keys     map[string]int // the lines of its keys
}

// Tuning is a step that tunes the plan: the arguments of qwb tune that do not hang on one model's files.
type Tuning struct {
	Method    Words  `json:"method,omitempty"`     // auto, or names of methods
	Budget    string `json:"budget,omitempty"`     // a time or work, as qwb tune takes it
	Samples   int    `json:"samples,omitempty"`    // of the plan's data; 0: the default of qwb tune
	Force     bool   `json:"force,omitempty"`      // keep what held-out samples do not confirm
	AllowFP32 bool   `json:"allow_fp32,omitempty"` // also try what moves work to FP32
	// MaxWork and MaxBytes are percentages that the tuned network may cost more than the model; nil: the default of qwb tune.
	MaxWork   *float64 `json:"max_work,omitempty"`
	MaxBytes  *float64 `json:"max_bytes,omitempty"`
	Steps     int      `json:"steps,omitempty"`     // of method block; 0: the default of qwb tune
	Blocks    int      `json:"blocks,omitempty"`    // of method block, how many; 0: all
	Loss      string   `json:"loss,omitempty"`      // of method distill; "": the default of qwb tune
	Optimizer string   `json:"optimizer,omitempty"` // of methods block and distill; "": the default of qwb tune
	Profile   string   `json:"profile,omitempty"`   // arithmetic to reduce the error for
}

// Gate is a step that measures the plan and fails where it misses a limit. Limits are upper ones but for MinCosine.
type Gate struct {
	MaxNSR    *float64 `json:"max_nsr,omitempty"`
	MinCosine *float64 `json:"min_cosine,omitempty"`
	MaxDrop   *float64 `json:"max_drop,omitempty"` // top-1 points; needs labels
	Data      Words    `json:"data,omitempty"`     // folders or files beside the recipe; none: held-out samples of the plan's data
	Labels    string   `json:"labels,omitempty"`   // a file beside the recipe
	Samples   int      `json:"samples,omitempty"`  // at most; 0: all of Data
	Strict    bool     `json:"strict,omitempty"`   // a limit that is missed by less than the error of the measurement is missed too
}

// Words are one or several strings; in JSON and YAML one may stand without a list.
type Words []string

// UnmarshalJSON reads a string or a list of strings; none may be empty.
func (w *Words) UnmarshalJSON(b []byte) error {
	var s Select
	if s.UnmarshalJSON(b) != nil {
		return fmt.Errorf("a word or a list of words is wanted, not %s", b)
	}
	*w = Words(s)
	return nil
}

// MarshalJSON writes one word as a string.
func (w Words) MarshalJSON() ([]byte, error) { return Select(w).MarshalJSON() }

// step is the layout of a step in the file.
type step struct {
	Decision
	Optional bool    `json:"optional,omitempty"`
	Tune     *Tuning `json:"tune,omitempty"`
	Gate     *Gate   `json:"gate,omitempty"`
}

// ParseRecipe reads a recipe: YAML, a list of steps. A decision has the keys that a plan has; it is by "recipe", whatever it says. file
// names the recipe in errors, which say its line.
func ParseRecipe(file string, src []byte) (*Recipe, error) {
	doc, err := readYAML(file, src)
	if err != nil {
		return nil, err
	}
	var list []step
	if err := strictjson.Decode(file, doc.json, &list); err != nil {
		return nil, err
	}
	r := &Recipe{File: file, Steps: make([]Step, len(list))}
	for i := range list {
		s := &list[i]
		s.By = ByRecipe
		r.Steps[i] = Step{Line: doc.items[i].line, Optional: s.Optional, Decision: s.Decision, Tune: s.Tune, Gate: s.Gate,
			keys: doc.items[i].keys}
		if key, err := s.check(); err != nil {
			return nil, r.Fail(i, key, err)
		}
		r.Steps[i].Decision.Evidence, r.Steps[i].Decision.After = nil, "" // they are about the plan that they come from
	}
	return r, nil
}

// Fail says where in the file an error is: at a key of step i (from 0), or at the step.
func (r *Recipe) Fail(i int, key string, err error) error {
	line := r.Steps[i].keys[key]
	if line == 0 {
		line = r.Steps[i].Line
	}
	if line == 0 {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	return fmt.Errorf("%s:%d: %w", r.File, line, err)
}

// check reports what is wrong with a step, and at which key.
func (s *step) check() (key string, err error) {
	d := &s.Decision
	alone := !s.Optional && d.Goal == "" && len(d.Select) == 0 && d.Empty()
	for _, other := range []struct {
		key string
		is  bool
		say string
	}{
		{"method", d.Method != "", "tuning is written as tune: {method: " + d.Method + "}"},
		{"params", d.Params != nil, "a decision has no params; tuning is written as tune: {...}"},
		{"overlay", d.Overlay != "", "tuned values belong to one model; a recipe tunes anew, by tune: {...}"},
		{"statistics", d.Statistics != "", "statistics belong to one model"},
		{"unset", len(d.Unset) > 0, "takes back decisions, of which a recipe has none"},
		{"tune", s.Tune != nil && (!alone || s.Gate != nil), "a step that tunes has no other keys"},
		{"gate", s.Gate != nil && !alone, "a gate has no other keys"},
		{"freeze", d.Freeze != nil && len(d.Scale) == 0, "a recipe can freeze only what it gives a scale"},
		{"optional", s.Optional && len(d.Select) == 0, "optional needs a select"},
	} {
		if other.is {
			return other.key, errors.New(other.say)
		}
	}
	switch {
	case s.Tune != nil:
		return "tune", s.Tune.check()
	case s.Gate != nil:
		return "gate", s.Gate.check()
	case alone:
		return "", errors.New("the step is empty: a decision, tune or gate is wanted")
	}
	if _, err := d.Select.Selector(); len(d.Select) > 0 && err != nil {
		return "select", err
	}
	for i := range properties { // each by itself, for the line
		one := Decision{By: ByRecipe, Select: d.Select}
		if properties[i].copy(&one.Properties, &d.Properties); d.has(i) {
			if err := one.Check(); err != nil {
				return properties[i].Name, err
			}
		}
	}
	return "", d.Check()
}

func (t *Tuning) check() error {
	var methods Words // "bias,gptq", as plans and earlier versions write it, is a list too
	for _, m := range t.Method {
		for _, name := range strings.Split(m, ",") {
			methods = append(methods, strings.TrimSpace(name))
		}
	}
	t.Method = methods
	switch {
	case len(t.Method) == 0:
		return errors.New("tune needs a method: auto, or names of methods")
	case t.Samples < 0:
		return fmt.Errorf("%d samples", t.Samples)
	}
	return nil
}

func (g *Gate) check() error {
	limits := 0
	for _, l := range []struct {
		name      string
		x         *float64
		low, high float64
	}{{"max_nsr", g.MaxNSR, 0, math.Inf(1)}, {"max_drop", g.MaxDrop, 0, 100}, {"min_cosine", g.MinCosine, -1, 1}} {
		if l.x == nil {
			continue
		}
		if limits++; !(*l.x >= l.low && *l.x <= l.high) {
			return fmt.Errorf("%s: %g does not lie between %g and %g", l.name, *l.x, l.low, l.high)
		}
	}
	switch {
	case limits == 0:
		return errors.New("a gate needs a limit: max_nsr, min_cosine or max_drop")
	case g.MaxDrop != nil && (g.Labels == "" || len(g.Data) == 0):
		return errors.New("max_drop needs data and labels")
	case g.Labels != "" && len(g.Data) == 0:
		return errors.New("labels need data")
	case g.Samples < 0:
		return fmt.Errorf("%d samples", g.Samples)
	}
	return nil
}

// tuningOf is the step that makes a decision by tune again.
func tuningOf(d *Decision) (*Tuning, error) {
	t := &Tuning{}
	if d.Params != nil {
		if err := json.Unmarshal(d.Params, t); err != nil {
			return nil, fmt.Errorf("decision: params of %s: %w", d.Method, err)
		}
	}
	t.Method = strings.Split(d.Method, ",")
	return t, nil
}
