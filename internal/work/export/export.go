// Package export writes plans and checkpoints in the formats of the catalog, verified.
package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/analysis/language"
	"qwb/calib/data"
	"qwb/calib/data/npy"
	"qwb/export"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	workverify "qwb/internal/work/verify"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Options are the arguments of export. The zero value is usable.
type Options struct {
	Format   string // one of the catalog's; empty: what the platform of the plan has as its own, or the first of checkpoints
	Platform string // that the plan is for; empty: whatever it is
	Out      string // file or folder; empty: beside the plan or the checkpoint
	Threads  int
	// Unverified exports what was not verified, and says so in plan and file.
	Unverified bool
	// Backend is verified against the reference; empty: that behind the reference, and a verification by it that the plan holds stands for it.
	Backend string
	// Samples is how many samples of the plan's data are verified; 0: samples.VerifySamples.
	Samples int
	// Options are the format's own, by name; those that are not given have their defaults.
	Options map[string]string
	Beside  Beside // of a plan's export
	// Replaces says whether a file that is there may be replaced; nil: each may.
	Replaces func(file string) bool
}

// Result is what export --json prints.
type Result struct {
	Platform string        `json:"platform,omitempty"` // of a plan
	Format   string        `json:"format"`
	Profile  string        `json:"profile,omitempty"` // of a program
	File     string        `json:"file"`              // what the user named: the first of Files, or their folder
	SHA256   string        `json:"sha256"`            // of the first of Files
	Files    []export.File `json:"files"`
	Warnings []tqc.Warning `json:"warnings"`
	// Judged says how searched scales of a checkpoint were chosen.
	Judged []language.Judged `json:"judged,omitempty"`
	// Figures are numbers of the format, by name; in JSON they stand beside the others.
	Figures map[string]int64 `json:"-"`
	// IntegerShare is the share of a plan's multiply-accumulates that run on integers, 0 to 1; absent where there are none.
	IntegerShare *float64 `json:"integer_share,omitempty"`
	// Verification is that of the plan under Profile, or the platform's, Checkpoint what reading the file of a checkpoint back and running it
	// found. In JSON both are called verification.
	Verification *workverify.ExportVerification `json:"-"`
	Checkpoint   *CheckpointVerification        `json:"-"`
	// ReadBack is what comparing the file of a plan with the plan found; in JSON it stands in verification.
	ReadBack *export.ReadBack `json:"-"`
}

// MarshalJSON writes figures and verification beside the rest.
func (r *Result) MarshalJSON() ([]byte, error) {
	type plain Result
	b, err := json.Marshal((*plain)(r))
	if err != nil {
		return nil, err
	}
	more := map[string]any{"verification": r.Verification}
	switch {
	case r.Checkpoint != nil:
		more["verification"] = r.Checkpoint
	case r.Verification != nil:
		more["verification"] = struct {
			*workverify.ExportVerification
			ReadBack *export.ReadBack `json:"read_back,omitempty"`
		}{r.Verification, r.ReadBack}
	}
	for name, n := range r.Figures {
		more[name] = n
	}
	tail, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	return append(append(bytes.TrimSuffix(b, []byte("}")), ','), tail[1:]...), nil
}

func newExportResult(f *export.Format) *Result {
	return &Result{Format: f.Name, Files: []export.File{}, Warnings: []tqc.Warning{}}
}

func Run(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	if j.Plan == "" {
		return exportCheckpoint(ctx, j, o)
	}
	p, err := planning.OpenPlan(j, j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if o.Platform, err = planning.Agreed(j, p, o.Platform); err != nil {
		return nil, err
	}
	f, err := export.ForPlatform(j.Catalog.Formats, p.Plan.Platform, cmp.Or(o.Format, p.Target.Format))
	if err != nil {
		return nil, fault.UsageError{Err: err}
	}
	r := newExportResult(f)
	if r.File = o.Out; r.File == "" {
		r.File = strings.TrimSuffix(j.Plan, store.PlanSuffix) + suffix(f, p.Plan.Platform)
	}
	inputs := Inputs(j, p)
	if err := outFile(j, f, inputs, r.File, &o); err != nil {
		return nil, err
	}
	in, err := planInput(j, p, f, o)
	if err != nil {
		return nil, err
	}
	profile, err := p.ProfileNamed(in.Options.Text(export.Profile.Name))
	if err != nil {
		return nil, err
	}
	r.Platform = p.Plan.Platform
	if f.From == export.Program {
		if in.Program, err = programOf(j, p, f, profile); err != nil {
			return nil, err
		}
		r.Profile = profile.Name
	}
	back := &backRun{job: j, plan: p, profile: profile, options: o}
	if !o.Unverified {
		in.Run = back.run
	}
	if f.Check != nil {
		if err := f.Check(in); err != nil {
			return nil, err
		}
	}
	r.IntegerShare = planning.IntegerShare(p.Graph, p.Set, p.Target)
	v, err := workverify.Ensure(ctx, j, p, profile, workverify.Terms{Backend: o.Backend, Samples: o.Samples, Threads: o.Threads,
		Unverified: o.Unverified, Kept: &back.Compiled})
	in.Verified = back.Program
	if v != nil {
		r.Verification = workverify.ForExport(p, v)
	}
	if err != nil {
		return r, err
	}
	if err := workverify.Stamp(in, p, v); err != nil {
		return nil, err
	}
	return publish(ctx, j, p, f, in, inputs, r, o)
}

// publish writes the files of a plan, which get their names once everything that can refuse them has been asked.
func publish(ctx context.Context, j *open.Job, p *planning.Planned, f *export.Format, in *export.Input, inputs []string, r *Result,
	o Options) (*Result, error) {
	warnBad, stop := planning.WarnBadLater(ctx, j, p, open.DataOptions{}, o.Threads)
	defer stop()
	out := j.Output(f, r.File)
	defer out.Discard()
	if err := writeExport(ctx, j, f, in, out, r, o.Unverified); err != nil {
		return r, err
	}
	if err := finite(j, warnBad(), o.Unverified); err != nil {
		return r, err
	}
	if err := writeBeside(j, &o.Beside, f, in, p, out, r); err != nil {
		return nil, err
	}
	if err := commit(j, out, inputs, r); err != nil {
		return nil, err
	}
	if err := planning.RewritePlan(j, p, p.Plan); err != nil { // with its verification
		j.Warn("the verification could not be written into the plan: %v", err)
	}
	return r, nil
}

// finite refuses a plan that makes numbers that are none of its samples; of one that nobody verifies it is said.
func finite(j *open.Job, found *analysis.NotFinite, unverified bool) error {
	if found != nil && !unverified {
		return fault.CheckError{Err: fmt.Errorf("export: %w", &fault.NotFiniteError{Found: found})}
	}
	if found != nil {
		planning.WarnFound(j, found)
	}
	return nil
}

// programOf is the plan as a program of integers, for a format that is written from one.
func programOf(j *open.Job, p *planning.Planned, f *export.Format, profile qmath.Profile) (*lower.Program, error) {
	program, err := p.Program(profile)
	if err != nil {
		return nil, fmt.Errorf("format %s needs a plan that runs completely on integers: %w", f.Name, err)
	}
	for _, w := range program.Warnings {
		j.Warn("%s", w)
	}
	return program, nil
}

// Inputs are the files that a plan is made of.
func Inputs(j *open.Job, p *planning.Planned) []string {
	list := append([]string{p.File, plan.Resolve(p.File, p.Plan.Model.Path), j.StatsFile()}, p.Files()...)
	if p.Plan.Imported != nil {
		list = append(list, plan.Resolve(p.File, p.Plan.Imported.Path))
	}
	if tuned := planning.TunedFile(p.File, p.Plan); tuned != nil {
		list = append(list, plan.Resolve(p.File, tuned.Path))
	}
	if f := planning.SteppedFile(p.File, p.Plan); f != nil {
		list = append(list, plan.Resolve(p.File, f.Path))
	}
	return list
}

// Replaces refuses an export in the place of one of its inputs.
func Replaces(j *open.Job, inputs []string, out string) error {
	all := inputs
	for _, name := range inputs { // what lies beside a plan belongs to it: outcomes, its last analysis, the plan before
		if strings.HasSuffix(name, store.PlanSuffix) {
			all = append(slices.Clip(all), journal.RunsPath(name), journal.AnalysisPath(name), name+".bak")
		}
	}
	for _, name := range all {
		if out != "" && j.SameFile(name, out) {
			return fmt.Errorf("export: %s would be replaced: name another file with -o", name)
		}
	}
	return nil
}

// outFile refuses a name that no file of a format can have, and one that would replace an input or what may not be replaced.
func outFile(j *open.Job, f *export.Format, inputs []string, name string, o *Options) error {
	if _, _, err := o.Beside.places(home(f, name)); err != nil {
		return err
	}
	switch info, err := fs.Stat(j.Files(), name); {
	case err != nil:
	case !info.IsDir() && o.Replaces != nil && !o.Replaces(name):
		return fault.Usagef("%s is there already: name another file", name)
	case info.IsDir() && f.Ext != "":
		return fmt.Errorf("export: %s: it is a folder, and format %s writes a file: name one with -o, for example -o %s", name, f.Name,
			filepath.Join(name, "NAME"+f.Ext))
	}
	return Replaces(j, inputs, name)
}

// suffix is what is added to the name of a plan to get that of its export.
func suffix(f *export.Format, platform string) string {
	switch {
	case f.Ext == "":
		return "." + f.Name
	case f.From == export.Plan:
		return "." + platform + f.Ext
	}
	return f.Ext
}

// narrowFloat warns of operators that the plan computes in fp16, bf16 or tf32 and that the file has in float32. half says that it has none
// in fp16 and bf16.
func narrowFloat(g *graph.Graph, set *tqc.Set, half bool) []tqc.Warning {
	var list []tqc.Warning
	for _, d := range []tqc.Domain{tqc.DomainFP16, tqc.DomainBF16, tqc.DomainTF32} {
		if half && d != tqc.DomainTF32 {
			continue
		}
		n, first := 0, ""
		for _, id := range g.Nodes() {
			if set.Domains[id] == d {
				if n++; n == 1 {
					first = g.Node(id).Name
				}
			}
		}
		if n > 0 {
			list = append(list, tqc.Warning{Node: first, Value: float64(n),
				Text: fmt.Sprintf("%s computes in %s in the plan (operators in %s: %d); the file has float32 there, and the engine's settings decide",
					first, d, d, n)})
		}
	}
	return list
}

// planInput is PlanInput; sizes that the model leaves open, that the format wants and that nobody gave are those of the first sample.
func planInput(j *open.Job, p *planning.Planned, f *export.Format, o Options) (*export.Input, error) {
	in, err := PlanInput(j, p, f, o)
	if err != nil || o.Options[export.OpenSizes.Name] != "" || len(openSizes(f, p.Graph)) == 0 {
		return in, err
	}
	sample, err := in.Sample()
	if err != nil {
		return in, nil // the format says which sizes it wants
	}
	sizes := sizesOf(f, p.Graph, sample)
	if len(sizes) == 0 {
		return in, nil
	}
	j.Warn("the file has the sizes of the first sample where the model leaves them open: %s (--size names others)",
		sizes[export.OpenSizes.Name])
	options := map[string]string{}
	maps.Copy(options, o.Options)
	maps.Copy(options, sizes)
	o.Options = options
	return PlanInput(j, p, f, o)
}

// PlanInput is what a format of a plan gets, but for the program and what verification adds.
func PlanInput(j *open.Job, p *planning.Planned, f *export.Format, o Options) (*export.Input, error) {
	in, err := input(j, f, o)
	if err != nil {
		return nil, err
	}
	in.Title, in.Model, in.Set, in.Target = filepath.Base(p.Path), p.Model.Model, p.Set, p.Target
	if in.Options.Text(export.InputsName) == "pixels" {
		if in.Pixels, err = data.SpecOf(p.Graph).Pixels(&p.Plan.Preprocess); err != nil {
			return nil, fault.Usagef("--inputs pixels: %v", err)
		}
	}
	if in.NodeDocs, in.TensorDocs, err = docs(j, p, in.Options.Text(export.DocString.Name)); err != nil {
		return nil, err
	}
	in.Sample = func() (map[string]*tensor.Tensor, error) {
		set, _, err := workverify.Data(j, p, open.DataOptions{Threads: o.Threads})
		if err != nil {
			return nil, err
		}
		sample, err := set.Sample(0)
		if err != nil {
			return nil, err
		}
		return sample.Feeds, nil
	}
	return in, nil
}

// docs are the words that the option DocString asks for; a note says where there are no errors among them.
func docs(j *open.Job, p *planning.Planned, which string) (nodes, tensors map[string]string, err error) {
	if which == "" || which == "none" {
		return nil, nil, nil
	}
	known := planning.LastAnalysis(j, p.Plan)
	if nodes, tensors, err = planning.Docs(p, known); err != nil {
		return nil, nil, err
	}
	switch {
	case which == "tensors":
		nodes = nil
	case known == nil:
		j.Note("no analysis of this plan as it is was kept: the words at nodes have no errors (qwb analyze finds them)")
	}
	if which == "nodes" {
		tensors = nil
	}
	return nodes, tensors, nil
}

// input is what every format gets.
func input(j *open.Job, f *export.Format, o Options) (*export.Input, error) {
	values, err := f.Resolve(o.Options)
	if err != nil {
		return nil, fault.UsageError{Err: err}
	}
	return &export.Input{Context: j.Context(), Options: values, Producer: "qwb", Version: j.Catalog.Version, Threads: o.Threads,
		Parallel: exec.Parallel(o.Threads),
		Array:    npy.Write, Progress: j.Progress}, nil
}

// writeExport lets a format write; nothing has its name yet.
func writeExport(ctx context.Context, j *open.Job, f *export.Format, in *export.Input, out *export.Output, r *Result,
	unverified bool) error {
	switch {
	case f.Experimental != "":
		j.Warn("format %s is experimental: %s", f.Name, f.Experimental)
	case f.From == export.Plan && target.EngineOf(in.Target.Name).Unread != "":
		j.Warn("platform %s is experimental: %s", in.Target.Name, target.EngineOf(in.Target.Name).Unread)
	}
	warnings, err := f.Write(ctx, in, out)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if in.Set != nil {
		if err := readBack(ctx, j, f, in, out, r, unverified); err != nil {
			return err
		}
	}
	if err := f.Conforms(ctx, in, out); err != nil {
		return err
	}
	if r.ReadBack != nil && r.ReadBack.Different == 0 {
		j.Note("read back: %s", r.ReadBack)
	}
	if in.Set != nil {
		warnings = append(warnings, narrowFloat(in.Model.Graph, in.Set, in.Writes16())...)
	}
	j.WarnAll(warnings)
	r.Warnings = append(r.Warnings, warnings...)
	_, r.Figures = out.Figures()
	return ctx.Err()
}

// commit gives the files their names, unless one of them is that of an input. A file beside the one that the user named belongs to it;
// where that one was not there before, a warning says what was replaced.
func commit(j *open.Job, out *export.Output, inputs []string, r *Result) (err error) {
	_, before := fs.Stat(j.Files(), r.File)
	for _, name := range out.Paths() {
		if err := Replaces(j, inputs, name); err != nil {
			return err
		}
		if info, err := fs.Stat(j.Files(), name); err == nil && store.Missing(before) && !info.IsDir() {
			j.Warn("%s was there without %s and is replaced", name, r.File)
		}
	}
	if r.Files, err = out.Commit(); err != nil {
		return err
	}
	if len(r.Files) > 0 {
		r.SHA256 = r.Files[0].SHA256
	}
	return nil
}

// Figures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var Figures = journal.Picked[Result]("platform format profile sha256 verification.verdict=verified")
