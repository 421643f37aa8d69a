package qwb

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
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// selected is the selector of what a cure is about; empty where no selector means just that.
func (a *adviser) selected(c *advise.Cure) string {
	if c.All {
		return "*"
	}
	g, set := a.was.Graph, a.was.Set
	var parts []string
	for _, id := range c.Nodes {
		parts = append(parts, strings.ReplaceAll(g.Node(id).Name, ",", `\,`))
	}
	for _, id := range c.Slots {
		parts = append(parts, strings.ReplaceAll(slotName(g, set, id), ",", `\,`))
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
func (a *adviser) decided(ctx context.Context, c *advise.Cure) (*derived, error) {
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
	next := *a.p.Plan
	next.Decisions, next.Steps = slices.Clone(next.Decisions), slices.Clone(next.Steps)
	first := len(next.Decisions)
	next.Decide(d)
	if err := decision.CheckList(next.Decisions); err != nil {
		return nil, err
	}
	out, err := a.derive(ctx, &next)
	if err != nil {
		return nil, err
	}
	if err := a.effective(next.Decisions, first, 1, out); err != nil {
		return nil, err
	}
	if p.Activations != (tqc.Scheme{}) || p.Weights != (tqc.Scheme{}) || p.Align != "" {
		if err := a.exportable(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// command is a cure as a line for a shell; empty where no command does it.
func (a *adviser) command(c *advise.Cure) string {
	switch {
	case len(c.Words) > 0:
		selector := a.selected(c)
		if selector == "" {
			return ""
		}
		return "qwb set " + plain.Shell(append([]string{a.p.File, selector}, c.Words...)...)
	case c.Method != "":
		return "qwb tune " + plain.Shell(a.p.File, "--method", c.Method)
	case c.More:
		if o, words := a.recalibration(); o != nil {
			return "qwb calibrate " + plain.Shell(words...)
		}
	case c.Look:
		words := a.dataFlags()
		if words == nil {
			return ""
		}
		folder := strings.TrimSuffix(filepath.Base(a.p.File), PlanSuffix) + ".inputs"
		return "qwb preprocess " + plain.Shell(append(append([]string{a.p.Path}, words...), "--samples", "4", "--dump", folder)...)
	}
	return ""
}

// dataFlags are the flags that name the plan's own data; nil where there are none that do.
func (a *adviser) dataFlags() []string {
	if len(a.p.Plan.Data.Paths) == 0 {
		return nil
	}
	var words []string
	for _, path := range locate(a.p.File, a.p.Plan.Data.Paths) {
		words = append(words, "--data", path)
	}
	pre := a.p.Plan.Preprocess
	if pre.Tokenizer != "" {
		return nil
	}
	if reflect.DeepEqual(pre, plan.Preprocess{}) {
		return words
	}
	for _, name := range plan.Presets() {
		if p, err := data.Preprocessing(name, data.SpecOf(a.p.Graph), nil); err == nil && reflect.DeepEqual(p, pre) {
			return append(words, "--preprocess", name)
		}
	}
	return nil
}

// recalibration is how to calibrate on all of the plan's data, as options and as words of a command; nil where the plan has seen them all, or no
// command says the same.
func (a *adviser) recalibration() (*CalibrateOptions, []string) {
	words := a.dataFlags()
	if words == nil || a.p.Plan.Data.Synthetic || len(a.p.Plan.Target.Definition) > 0 { // a target's file may be anywhere
		return nil, nil
	}
	o := &CalibrateOptions{Platform: a.p.Plan.Platform, Threads: a.o.Threads, Memory: a.o.Memory,
		Data: DataOptions{Paths: locate(a.p.File, a.p.Plan.Data.Paths), Stored: &a.p.Plan.Preprocess}}
	set, _, err := (&job{project: &project{Store: a.store(), Catalog: a.Catalog}}).openData(a.p.Graph, o.Data)
	if err != nil || set.Len() <= a.p.Plan.Samples {
		return nil, nil
	}
	words = append(append([]string{a.p.Path}, words...), "--platform", o.Platform)
	for i, counts := range decision.InForce(a.p.Plan.Decisions) {
		d := &a.p.Plan.Decisions[i]
		if !counts || len(d.Select) > 0 || d.By != decision.ByCalibrate && d.By != decision.ByTarget {
			continue
		}
		if d.Dispatcher != "" && d.Dispatcher != dispatch.Strategies[0].Name {
			o.Dispatcher = d.Dispatcher
			words = append(words, "--dispatcher", d.Dispatcher)
		}
		if d.BorderCost != nil && *d.BorderCost != a.p.Target.BorderCost {
			o.BorderCost = d.BorderCost
			words = append(words, "--border-cost", fmt.Sprint(*d.BorderCost))
		}
		if d.Observer != "" && d.Observer != a.p.Target.Activation.Observer {
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
	return o, append(words, "-o", a.p.File)
}
