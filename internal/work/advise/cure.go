package advise

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"qwb/analysis/advise"
	"qwb/calib/data"
	"qwb/internal/plain"
	"qwb/internal/work/calibrate"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// selected is the selector of what a cure is about; empty where no selector means just that.
func (a *Adviser) selected(c *advise.Cure) string {
	if c.All {
		return "*"
	}
	g, set := a.Was.Graph, a.Was.Set
	var parts []string
	for _, id := range c.Nodes {
		parts = append(parts, strings.ReplaceAll(g.Node(id).Name, ",", `\,`))
	}
	for _, id := range c.Slots {
		parts = append(parts, strings.ReplaceAll(planning.SlotName(g, set, id), ",", `\,`))
	}
	means := func(text string) bool {
		s, err := decision.ParseSelector(text)
		if err != nil {
			return false
		}
		m, err := s.Match(g, set)
		if err != nil || len(m.Nodes) != len(c.Nodes) || len(m.Slots) != len(c.Slots) {
			return false
		}
		for _, id := range c.Nodes {
			if !slices.Contains(m.Nodes, id) {
				return false
			}
		}
		for _, id := range c.Slots {
			if !slices.Contains(m.Slots, id) {
				return false
			}
		}
		return true
	}
	for _, prefix := range []string{"", "name:"} {
		if text := prefix + strings.Join(parts, ","+prefix); means(text) {
			return text
		}
	}
	return ""
}

// decided derives what a cure by qwb set decides.
func (a *Adviser) decided(ctx context.Context, c *advise.Cure) (*planning.Derived, error) {
	p, err := decision.ParseProperties(c.Words)
	if err != nil {
		return nil, err
	}
	selector := a.selected(c)
	if selector == "" {
		return nil, fmt.Errorf("no selector means just %v", c.Nodes)
	}
	d := decision.Decision{By: decision.ByUser, Select: decision.Select{selector}, Properties: p}
	if err := d.Check(); err != nil {
		return nil, err
	}
	next := *a.Planned.Plan
	next.Decisions, next.Steps = slices.Clone(next.Decisions), slices.Clone(next.Steps)
	first := len(next.Decisions)
	next.Decide(d)
	if err := decision.CheckList(next.Decisions); err != nil {
		return nil, err
	}
	out, err := a.Derive(ctx, &next)
	if err != nil {
		return nil, err
	}
	if err := a.Effective(next.Decisions, first, 1, out); err != nil {
		return nil, err
	}
	if p.Activations != (tqc.Scheme{}) || p.Weights != (tqc.Scheme{}) || p.Align != "" {
		if err := a.Exportable(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// command is a cure as a line for a shell; empty where no command does it.
func (a *Adviser) command(c *advise.Cure) string {
	switch {
	case len(c.Words) > 0:
		selector := a.selected(c)
		if selector == "" {
			return ""
		}
		return "qwb set " + plain.Shell(append([]string{a.Planned.File, selector}, c.Words...)...)
	case c.Method != "":
		return "qwb tune " + plain.Shell(a.Planned.File, "--method", c.Method)
	case c.More:
		if o, words := a.recalibration(); o != nil {
			return "qwb calibrate " + plain.Shell(words...)
		}
	case c.Look:
		words := a.dataFlags()
		if words == nil {
			return ""
		}
		folder := strings.TrimSuffix(filepath.Base(a.Planned.File), store.PlanSuffix) + ".inputs"
		return "qwb preprocess " + plain.Shell(append(append([]string{a.Planned.Path}, words...), "--samples", "4", "--dump", folder)...)
	}
	return ""
}

// dataFlags are the flags that name the plan's own data; nil where there are none that do.
func (a *Adviser) dataFlags() []string {
	if len(a.Planned.Plan.Data.Paths) == 0 {
		return nil
	}
	var words []string
	for _, path := range open.Locate(a.Planned.File, a.Planned.Plan.Data.Paths) {
		words = append(words, "--data", path)
	}
	pre := a.Planned.Plan.Preprocess
	if pre.Tokenizer != "" {
		return nil
	}
	pre.Mask = "" // found again
	if reflect.DeepEqual(pre, plan.Preprocess{}) {
		return words
	}
	for _, name := range plan.Presets() {
		if p, err := data.Preprocessing(name, data.SpecOf(a.Planned.Graph), nil); err == nil && reflect.DeepEqual(p, pre) {
			return append(words, "--preprocess", name)
		}
	}
	return nil
}

// recalibration is how to calibrate on all of the plan's data, as options and as words of a command; nil where the plan has seen them all,
// or no command says the same.
func (a *Adviser) recalibration() (*calibrate.Options, []string) {
	words := a.dataFlags()
	if words == nil || a.Planned.Plan.Data.Synthetic || len(a.Planned.Plan.Target.Definition) > 0 { // a target's file may be anywhere
		return nil, nil
	}
	o := &calibrate.Options{Platform: a.Planned.Plan.Platform, Threads: a.o.Threads, Memory: a.o.Memory,
		Data: open.DataOptions{Paths: open.Locate(a.Planned.File, a.Planned.Plan.Data.Paths), Stored: &a.Planned.Plan.Preprocess}}
	set, _, err := (&open.Job{Project: &open.Project{Store: a.Files(), Catalog: a.Catalog}}).OpenData(a.Planned.Graph, o.Data)
	if err != nil || set.Len() <= a.Planned.Plan.Samples {
		return nil, nil
	}
	words = append(append([]string{a.Planned.Path}, words...), "--platform", o.Platform)
	for i, counts := range decision.InForce(a.Planned.Plan.Decisions) {
		d := &a.Planned.Plan.Decisions[i]
		if !counts || len(d.Select) > 0 || d.By != decision.ByCalibrate && d.By != decision.ByTarget {
			continue
		}
		if d.Dispatcher != "" && d.Dispatcher != dispatch.Strategies[0].Name {
			o.Dispatcher = d.Dispatcher
			words = append(words, "--dispatcher", d.Dispatcher)
		}
		if d.BorderCost != nil && *d.BorderCost != a.Planned.Target.BorderCost {
			o.BorderCost = d.BorderCost
			words = append(words, "--border-cost", fmt.Sprint(*d.BorderCost))
		}
		if d.Observer != "" && d.Observer != a.Planned.Target.Activation.Observer {
			o.Observer = d.Observer
			words = append(words, "--observer", string(d.Observer))
		}
		if d.PerTensor != nil && *d.PerTensor {
			o.PerTensor = true
			words = append(words, "--per-tensor")
		}
		if d.ReduceRange != nil && *d.ReduceRange {
			o.ReduceRange = true
			words = append(words, "--reduce-range")
		}
	}
	return o, append(words, "-o", a.Planned.File)
}
