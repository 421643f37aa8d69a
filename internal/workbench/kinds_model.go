package workbench

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"qwb"
	"qwb/analysis"
	"qwb/internal/options"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// planBeside is where the plan of a model is to lie.
func planBeside(model string) string {
	return path.Join(path.Dir(filepath.ToSlash(model)), qwb.BaseName(model)+qwb.PlanSuffix)
}

// opens makes another model and plan the project.
func (b *Bench) opens(model, planFile string) {
	b.mu.Lock()
	b.at.Model, b.at.Plan, b.at.Stats, b.shown = fileWord(model), fileWord(planFile), "", shown{}
	b.mu.Unlock()
	b.forget()
}

type calibrateJob struct {
	options.Calibrate
	model string // empty: the one that is open
}

func (o *calibrateJob) Table(c *qwb.Catalog) options.Table {
	return append(o.Calibrate.Table(c), argument("model", &o.model))
}

func (o *calibrateJob) files(b *Bench) (model, planFile string, err error) {
	p := b.project()
	if o.model == "" || o.model == p.Model {
		if p.Model == "" {
			return "", "", qwb.Usagef("no model is open")
		}
		return p.Model, o.target(b, p), nil
	}
	return fileWord(o.model), planBeside(o.model), nil
}

// target is the plan that is to be written: the one that is open, unless other data or another target make another one of it. That lies
// beside it and begins with its decisions; the one that is open stays as it is.
func (o *calibrateJob) target(b *Bench, p *qwb.Project) string {
	was, err := b.readPlan(p.Plan)
	if err != nil {
		return p.Plan
	}
	d, other := &o.Data, o.Platform != "" && o.Platform != was.Platform
	same := d.Preprocess == "" && d.Seed == 0 && (d.Samples == 0 || d.Samples == was.Samples) && slices.Equal(d.Paths, dataOf(p.Plan, was))
	if _, err := fs.Stat(b.store(), cmp.Or(p.Stats, qwb.StatsPath(p.Plan))); same && err == nil {
		d.Paths = nil // the statistics are of these samples
	}
	if !other && (len(d.Paths) == 0 || same) { // its history goes on
		return p.Plan
	}
	o.From = p.Plan
	name := path.Join(path.Dir(p.Plan), qwb.BaseName(p.Model))
	if other {
		name += "." + strings.TrimSuffix(path.Base(filepath.ToSlash(o.Platform)), path.Ext(o.Platform))
	}
	return fileWord(qwb.FreePlan(b.store(), name))
}

func (o *calibrateJob) line(b *Bench, t options.Table) (string, error) {
	o.From = ""
	model, planFile, err := o.files(b)
	if err == nil {
		err = o.Check()
	}
	return command(append(append([]string{"calibrate", model}, t.Words()...), "-o", planFile)...), err
}

func (o *calibrateJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*qwb.CalibrateResult, []tqc.Warning, error) {
	model, planFile, err := o.files(b)
	if err != nil {
		return nil, nil, err
	}
	if model != p.Model || planFile != p.Plan {
		p.Model, p.Plan, p.Stats = model, planFile, ""
	}
	b.bounded(&o.Data, &o.Threads, &o.Memory)
	r, w, err := p.Calibrate(ctx, o.CalibrateOptions)
	if err == nil {
		b.opens(model, planFile)
	}
	return r, w, err
}

type sweepJob struct{ options.Sweep }

func (o *sweepJob) line(b *Bench, t options.Table) (string, error) {
	p := b.project()
	if p.Model == "" {
		return "", qwb.Usagef("no model is open")
	}
	return command(append(append([]string{"sweep", p.Model}, t.Words()...), "-o", o.target(b, p))...), o.Check()
}

// target is the plan that is to be written: where one is open, another one, which is to be used by opening it.
func (o *sweepJob) target(b *Bench, p *qwb.Project) string {
	if _, err := fs.Stat(b.store(), p.Plan); err != nil || len(o.Data.Paths) == 0 || o.Fresh {
		return p.Plan
	}
	return strings.TrimSuffix(p.Plan, qwb.PlanSuffix) + ".sweep" + qwb.PlanSuffix
}

func (o *sweepJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*qwb.SweepResult, []tqc.Warning, error) {
	b.bounded(&o.Data, &o.Threads, &o.Memory)
	b.remember(&o.Data)
	if file := o.target(b, p); file != p.Plan {
		p.Plan, p.Stats = file, ""
	}
	return p.Sweep(ctx, o.SweepOptions)
}

type exportJob struct{ options.Export }

func (o *exportJob) Table(c *qwb.Catalog) options.Table {
	return append(o.Export.Table(c), argument("options", &o.Options)) // of the format
}

func (o *exportJob) line(b *Bench, t options.Table) (string, error) {
	p := b.project()
	file := p.Plan
	if file == "" || b.language(p.Model) {
		file = p.Model
	}
	words := append([]string{"export", file}, t.Words()...)
	for _, name := range slices.Sorted(maps.Keys(o.Options)) {
		words = append(words, "--"+name, o.Options[name])
	}
	if file == "" {
		return "", qwb.Usagef("nothing is open")
	}
	return command(words...), nil
}

// exportedBefore reports whether a file is as it was exported before: by this bench, or by the record beside the plan.
func (b *Bench) exportedBefore(name string) bool {
	f, err := b.store().Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false
	}
	sum := hex.EncodeToString(h.Sum(nil))
	runs, _ := b.read(qwb.RunsPath(b.project().Plan), plan.MaxBytes) // without a plan there is none
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exported[sum] || bytes.Contains(runs, []byte(`"sha256":"`+sum+`"`))
}

func (o *exportJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*qwb.ExportResult, []tqc.Warning, error) {
	if b.language(p.Model) {
		p.Plan = "" // a checkpoint is exported without one
	}
	o.Threads, o.Replaces = b.o.Threads, b.exportedBefore
	r, w, err := p.Export(ctx, o.ExportOptions)
	if err == nil {
		b.mu.Lock()
		if b.exported == nil {
			b.exported = map[string]bool{}
		}
		b.exported[r.SHA256] = true
		b.mu.Unlock()
	}
	return r, w, err
}

type importJob struct {
	options.Import
	model string
}

func (o *importJob) Table(c *qwb.Catalog) options.Table {
	return append(o.Import.Table(c), argument("model", &o.model))
}

func (o *importJob) line(_ *Bench, t options.Table) (string, error) {
	if o.model == "" {
		return "", qwb.Usagef("import takes a model")
	}
	return command(append(append([]string{"import", fileWord(o.model)}, t.Words()...), "-o", planBeside(o.model))...), o.Check()
}

func (o *importJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*qwb.ImportResult, []tqc.Warning, error) {
	p.Model, p.Plan, p.Stats = o.model, planBeside(o.model), ""
	b.bounded(&o.Data, &o.Threads, &o.Memory)
	r, w, err := p.Import(ctx, o.ImportOptions)
	if err == nil {
		b.opens(r.Model, p.Plan)
	}
	return r, w, err
}

type trialJob struct{ options.Doctor }

func (o *trialJob) line(b *Bench, t options.Table) (string, error) {
	p := b.project()
	if p.Model == "" || len(o.Data.Paths) == 0 {
		return "", qwb.Usagef("a trial needs a model that is open, and data")
	}
	return command(append([]string{"doctor", p.Model}, t.Words()...)...), nil
}

func (o *trialJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*qwb.DoctorResult, []tqc.Warning, error) {
	p.Plan = ""
	b.bounded(&o.Data, &o.Threads, nil)
	b.remember(&o.Data)
	return p.Doctor(ctx, o.DoctorOptions)
}

type openJob struct{ file string }

func (o *openJob) Table(*qwb.Catalog) options.Table { return options.Table{argument("file", &o.file)} }

// openedFile is what came of opening a file.
type openedFile struct {
	Model      string               `json:"model"`
	Plan       string               `json:"plan"`
	Exists     bool                 `json:"exists"` // the plan does
	Inspection *analysis.Inspection `json:"inspection"`
}

func (o *openJob) line(b *Bench, _ options.Table) (string, error) {
	if o.file == "" {
		return "", qwb.Usagef("open takes a model or a plan")
	}
	model := o.file
	if isPlan(o.file) {
		if of, err := b.modelOf(o.file); err == nil { // the job says what is wrong
			model = of
		}
	}
	return command("inspect", fileWord(model)), nil
}

func (o *openJob) run(ctx context.Context, b *Bench, p *qwb.Project) (*openedFile, []tqc.Warning, error) {
	p.Model, p.Plan, p.Stats = o.file, planBeside(o.file), ""
	_, err := b.readPlan(p.Plan)
	r := &openedFile{Exists: err == nil}
	if isPlan(o.file) {
		p.Plan = o.file
		if p.Model, err = b.modelOf(o.file); err != nil {
			return nil, nil, err
		}
		r.Exists = true
	}
	r.Model, r.Plan = p.Model, p.Plan
	var w []tqc.Warning
	if r.Inspection, w, err = p.Inspect(ctx); err != nil {
		return nil, w, err
	}
	b.opens(p.Model, p.Plan)
	return r, w, nil
}
