package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/internal/kind"
	"qwb/internal/plain"
	"qwb/internal/shard"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/quantizer/decision"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// OpenPlan reads a plan and its model, which must be the one the plan was made for. Numbers that were edited by hand are an error that
// says how to decide them.
func OpenPlan(j *open.Job, file string) (*Planned, error) {
	p, err := openToChange(j, file)
	if err == nil {
		warnStale(j, p.Stale)
	}
	return p, err
}

// openToChange is OpenPlan for a command that says itself which tuned values do not fit what it makes of the plan.
func openToChange(j *open.Job, file string) (*Planned, error) {
	if err := j.Check(file, "a plan", kind.Plan, kind.JSON); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	p, sum, err := j.ReadPlan(file)
	if err != nil {
		return nil, err
	}
	t, err := planTarget(j, file, p)
	if err != nil {
		return nil, err
	}
	m, err := openPlanModel(j, file, p)
	if err != nil {
		return nil, err
	}
	out := &Planned{Model: m, File: file, Plan: p, Target: t, Reference: m.Graph, Catalog: &j.Catalog, ctx: j.Context(),
		watch: func(p *Planned, run open.PlanRun) { watch(j, p, run) }, Sum: sum}
	if err := apply(j, out); err != nil {
		m.Close()
		return nil, err
	}
	if err := noteFor(j, p); err != nil {
		m.Close()
		return nil, err
	}
	out.Graph, out.Stale = out.TunedGraph(out.Set)
	if b := out.broken; b != nil {
		out.Stale = append([]overlay.Stale{{At: b.At, Why: b.Error()}}, out.Stale...)
	}
	return out, nil
}

// noteFor notes the plan for a run in parts.
func noteFor(j *open.Job, p *plan.Plan) error {
	r := shard.In(j.Context())
	if r == nil {
		return nil
	}
	hash, err := p.Hash()
	if err != nil {
		return err
	}
	return r.Fact("plan", hash)
}

// openPlanModel opens the model of a plan, which must be the one that it was made for.
func openPlanModel(j *open.Job, file string, p *plan.Plan) (*open.Model, error) {
	path := cmp.Or(j.ModelAt, plan.Resolve(file, p.Model.Path))
	open := j.OpenNormal
	if p.Imported != nil {
		open = j.OpenModel
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
func apply(j *open.Job, p *Planned) (err error) {
	if tuned := TunedFile(p.File, p.Plan); tuned != nil {
		if p.Overlay, err = ReadOverlay(j, p.File, tuned, p.Graph); err != nil {
			return err
		}
		normal := p.Graph
		if p.Graph, err = p.Overlay.Reference(normal); errors.As(err, &p.broken) {
			p.Graph = normal.Clone()
			p.Overlay.Prepare(p.Graph)
		} else if err != nil {
			return &fault.FileError{File: p.File, Err: err}
		}
		p.Reference = p.Graph
	}
	if p.Set, err = p.Plan.Apply(p.Graph); err != nil && p.broken != nil {
		return fault.Checkf("%s: what was tuned does not fit the model any more: %v: run qwb calibrate again, which keeps the other decisions",
			p.File, p.broken)
	} else if err != nil {
		return &fault.FileError{File: p.File, Err: err}
	}
	if edited, err := p.Plan.Edited(); err != nil || !edited {
		return err
	}
	return edited(j, p)
}

// TunedFile is the file of tuned values of a plan: that of the last decision in force that names one; nil where nothing is tuned.
func TunedFile(file string, p *plan.Plan) *plan.File {
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
func planTarget(j *open.Job, file string, p *plan.Plan) (*target.Target, error) {
	t, err := j.PlannedTarget(p.Platform, p.Target.SHA256, p.Target.Definition)
	if err != nil {
		return nil, &fault.FileError{File: file, Err: err}
	}
	if p.Profile != t.Profile {
		return nil, fmt.Errorf("%s: unknown profile %q: %s computes as %q", file, p.Profile, t.Name, t.Profile)
	}
	return t, nil
}

// TargetEntry is what a plan says about its target.
func TargetEntry(t *target.Target) plan.Target {
	return plan.Target{SHA256: t.Hash(), Definition: open.Definition(t)}
}

// derivationOf loads what the plan's decisions are derived with: the statistics beside it or, where it was imported, the quantized file.
// Both have to be those that the plan was made from.
func derivationOf(j *open.Job, p *Planned, threads int) (*Derivation, error) {
	d := &Derivation{Target: p.Target, Own: j.Catalog.Observers, Threads: threads}
	d.tuned(p.Reference, p.Overlay)
	if p.Plan.Imported != nil {
		return d, reimport(j, p, d)
	}
	stats, err := PlanStats(j, p)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be changed without its statistics: %w", p.File, err)
	}
	if ranges, err := stats.RangesHash(); err != nil || p.Plan.Ranges != "" && ranges != p.Plan.Ranges {
		return nil, errors.Join(err, fmt.Errorf("%s: the statistics are of the samples that %s was made from but hold other numbers; "+
			"calibrate again", statsOf(j, p.File), p.File))
	}
	if d.Base, d.Stats = stats, stats; p.broken == nil && !p.lost {
		if d.Stats, _, err = Stepped(j, p.File, p.Plan, stats); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// reimport reads the quantized file again that the plan was made from.
func reimport(j *open.Job, p *Planned, d *Derivation) error {
	file := plan.Resolve(p.File, p.Plan.Imported.Path)
	m, err := j.OpenModel(file)
	if err != nil {
		return fmt.Errorf("%s was imported and its scales come from another file: %w", p.File, err)
	}
	defer m.Close()
	if m.Digest != p.Plan.Imported.SHA256 {
		return fmt.Errorf("%s was imported from %s, which has changed: SHA-256 %.12s..., the plan says %.12s...; import it again", p.File,
			file, m.Digest, p.Plan.Imported.SHA256)
	}
	q, err := ReadQuantized(j.Context(), m)
	if err != nil {
		return &fault.FileError{File: file, Err: err}
	}
	// Weights and activations may be those of a float network that import was given. One that does not fit is refused below.
	if err := q.Original(j.Context(), p.Loaded); err != nil {
		j.Detail("%v", err)
	}
	q.IntegerBiases = !p.Target.Export.Open // it was asked for: import by itself takes no platform whose rules the file's float biases break
	im, err := q.Configure(p.Target)
	if err != nil {
		return &fault.FileError{File: file, Err: err}
	}
	written, err := plan.FromSet(im.Graph, im.Set, plan.Meta{})
	if err != nil {
		return err
	}
	if d.Imported, err = written.Apply(p.Graph); err != nil {
		return &fault.FileError{File: file, Err: err}
	}
	return nil
}

// maxEdits is how many commands an error about edited numbers lists.
const maxEdits = 20

// edited is the error of a plan whose numbers were changed by hand: it says which commands decide the same.
func edited(j *open.Job, p *Planned) error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%s: its numbers were edited by hand, and this command would overwrite them: "+format, append([]any{p.File}, a...)...)
	}
	d, err := derivationOf(j, p, 1)
	if err != nil {
		return fail("decide them with qwb set %s NODE:in0 scale=X zero_point=Z instead, or put %s.bak back (which ones cannot be told: %w)",
			p.File, p.File, err)
	}
	out, err := d.Derive(j.Context(), p.Plan.Decisions)
	if j.Context().Err() != nil {
		return context.Cause(j.Context())
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
