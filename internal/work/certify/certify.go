// Package certify writes down what a plan was measured to be, derives it again, and holds it to limits.
package certify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/export"
	"qwb/internal/work/compare"
	workexport "qwb/internal/work/export"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
	workverify "qwb/internal/work/verify"
	"qwb/kernels/qmath"
	"qwb/quantizer/plan"
	"qwb/quantizer/program"
)

// Options are the arguments of certify.
type Options struct {
	Out      string
	Form     string           // one of Forms; empty: the first
	Backends []string         // verified; empty: the first
	Profiles []string         // verified; empty: the platform's
	Exports  []string         // files that were exported from the plan
	Data     open.DataOptions // without paths: the plan's own
	Threads  int
	Tool     Tool // what certifies
}

// Result is what certify --json prints.
type Result struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"` // of the certificate's content
	*Certificate
	Seconds float64 `json:"seconds"`
}

// CertifySamples is how many samples of the plan's own data certify takes unless told otherwise.
const CertifySamples = 256

// Run measures the plan and writes a certificate of it.
func Run(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	elapsed := j.Stopwatch()
	if o.Out == "" {
		return nil, fault.Usagef("certify needs -o FILE")
	}
	switch {
	case !slices.Contains(append(Forms(), ""), o.Form):
		return nil, fault.Usagef("--form %s: %s", o.Form, strings.Join(Forms(), ", "))
	case len(o.Exports) == 0 && o.Form != "" && o.Form != FormCertificate:
		return nil, fault.Usagef("--form %s needs --export FILE: a statement is about files", o.Form)
	}
	if o.Data.Metric.Command != "" {
		return nil, fault.Usagef("certify: --metric-cmd is a program that no certificate can hold")
	}
	c := &Certificate{Format: certificateFormat, Version: certificateVersion, Tool: o.Tool, Arithmetic: arithmeticHere()}
	c.Tool.Version = j.Catalog.Version
	raw, err := store.ReadFile(j.Files(), j.Plan, plan.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	run, err := openCertified(j, o)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	p := run.Planned[0]
	if store.Sum(raw) != p.Sum {
		return nil, &fault.ChangedError{Name: j.Plan}
	}
	if err := workexport.Replaces(j, workexport.Inputs(j, p), o.Out); err != nil {
		return nil, err
	}
	if err := c.name(j, p, raw, o, run); err != nil {
		return nil, err
	}
	if c.Exports, err = certifyExports(ctx, j, p, o); err != nil {
		return nil, err
	}
	if err := c.verifications(ctx, run, o); err != nil {
		return nil, err
	}
	if err := planning.Located(ctx, j, c.measure(ctx, run), o.Data, o.Threads); err != nil {
		return nil, err
	}
	b, err := SealCertificate(c)
	if err == nil {
		b, err = c.inForm(b, o.Form)
	}
	if err != nil {
		return nil, err
	}
	if _, err := store.WriteFile(j.Files(), o.Out, store.BytesOf(b)); err != nil {
		return nil, fmt.Errorf("certify: %w", err)
	}
	sealed, err := readCertificate(j, o.Out)
	if err != nil {
		return nil, err
	}
	return &Result{File: o.Out, SHA256: sealed.SHA256, Certificate: sealed, Seconds: elapsed()}, nil
}

// openCertified opens the plan with its data and what scores it.
func openCertified(j *open.Job, o Options) (*compare.Contest, error) {
	if len(o.Data.Paths) == 0 && o.Data.Samples == 0 { // of the plan's own data some are enough
		p, _, err := j.ReadPlan(j.Plan)
		if err != nil {
			return nil, err
		}
		o.Data.Samples = min(p.Samples, CertifySamples)
	}
	run, err := compare.Open(j, compare.Options{Runs: []string{j.Plan}, Data: o.Data, Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	if err := run.Planned[0].Fresh("certify"); err != nil {
		run.Close()
		return nil, err
	}
	return run, nil
}

// name fills in what the figures follow from, by hash.
func (c *Certificate) name(j *open.Job, p *planning.Planned, raw []byte, o Options, run *compare.Contest) error {
	var err error
	c.Platform, c.Target = p.Plan.Platform, p.Plan.Target.SHA256
	if c.Target == "" {
		c.Target = p.Target.Hash()
	}
	if err := planning.Nameable(j, append([]string{o.Out, o.Data.Labels}, o.Data.Paths...)...); err != nil {
		return err
	}
	c.Model = plan.File{Path: plan.Relative(o.Out, p.Path), SHA256: p.Digest}
	if i := p.Plan.Imported; i != nil {
		c.Imported = &plan.File{Path: plan.Relative(o.Out, plan.Resolve(p.File, i.Path)), SHA256: i.SHA256}
	}
	c.Plan = CertifiedPlan{Path: plan.Relative(o.Out, p.File), Text: planText(raw, p.Plan)}
	if c.Plan.SHA256, err = p.Plan.Hash(); err != nil {
		return err
	}
	if t := planning.TunedFile(p.File, p.Plan); t != nil {
		c.Overlay = &plan.File{Path: plan.Relative(o.Out, plan.Resolve(p.File, t.Path)), SHA256: t.SHA256}
	}
	d := dataOf(run, p)
	c.Data = CertifiedData{Paths: relativeTo(o.Out, d.Paths), Preprocess: run.Preprocessing, Samples: d.Samples, Seed: d.Seed,
		LabelOffset: d.LabelOffset, Outputs: d.Metric.Outputs, Seen: -1}
	for _, f := range []struct {
		name string
		file **plan.File
	}{{d.Labels, &c.Data.Labels}, {d.Metric.Alphabet, &c.Data.Alphabet}} {
		if f.name == "" {
			continue
		}
		sum, err := sumOfFiles(j.Files(), f.name)
		if err != nil {
			return err
		}
		*f.file = &plan.File{Path: plan.Relative(o.Out, f.name), SHA256: sum}
	}
	return nil
}

// sumOfFiles is the SHA-256 of a file; of a folder that of the names of all files below it with theirs. Links are followed, as they are
// where the files are read.
func sumOfFiles(s store.Store, name string) (string, error) {
	info, err := fs.Stat(s, name)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		b, err := fs.ReadFile(s, name)
		return store.Sum(b), err
	}
	var list strings.Builder
	if err := listFolder(s, &list, name, "", []fs.FileInfo{info}); err != nil {
		return "", err
	}
	return store.Sum([]byte(list.String())), nil
}

// listFolder writes a line for every file below a folder. above are the folders that it lies in: a link to one of them leads nowhere.
func listFolder(s store.Store, list *strings.Builder, folder, below string, above []fs.FileInfo) error {
	entries, err := fs.ReadDir(s, folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		info, err := fs.Stat(s, name)
		switch {
		case store.Missing(err): // a link to nothing
		case err != nil:
			return err
		case info.IsDir():
			if !slices.ContainsFunc(above, func(a fs.FileInfo) bool { return store.SameInfo(a, info) }) {
				err = listFolder(s, list, name, below+e.Name()+"/", append(slices.Clone(above), info))
			}
		case info.Mode().IsRegular():
			var b []byte
			if b, err = fs.ReadFile(s, name); err == nil {
				fmt.Fprintf(list, "%s %q\n", store.Sum(b), below+e.Name())
			}
		}
		if err != nil && !store.Missing(err) {
			return err
		}
	}
	return nil
}

// dataOf is how the samples of a contest were opened.
func dataOf(c *compare.Contest, p *planning.Planned) open.DataOptions { return p.Data(c.Options.Data) }

// measure runs all samples and fills in the figures.
func (c *Certificate) measure(ctx context.Context, run *compare.Contest) error {
	r, err := run.Run(ctx)
	if err != nil {
		return err
	}
	c.Figures = figuresOf(run, r)
	c.Samples = rowsOf(r)
	hashes := samples.Hashes(r)
	c.Data.Hash = plan.DataHash(hashes)
	if stats, err := planning.PlanStats(run.Job, run.Planned[0]); err == nil {
		seen := planning.SeenBy(stats)
		c.Data.Seen = 0
		for _, h := range hashes {
			if seen[h] {
				c.Data.Seen++
			}
		}
	}
	return nil
}

// figuresOf is what one plan was measured to do.
func figuresOf(run *compare.Contest, r *analysis.Runs) CertifiedFigures {
	f := r.Figures(run.Metric, run.Scorer)
	a := &f.Runs[0]
	return CertifiedFigures{Samples: f.Samples, Metric: f.Metric, Agreement: run.Metric != nil && run.Agreement, Percent: f.Percent,
		Score: a.Score, Float: a.Float, Drop: a.Drop,
		DropError: a.DropError, Flips: a.Flips, Centred: f.Centred, Mismatches: f.Mismatches, NSR: a.NSR.NSR, NSRError: a.NSRError,
		Worst:  a.Worst,
		Slices: certifiedSlices(a.Slices), Headlines: a.Headlines}
}

func rowsOf(r *analysis.Runs) []string {
	rows := make([]string, len(r.Samples))
	for i, s := range r.Samples {
		rows[i] = sampleRow(s, r.Float[0].Classes[i], r.All[0].Classes[i], r.All[0].Losses[i])
	}
	return rows
}

// verifications runs the integers of the plan on the first samples, under each profile and by each backend. Any that differs is an error.
func (c *Certificate) verifications(ctx context.Context, run *compare.Contest, o Options) error {
	profiles, backends := o.Profiles, o.Backends
	if len(profiles) == 0 {
		profiles = []string{""}
	}
	if len(backends) == 0 {
		backends = []string{""}
	}
	p := run.Planned[0]
	for _, name := range profiles {
		profile, err := p.ProfileNamed(name)
		if err != nil {
			return err
		}
		for _, name := range backends {
			backend, err := run.Catalog.Present(name)
			if err != nil {
				return err
			}
			v, err := verifyFirst(ctx, run, profile, backend, samples.VerifySamples)
			if err != nil {
				return err
			}
			if v.Verdict == analysis.VerdictDifferent || v.Verdict == analysis.VerdictNotFinite {
				return workverify.Diverged("certify", v, fmt.Sprintf("; nothing was written; qwb verify --profile %s %s shows more",
					profile.Name, p.File))
			}
			if v.Verdict == analysis.VerdictNothing {
				run.Warn("no operator of %s runs on integers: there is nothing to verify, and the figures are those of float", p.File)
			}
			c.Verifications = append(c.Verifications, certified(v, backend.Name))
		}
	}
	return nil
}

func certified(v *analysis.Verification, backend string) Certified {
	return Certified{Profile: v.Profile, Backend: backend, Samples: v.Samples, Verdict: v.Verdict, Compared: v.IntegersCompared,
		Different: v.IntegersDifferent, Ties: v.Ties, Digest: v.Digest}
}

// verifyFirst verifies the first plan on at most n samples of the data.
func verifyFirst(ctx context.Context, c *compare.Contest, profile qmath.Profile, backend program.Backend,
	n int) (*analysis.Verification, error) {
	p := c.Planned[0]
	lowered, err := p.Partial(profile)
	if err != nil {
		return nil, err
	}
	n = min(n, c.Set.Len())
	tick, finish := c.Progress("verify", n*len(lowered.Steps))
	defer finish()
	first := workverify.OwnStates(c.Job, &samples.Head{Iterator: c.Set.Iterator(), Left: n}, lowered, c.Options.Threads)
	v, err := verify.Run(ctx, first, verify.Config{Set: p.Set, Program: lowered, Backend: backend, Threads: c.Options.Threads,
		Memory: c.Options.Data.Budget, Progress: tick})
	if err == nil && v.Suspect {
		err = planning.FindIn(ctx, c.Job, p, v, open.DataOptions{Threads: c.Options.Threads}, &samples.Head{Iterator: c.Set.Iterator(), Left: n})
	}
	return v, err
}

// certifyExports hashes the files of exports and finds out which format gives them from the plan. A file that belongs to another one that
// is named is in the entry of that one.
func certifyExports(ctx context.Context, j *open.Job, p *planning.Planned, o Options) ([]CertifiedFile, error) {
	list := make([]CertifiedFile, len(o.Exports))
	parts := map[string]bool{}
	for i, file := range o.Exports {
		f, err := certifyExport(ctx, j, p, file, o)
		if err != nil {
			return nil, err
		}
		list[i] = f
		for _, part := range f.Parts {
			parts[part.Path] = true
		}
	}
	for i, f := range list {
		if f.Export == "" && len(f.Parts) == 0 && !parts[f.Path] {
			j.Warn("%s: no format gives this file from %s by its defaults: the certificate has its hash, but not those of files that belong to it, "+
				"and it cannot be made again", o.Exports[i], p.File)
		}
	}
	return slices.DeleteFunc(list, func(f CertifiedFile) bool { return f.Export == "" && parts[f.Path] }), nil
}

// certifyExport hashes a file, finds the format that gives it, and hashes all files that belong to it.
func certifyExport(ctx context.Context, j *open.Job, p *planning.Planned, file string, o Options) (CertifiedFile, error) {
	b, err := fs.ReadFile(j.Files(), file)
	if err != nil {
		return CertifiedFile{}, fmt.Errorf("certify: %w", err)
	}
	f := CertifiedFile{Path: plan.Relative(o.Out, file), SHA256: store.Sum(b)}
	why := ""
	for i := range j.Catalog.Formats {
		format := &j.Catalog.Formats[i]
		if format.From == export.Checkpoint || format.Ext == "" || !strings.HasSuffix(file, format.Ext) ||
			format.Targets != nil && !slices.Contains(format.Targets, p.Plan.Platform) {
			continue
		}
		made, err := exportAgain(ctx, j, p, format, filepath.Base(file), p.Plan.Verification, o.Threads)
		if ctx.Err() != nil {
			return f, context.Cause(ctx)
		}
		if err != nil || made[0].SHA256 != f.SHA256 {
			continue
		}
		parts, other, err := partsOf(j, file, made[1:], o.Out)
		if err != nil {
			return f, fmt.Errorf("certify: %s, as --format %s writes it: %w", file, format.Name, err)
		}
		f.Parts = parts
		if other == "" {
			f.Export, f.Verification = format.Name, p.Plan.Verification
			return f, nil
		}
		why = fmt.Sprintf("%s is not what --format %s writes beside %s from %s by its defaults: "+
			"the certificate has the hashes of all its files, which cannot be made again", other, format.Name, file, p.File)
	}
	if why != "" {
		j.Warn("%s", why)
	}
	return f, nil
}

// partsOf are the files beside the first of an export, by what was made again. other is one that is not what was made.
func partsOf(j *open.Job, file string, made []export.File, out string) (parts []plan.File, other string, err error) {
	for _, m := range made {
		name := filepath.Join(filepath.Dir(file), m.Path)
		b, err := fs.ReadFile(j.Files(), name)
		if err != nil {
			return nil, "", fmt.Errorf("a file that belongs to it: %w", err)
		}
		sum := store.Sum(b)
		if sum != m.SHA256 {
			other = name
		}
		parts = append(parts, plan.File{Path: plan.Relative(out, name), SHA256: sum})
	}
	return parts, other, nil
}

// exportAgain exports the plan into memory, as verified by v, and returns all files, the first of which is the one that is named.
func exportAgain(ctx context.Context, j *open.Job, p *planning.Planned, f *export.Format, name string, v *plan.Verification,
	threads int) ([]export.File, error) {
	in, err := workexport.PlanInput(j, p, f, workexport.Options{Threads: threads})
	if err != nil {
		return nil, err
	}
	if f.From == export.Program {
		profile, err := p.ProfileNamed("")
		if err != nil {
			return nil, err
		}
		if in.Program, err = p.Program(profile); err != nil {
			return nil, err
		}
	}
	if f.Check != nil {
		if err := f.Check(in); err != nil {
			return nil, err
		}
	}
	if err := workverify.Stamp(in, p, v); err != nil {
		return nil, err
	}
	var memory store.Memory
	out := f.NewOutput(name, memory.Stage())
	defer out.Discard()
	if _, err := f.Write(ctx, in, out); err != nil {
		return nil, err
	}
	files, err := out.Commit()
	if err == nil && len(files) == 0 {
		err = errors.New("nothing was written")
	}
	return files, err
}

// Figures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var Figures = journal.Picked[Result]("file sha256 figures.samples=samples figures.drop=drop figures.drop_error=drop_error " +
	"figures.flips=flips figures.nsr=nsr figures.nsr_error=nsr_error")
