package qwb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/internal/kind"
	"qwb/internal/plain"
	"qwb/quantizer/decision"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// openPlan reads a plan and its model, which must be the one the plan was made for. Numbers that were edited by hand are an error that
// says how to decide them.
func (j *job) openPlan(file string) (*Planned, error) {
	p, err := j.openToChange(file)
	if err == nil {
		j.warnStale(p.Stale)
	}
	return p, err
}

// openToChange is openPlan for a command that says itself which tuned values do not fit what it makes of the plan.
func (j *job) openToChange(file string) (*Planned, error) {
	if err := j.check(file, "a plan", kind.Plan, kind.JSON); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	p, sum, err := j.readPlan(file)
	if err != nil {
		return nil, err
	}
	t, err := j.planTarget(file, p)
	if err != nil {
		return nil, err
	}
	m, err := j.openPlanModel(file, p)
	if err != nil {
		return nil, err
	}
	out := &Planned{Model: m, File: file, Plan: p, Target: t, Reference: m.Graph, catalog: &j.Catalog, watch: j.watch, sum: sum}
	if err := j.apply(out); err != nil {
		m.Close()
		return nil, err
	}
	out.Graph, out.Stale = out.tunedGraph(out.Set)
	if b := out.broken; b != nil {
		out.Stale = append([]overlay.Stale{{At: b.At, Why: b.Error()}}, out.Stale...)
	}
	return out, nil
}

// openPlanModel opens the model of a plan, which must be the one that it was made for.
func (j *job) openPlanModel(file string, p *plan.Plan) (*Model, error) {
	path := cmp.Or(j.modelAt, plan.Resolve(file, p.Model.Path))
	open := j.openNormal
	if p.Imported != nil {
		open = j.openModel
	}
	m, err := open(path)
	if err != nil {
		return nil, err
	}
	if m.Digest != p.Model.SHA256 {
		m.Close()
		return nil, fmt.Errorf("%s: the plan is for another model: %s has SHA-256 %.12s..., the plan says %.12s...; run qwb calibrate again",
			file, path, m.Digest, p.Model.SHA256)
	}
	return m, nil
}

// apply makes the plan's set. Nonsense is said as such; what makes sense but was edited is said with how to decide it.
func (j *job) apply(p *Planned) (err error) {
	if tuned := tunedFile(p.File, p.Plan); tuned != nil {
		if p.Overlay, err = j.readOverlay(p.File, tuned); err != nil {
			return err
		}
		normal := p.Graph
		if p.Graph, err = p.Overlay.Reference(normal); errors.As(err, &p.broken) {
			p.Graph = normal.Clone()
			p.Overlay.Prepare(p.Graph)
		} else if err != nil {
			return &FileError{File: p.File, Err: err}
		}
		p.Reference = p.Graph
	}
	if p.Set, err = p.Plan.Apply(p.Graph); err != nil && p.broken != nil {
		return Checkf("%s: what was tuned does not fit the model any more: %v: run qwb calibrate again, which keeps the other decisions", p.File, p.broken)
	} else if err != nil {
		return &FileError{File: p.File, Err: err}
	}
	if edited, err := p.Plan.Edited(); err != nil || !edited {
		return err
	}
	return j.edited(p)
}

// tunedFile is the file of tuned values of a plan: that of the last decision in force that names one; nil where nothing is tuned.
func tunedFile(file string, p *plan.Plan) *plan.File {
	if p.Options != nil {
		return p.Options.Tuned
	}
	d := tunedDecision(p)
	if d == nil {
		return nil
	}
	hash := strings.TrimPrefix(d.Overlay, "sha256:")
	return &plan.File{Path: plan.Relative(file, overlay.FileName(file, hash)), SHA256: hash}
}

// planTarget finds the target of a plan: built in, or written down in it.
func (j *job) planTarget(file string, p *plan.Plan) (*target.Target, error) {
	t, err := j.plannedTarget(p.Platform, p.Target.SHA256, p.Target.Definition)
	if err != nil {
		return nil, &FileError{File: file, Err: err}
	}
	if p.Profile != t.Profile {
		return nil, fmt.Errorf("%s: unknown profile %q: %s computes as %q", file, p.Profile, t.Name, t.Profile)
	}
	return t, nil
}

// targetEntry is what a plan says about its target.
func targetEntry(t *target.Target) plan.Target {
	return plan.Target{SHA256: t.Hash(), Definition: definition(t)}
}

// derivation loads what the plan's decisions are derived with: the statistics beside it or, where it was imported, the quantized file.
// Both have to be those that the plan was made from.
func (j *job) derivation(p *Planned, threads int) (*derivation, error) {
	d := &derivation{Target: p.Target, Own: j.Catalog.Observers, Threads: threads}
	d.tuned(p.Reference, p.Overlay)
	if p.Plan.Imported != nil {
		return d, j.reimport(p, d)
	}
	stats, err := j.planStats(p)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be changed without its statistics: %w", p.File, err)
	}
	if ranges, err := stats.RangesHash(); err != nil || p.Plan.Ranges != "" && ranges != p.Plan.Ranges {
		return nil, errors.Join(err, fmt.Errorf("%s: the statistics are of the samples that %s was made from but hold other numbers; calibrate again", j.statsOf(p.File), p.File))
	}
	if d.base, d.Stats = stats, stats; p.broken == nil && !p.lost {
		if d.Stats, _, err = j.stepped(p.File, p.Plan, stats); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// reimport reads the quantized file again that the plan was made from.
func (j *job) reimport(p *Planned, d *derivation) error {
	file := plan.Resolve(p.File, p.Plan.Imported.Path)
	m, err := j.openModel(file)
	if err != nil {
		return fmt.Errorf("%s was imported and its scales come from another file: %w", p.File, err)
	}
	defer m.Close()
	if m.Digest != p.Plan.Imported.SHA256 {
		return fmt.Errorf("%s was imported from %s, which has changed: SHA-256 %.12s..., the plan says %.12s...; import it again", p.File, file, m.Digest,
			p.Plan.Imported.SHA256)
	}
	q, err := qdq.Read(j.context(), m.Graph)
	if err != nil {
		return &FileError{File: file, Err: err}
	}
	q.IntegerBiases = !p.Target.Export.Open // it was asked for: import by itself takes no platform whose rules the file's float biases break
	im, err := q.Configure(p.Target)
	if err != nil {
		return &FileError{File: file, Err: err}
	}
	written, err := plan.FromSet(im.Graph, im.Set, plan.Meta{})
	if err != nil {
		return err
	}
	if d.Imported, err = written.Apply(p.Graph); err != nil {
		return &FileError{File: file, Err: err}
	}
	return nil
}

// maxEdits is how many commands an error about edited numbers lists.
const maxEdits = 20

// edited is the error of a plan whose numbers were changed by hand: it says which commands decide the same.
func (j *job) edited(p *Planned) error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%s: its numbers were edited by hand, and this command would overwrite them: "+format, append([]any{p.File}, a...)...)
	}
	d, err := j.derivation(p, 1)
	if err != nil {
		return fail("decide them with qwb set %s NODE:in0 scale=X zero_point=Z instead, or put %s.bak back (which ones cannot be told: %w)", p.File, p.File, err)
	}
	out, err := d.Derive(j.context(), p.Plan.Decisions)
	if j.context().Err() != nil {
		return context.Cause(j.context())
	}
	if err != nil {
		return fail("decide them with qwb set instead (which ones cannot be told: %w)", err)
	}
	was, err := plan.FromSet(out.Graph, out.Set, plan.Meta{})
	if err != nil {
		return err
	}
	lines, rest := edits(p.File, was, p.Plan)
	if len(lines) == 0 {
		if rest == 0 {
			return fail("they are again what was decided but the plan's nodes_sha256 is not theirs; qwb calibrate --fresh makes a new plan")
		}
		return fail("no qwb set says the same of the %d places that differ; put %s.bak back", rest, p.File)
	}
	if rest > 0 {
		lines = append(lines, fmt.Sprintf("(and %d more)", rest))
	}
	return fail("decide them instead, on the plan as it was (%s.bak or edited back), with\n%s", p.File, strings.Join(lines, "\n"))
}

// edits lists the commands that decide what an edited plan says and the one it was does not, and how many places no command is for.
func edits(file string, was, is *plan.Plan) (lines []string, rest int) {
	nodes := map[string]*plan.Node{}
	for i := range was.Nodes {
		nodes[was.Nodes[i].Name] = &was.Nodes[i]
	}
	add := func(selector string, p decision.Properties) {
		if len(lines) >= maxEdits || p.Empty() {
			rest++
			return
		}
		lines = append(lines, fmt.Sprintf("qwb set %s %s %s", plain.Shell(file), plain.Shell(selector), plain.Shell(p.Words()...)))
	}
	for i := range is.Nodes {
		n := &is.Nodes[i]
		old := nodes[n.Name]
		if old == nil || old.Domain != n.Domain {
			domain, _ := decision.DomainOf(n.Domain)
			add(n.Name, decision.Properties{Domain: domain})
			continue
		}
		for k := range n.Slots {
			s := &n.Slots[k]
			at := slices.IndexFunc(old.Slots, func(o plan.Slot) bool { return o.At == s.At })
			if at < 0 {
				rest++
				continue
			}
			if p, differs := slotEdit(was, is, &old.Slots[at], s); differs {
				add(n.Name+":"+s.At, p)
			}
		}
	}
	return lines, rest
}

// slotEdit is what is to be decided about a slot that was edited; nothing where no decision says it.
func slotEdit(was, is *plan.Plan, old, now *plan.Slot) (p decision.Properties, differs bool) {
	a, b := was.Schemes[old.Scheme], is.Schemes[now.Scheme]
	if now.State != old.State || now.Root != old.Root {
		return p, true
	}
	if !a.SameScheme(b) {
		differs = true
		if s, err := tqc.SchemeOf(b); err == nil && b.Policy.Has(tqc.PerChannel) {
			p.Weights = s
		} else if err == nil {
			p.Activations = s
		}
	}
	if !slices.Equal(old.Scale, now.Scale) || !slices.Equal(old.ZeroPoint, now.ZeroPoint) {
		differs = true
		if now.Root == "" && now.State == tqc.Activated {
			p.Scale, p.ZeroPoint = now.Scale, now.ZeroPoint
		}
	}
	return p, differs
}
