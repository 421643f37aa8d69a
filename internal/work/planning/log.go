package planning

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/internal/file"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// LogResult is what plan log prints with --json.
type LogResult struct {
	Plan      string   `json:"plan"`
	Version   int      `json:"version"` // of the file's format
	Decisions []Logged `json:"decisions"`
	Redo      int      `json:"redo"` // how many commands can be done again
	// Undone are those commands, the next first, and Elsewhere how many outcomes are of plans that neither undo nor redo lead to.
	Undone    []Undone `json:"undone,omitempty"`
	Elsewhere int      `json:"elsewhere,omitempty"`
}

// Logged is a decision with its place in the plan.
type Logged struct {
	decision.Decision
	Number  int  `json:"number"` // counted from 1
	Step    int  `json:"step"`   // which command made it, counted from 1
	InForce bool `json:"in_force"`
	// Stale: its evidence was gathered under decisions or inputs that are others now.
	Stale bool `json:"stale,omitempty"`
	// Governed are the selected slots whose scale it went to.
	Governed []Governed `json:"governed,omitempty"`
	// Runs are the outcomes of commands on the plan as this decision left it, in the order in which they came.
	Runs []journal.Outcome `json:"runs,omitempty"`
}

// Undone is a command that redo does again, with what was found of the plan that it made.
type Undone struct {
	Decisions plan.Step         `json:"decisions"`
	Runs      []journal.Outcome `json:"runs,omitempty"`
}

// Text is the decision in words.
func (l *Logged) Text() string { return l.Decision.String() }

// Log lists the decisions of a plan.
func Log(ctx context.Context, j *open.Job) (*LogResult, error) {
	p, version, err := openDecided(ctx, j)
	if Lost(err) {
		p, version, err = OpenStory(j, err)
	}
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return LogOf(j, p, version)
}

// LogOf lists the decisions of a plan that is open.
func LogOf(j *open.Job, p *Planned, version int) (r *LogResult, err error) {
	r = &LogResult{Plan: j.Plan, Version: version, Redo: len(p.Plan.Redo)}
	if r.Decisions, err = logged(p); err != nil {
		return nil, err
	}
	return r, withRuns(j, r, p.Plan)
}

// withRuns puts the outcomes of commands beside the decisions that they were about.
func withRuns(j *open.Job, r *LogResult, p *plan.Plan) error {
	runs := journal.Outcomes(j, j.Plan)
	take := func(state string) []journal.Outcome {
		list := runs[state]
		delete(runs, state)
		return list
	}
	all := *p
	for _, step := range slices.Backward(p.Redo) {
		all.Decisions = slices.Concat(all.Decisions, step)
	}
	list, err := journal.States(&all)
	if err != nil {
		return err
	}
	for i := range r.Decisions {
		r.Decisions[i].Runs = take(list[i+1])
	}
	at := len(p.Decisions)
	for _, step := range slices.Backward(p.Redo) {
		at += len(step)
		r.Undone = append(r.Undone, Undone{step, take(list[at])})
	}
	for _, left := range runs {
		r.Elsewhere += len(left)
	}
	return nil
}

// openDecided opens the plan with its decisions, which one of version 1 has when it is brought over, in memory. version is the file's.
func openDecided(ctx context.Context, j *open.Job) (p *Planned, version int, err error) {
	if p, err = OpenPlan(j, j.Plan); err != nil || p.Plan.Options == nil {
		return p, plan.Version, err
	}
	p.Close()
	c, err := NewChange(ctx, j, 1)
	if err != nil {
		return nil, 1, err
	}
	return c.Planned, 1, nil
}

// OpenStory reads a plan without what it is derived from: its decisions can be told though its tuned values are lost, which is a warning.
func OpenStory(j *open.Job, why error) (*Planned, int, error) {
	p, _, err := j.ReadPlan(j.Plan)
	if err != nil {
		return nil, 0, err
	}
	version := plan.Version
	if p.Options != nil {
		version = 1
	}
	j.Warn("%v", why)
	return &Planned{File: j.Plan, Plan: p}, version, nil
}

func logged(p *Planned) ([]Logged, error) {
	inputs, err := p.Plan.Inputs()
	if err != nil {
		return nil, err
	}
	stale, err := decision.Stale(p.Plan.Decisions, inputs)
	if err != nil {
		return nil, err
	}
	list := make([]Logged, len(p.Plan.Decisions))
	in := decision.InForce(p.Plan.Decisions)
	step, left := 0, 0
	for i, d := range p.Plan.Decisions {
		if left == 0 {
			left = p.Plan.Steps[step]
			step++
		}
		left--
		list[i] = Logged{Decision: d, Number: i + 1, Step: step, InForce: in[i], Stale: slices.Contains(stale, i)}
		if in[i] && len(d.Select) > 0 && p.Set != nil {
			list[i].Governed = p.governed(&d, i+1)
		}
	}
	return list, nil
}

// governed lists the slots a decision selects by themselves that another slot governs.
func (p *Planned) governed(d *decision.Decision, number int) (list []Governed) {
	sel, err := d.Select.Selector()
	if err != nil {
		return nil
	}
	m, err := sel.Match(p.Graph, p.Set)
	if err != nil {
		return nil
	}
	for _, s := range m.Slots {
		if r := p.Set.Root(s); r != s {
			list = append(list, Governed{number, SlotName(p.Graph, p.Set, s), SlotName(p.Graph, p.Set, r)})
		}
	}
	return list
}

// ShowResult is what plan show prints with --json.
type ShowResult struct {
	Plan     string     `json:"plan"`
	Hash     string     `json:"sha256"` // of inputs, decisions and numbers
	Version  int        `json:"version"`
	Model    plan.File  `json:"model"`
	Imported *plan.File `json:"imported,omitempty"`
	Data     plan.Data  `json:"data"`
	Samples  int        `json:"samples"`
	Platform string     `json:"platform"`
	Profile  string     `json:"profile"`
	// Engine is who reads the platform's files, EngineKnown whether the profile's integers were ever held to its own, Arithmetic the same in
	// words.
	Engine      string             `json:"engine,omitempty"`
	EngineKnown bool               `json:"engine_known"`
	Arithmetic  string             `json:"arithmetic"`
	Domains     map[string]int     `json:"domains"` // operators
	Schemes     map[string]int     `json:"schemes"` // scales of their own, by scheme
	Cost        analysis.Cost      `json:"cost"`
	InForce     []Logged           `json:"decisions"`
	Verified    *plan.Verification `json:"verification,omitempty"`
	Warnings    []tqc.Warning      `json:"warnings"`
}

// Show sums a plan up. It needs the model but not what the plan is derived from.
func Show(j *open.Job) (*ShowResult, error) {
	p, err := OpenPlan(j, j.Plan)
	if Lost(err) {
		p, _, err = OpenStory(j, err)
	}
	if err != nil {
		return nil, err
	}
	defer p.Close()
	r := &ShowResult{Plan: j.Plan, Version: plan.Version, Model: p.Plan.Model, Imported: p.Plan.Imported, Data: p.Plan.Data,
		Samples:  p.Plan.Samples,
		Platform: p.Plan.Platform, Profile: p.Plan.Profile, Domains: map[string]int{}, Schemes: map[string]int{}, InForce: []Logged{},
		Verified: p.Plan.Verification, Warnings: append([]tqc.Warning{}, p.Plan.Warnings...)}
	e := target.EngineOf(p.Plan.Platform)
	r.Engine, r.EngineKnown, r.Arithmetic = e.Name, e.Knows(r.Profile), e.Says(r.Profile)
	if r.Hash, err = p.Plan.Hash(); err != nil {
		return nil, err
	}
	for i := range p.Plan.Nodes {
		n := &p.Plan.Nodes[i]
		r.Domains[n.Domain.String()]++
		for k := range n.Slots {
			if s := &n.Slots[k]; s.State == tqc.Activated {
				scheme := s.Scheme
				if sc, err := tqc.SchemeOf(p.Plan.Schemes[s.Scheme]); err == nil {
					scheme = sc.String()
				}
				r.Schemes[scheme]++
			}
		}
	}
	if p.Set != nil { // what a plan whose tuned values are lost quantizes is not known
		if r.Cost, err = analysis.CostOf(p.Graph, p.Set, p.Target, nil); err != nil {
			return nil, err
		}
	}
	if p.Plan.Options != nil {
		r.Version = 1
		return r, nil
	}
	list, err := InForce(p)
	r.InForce = append(r.InForce, list...)
	return r, err
}

// InForce are the decisions of a plan that count, in their order.
func InForce(p *Planned) ([]Logged, error) {
	list, err := logged(p)
	return slices.DeleteFunc(list, func(l Logged) bool { return !l.InForce || len(l.Unset) > 0 }), err
}

// Recipe writes the plan's decisions in force as a recipe.
func Recipe(ctx context.Context, j *open.Job) ([]byte, error) {
	p, _, err := openDecided(ctx, j)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	usual := DispatcherDecision(p.Target, "", nil).Properties
	tensor := false
	usual.Observer, usual.PerTensor = p.Target.Activation.Observer, &tensor
	return decision.EncodeRecipe(p.Plan.Decisions, usual)
}

// GCResult is what plan gc prints with --json.
type GCResult struct {
	Plan    string   `json:"plan"`
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"`
	// RunsRemoved are the outcomes of plans that neither undo nor redo lead to, RunsKept all others.
	RunsRemoved int `json:"runs_removed"`
	RunsKept    int `json:"runs_kept"`
	// Leftovers are folders of runs that were killed, which were removed; LeftoversKept those that hold what a file had in it before such a
	// run gave it new content.
	Leftovers     []string `json:"leftovers_removed,omitempty"`
	LeftoversKept []string `json:"leftovers_kept,omitempty"`
}

// GC removes the files with tuned values, and with statistics of what they changed, that no decision of the plan names, those that were
// undone included.
func GC(j *open.Job) (*GCResult, error) {
	p, _, err := j.ReadPlan(j.Plan)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, list := range append([]plan.Step{p.Decisions}, p.Redo...) {
		for i := range list {
			named[strings.TrimPrefix(list[i].Overlay, "sha256:")] = true
			named[strings.TrimPrefix(list[i].Statistics, "sha256:")] = true
		}
	}
	r := &GCResult{Plan: j.Plan, Removed: []string{}, Kept: []string{}}
	files, err := OverlayFiles(j.Files(), j.Plan)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	more, err := steppedFiles(j.Files(), j.Plan)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	for _, name := range append(files, more...) {
		b, err := store.ReadFile(j.Files(), name, MaxOverlay)
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		if named[store.Sum(b)] {
			r.Kept = append(r.Kept, name)
			continue
		}
		path, ok := j.Files().Path(name)
		if !ok {
			return nil, fmt.Errorf("plan: %s: only files of the operating system can be removed", name)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		r.Removed = append(r.Removed, name)
	}
	if path, ok := j.Files().Path(j.Plan); ok {
		r.Leftovers, r.LeftoversKept = file.Leftovers(filepath.Dir(path), file.Hidden)
	}
	if r.RunsKept, r.RunsRemoved, err = journal.Forget(j, j.Plan, p); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return r, nil
}
