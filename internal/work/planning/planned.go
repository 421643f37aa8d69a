package planning

import (
	"context"
	"encoding/json"
	"fmt"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/passes"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/program"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Planned is a plan with the model it is for, ready to run.
type Planned struct {
	*open.Model
	File   string
	Plan   *plan.Plan
	Set    *tqc.Set
	Target *target.Target
	// Reference is the normal form after the steps of Overlay, which runs in float and computes what the model does. Graph is its clone with
	// what was tuned (Overlay, nil for nothing), which is quantized. Stale lists what was tuned and does not fit any more.
	Reference *graph.Graph
	Overlay   *overlay.Overlay
	Stale     []overlay.Stale

	Catalog *open.Catalog
	ctx     context.Context                    // of the call; nil: none
	watch   func(p *Planned, run open.PlanRun) // hears of what runs the plan; may be nil
	lost    bool                               // what was tuned is gone: Graph is the reference without it
	broken  *rewrite.Broken                    // the step of the tuned values that does not fit; Reference is without all of them then
	Sum     string                             // SHA-256 of the file as it was read
}

// Applied reports whether all that was tuned fits the model.
func (p *Planned) Applied() bool { return p.broken == nil }

// SeenBy are the samples behind statistics, by hash; nil has none.
func SeenBy(stats *calib.Stats) map[[32]byte]bool {
	seen := map[[32]byte]bool{}
	if stats != nil {
		for _, h := range stats.Hashes() {
			seen[h] = true
		}
	}
	return seen
}

// SampleHashes lists the hashes of the samples behind statistics.
func SampleHashes(stats *calib.Stats) [][32]byte {
	list := make([][32]byte, stats.Samples())
	for i, h := range stats.Hashes() {
		list[i] = h
	}
	return list
}

// Data returns the plan's own data set, or the one given on the command line.
func (p *Planned) Data(o open.DataOptions) open.DataOptions {
	o = o.Of(p.Model)
	o.Float = p.Reference
	if o.Stored == nil {
		o.Stored = &p.Plan.Preprocess
	}
	if o.Tokenizer == "" && p.Plan.Preprocess.Tokenizer != "" {
		o.Tokenizer = plan.Resolve(p.File, p.Plan.Preprocess.Tokenizer)
	}
	if len(o.Paths) == 0 {
		o.Paths = open.Locate(p.File, p.Plan.Data.Paths)
		if o.Samples == 0 {
			o.Samples = p.Plan.Samples
		}
		if o.Seed == 0 {
			o.Seed = uint64(p.Plan.Seed)
		}
	}
	return o
}

// PreprocessKey is the canonical text of a preprocessing: what statistics record it as.
func PreprocessKey(p plan.Preprocess) (string, error) {
	b, err := json.Marshal(p)
	return string(b), err
}

func ParsePreprocessKey(key string) (p plan.Preprocess, err error) {
	err = json.Unmarshal([]byte(key), &p)
	return p, err
}

// PlanData opens the data set given, or the plan's own with at most limit samples unless a number was asked for.
func PlanData(j *open.Job, p *Planned, o open.DataOptions, limit int) (*data.Set, error) {
	set, _, err := PlanDataBy(j, p, o, limit)
	return set, err
}

// PlanDataBy is PlanData and says how the samples are preprocessed.
func PlanDataBy(j *open.Job, p *Planned, o open.DataOptions, limit int) (*data.Set, plan.Preprocess, error) {
	own := len(o.Paths) == 0
	asked := o.Samples
	o = p.Data(o)
	if own && asked == 0 && o.Samples > limit {
		o.Samples = limit
	}
	return j.OpenData(p.Graph, o)
}

// NormalAgain is the normal form of a plan's model, untouched by what was tuned.
func NormalAgain(j *open.Job, p *Planned) (*graph.Graph, error) {
	g := p.Loaded.Clone()
	if p.Plan.Imported == nil {
		if _, err := passes.Run(j.Context(), g, passes.Normalize); err != nil {
			return nil, &fault.FileError{File: p.Path, Err: err}
		}
	}
	_ = graph.InferShapes(g) // what fails was said when the model was opened
	return g, nil
}

// Agreed returns the name of a plan's platform if it is the one that was asked for, by its name or as a file; empty: any.
func Agreed(j *open.Job, p *Planned, platform string) (string, error) {
	if platform == "" || platform == p.Plan.Platform {
		return p.Plan.Platform, nil
	}
	t, err := j.KnownTarget(platform)
	if err != nil {
		return "", err
	}
	if t.Hash() == p.Target.Hash() {
		return p.Plan.Platform, nil
	}
	return "", fmt.Errorf("%s is a plan for %s; make one for %s first: qwb calibrate %s --platform %s", j.Plan, p.Plan.Platform, platform,
		p.Path, platform)
}

// profile finds an arithmetic profile, that of the platform for an empty name.
func (p *Planned) ProfileNamed(name string) (qmath.Profile, error) {
	r, err := p.Target.ProfileNamed(name)
	if err != nil {
		return r, fault.UsageError{Err: err}
	}
	return r, nil
}

// Partial lowers the plan as far as it has an integer form; the rest are steps that simulate.
func (p *Planned) Partial(profile qmath.Profile) (*lower.Program, error) {
	q, err := lower.CompileBy(p.Graph, p.Set, p.Target, profile, lower.Options{Context: p.ctx, Partial: true})
	if err != nil {
		return nil, &fault.FileError{File: p.File, Err: err}
	}
	return q, nil
}

// Program lowers the plan. A part without an integer form is an error.
func (p *Planned) Program(profile qmath.Profile) (*lower.Program, error) {
	q, err := lower.CompileBy(p.Graph, p.Set, p.Target, profile, lower.Options{Context: p.ctx})
	if err != nil {
		return nil, &fault.FileError{File: p.File, Err: err}
	}
	return q, nil
}

// Executor prepares the plan's program under a profile, for batches of so many samples.
func (p *Planned) Executor(backend string, profile qmath.Profile, batch, threads int) (*program.Executor, error) {
	b, err := p.Catalog.Present(backend)
	if err != nil {
		return nil, err
	}
	g := p.Graph
	if batch > 1 {
		if g, err = graph.OpenBatch(g); err != nil {
			return nil, p.Named("--batch", err)
		}
	}
	lowered, err := lower.CompileBy(g, p.Set, p.Target, profile, lower.Options{Context: p.ctx})
	if err != nil {
		return nil, &fault.FileError{File: p.File, Err: err}
	}
	x, err := program.New(lowered, b, threads)
	if err == nil && p.watch != nil {
		p.watch(p, x)
	}
	return x, err
}
