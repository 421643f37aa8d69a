package workbench

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"slices"

	"qwb"
	"qwb/quantizer/plan"
)

// planRun is a state of a plan, with what was measured of it.
type planRun struct {
	Plan     string `json:"plan"`
	Platform string `json:"platform"`
	Observer string `json:"observer"` // that all activations have unless something else was decided
	Open     bool   `json:"open"`     // this plan is
	Current  bool   `json:"current"`  // the plan stands so now; else it stood so when this was measured
	Changed  string `json:"changed"`  // when the file was written last, RFC 3339; empty of states that are gone
	Steps    int    `json:"steps"`    // commands that decided something after its calibration, of the state as it is
	Verdict  string `json:"verdict"`  // of the last verification, of the state as it is; empty: there is none
	// Figures are those that a command found of it last, by the command and their names in the journal; x_error is the error of x.
	Figures map[string]map[string]any `json:"figures"`
}

type planRuns struct {
	Runs []planRun `json:"runs"`
}

// mostPlans is how many plans of a folder are looked at.
const mostPlans = 200

// runs lists the states of all plans of the model that lie beside the plan that is open, that one first; of each the state as it is first.
func (b *Bench) runs(context.Context, struct{}) (*planRuns, error) {
	file, err := b.needPlan()
	if err != nil {
		return nil, err
	}
	own, err := b.readPlan(file)
	if err != nil {
		return nil, err
	}
	list := &planRuns{Runs: []planRun{}}
	dir := path.Dir(file)
	entries, err := fs.ReadDir(b.store(), dir)
	if err != nil { // a store that lists nothing has the one
		entries = nil
	}
	files := []string{file}
	for _, e := range entries {
		if name := path.Join(dir, e.Name()); isPlan(name) && path.Clean(name) != path.Clean(file) && len(files) < mostPlans {
			files = append(files, fileWord(name))
		}
	}
	for _, name := range files {
		if p, err := b.readPlan(name); err == nil && p.Model.SHA256 == own.Model.SHA256 {
			list.Runs = append(list.Runs, b.runsOf(name, p, name == file)...)
		}
	}
	return list, nil
}

// runsOf are the states of one plan.
func (b *Bench) runsOf(file string, p *plan.Plan, open bool) []planRun {
	states, err := qwb.RunStates(p)
	if err != nil {
		return nil
	}
	r := planRun{Plan: file, Platform: p.Platform, Open: open, Current: true, Steps: max(len(p.Steps)-1, 0),
		Figures: map[string]map[string]any{}}
	if info, err := fs.Stat(b.store(), file); err == nil {
		r.Changed = info.ModTime().UTC().Format("2006-01-02T15:04:05Z")
	}
	if p.Verification != nil {
		r.Verdict = p.Verification.Verdict
	}
	for i := range p.Decisions {
		if o := p.Decisions[i].Observer; o != "" && len(p.Decisions[i].Select) == 0 {
			r.Observer = string(o)
		}
	}
	list, at := []planRun{r}, map[string]int{states[len(states)-1]: 0}
	text, _ := b.read(qwb.RunsPath(file), plan.MaxBytes) // without them nothing was measured
	for line := range bytes.Lines(text) {
		var o struct {
			State, Command string
			Figures        map[string]any
		}
		if json.Unmarshal(line, &o) != nil || o.State == "" {
			continue
		}
		i, ok := at[o.State]
		if !ok {
			i = len(list)
			at[o.State], list = i, append(list, planRun{Plan: file, Platform: p.Platform, Open: open, Figures: map[string]map[string]any{}})
		}
		if o.Figures != nil {
			list[i].Figures[o.Command] = o.Figures
		}
	}
	slices.Reverse(list[1:]) // the newest first
	return list
}
