package certify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/export"
	"qwb/internal/work/compare"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
	workverify "qwb/internal/work/verify"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
)

// RecheckOptions are the arguments of verify-certificate. Files that are not named are where the certificate says, relative to its folder.
type RecheckOptions struct {
	Certificate string
	Root        string // the folder that the certificate's paths are relative to; empty: its own
	Plan        string
	Model       string
	Data        []string
	Labels      string
	Threads     int
}

// RecheckResult is what verify-certificate --json prints.
type RecheckResult struct {
	Certificate string    `json:"certificate"`
	Holds       bool      `json:"holds"`
	Arithmetic  [2]string `json:"arithmetic"` // recorded, here
	Checks      []Recheck `json:"checks"`
	Seconds     float64   `json:"seconds"`
}

// Verdicts of a Recheck.
const (
	RecheckEqual     = "equal"
	RecheckWithin    = "within" // a stated bound: floats are those of another class of processors
	RecheckDifferent = "different"
	RecheckSkipped   = "skipped" // cannot be derived here
)

// Recheck is one thing that a certificate says.
type Recheck struct {
	What     string `json:"what"`
	Verdict  string `json:"verdict"`
	Recorded string `json:"recorded,omitempty"`
	Found    string `json:"found,omitempty"`
	Note     string `json:"note,omitempty"`
}

// Bounds between classes of processors, whose floats differ in their last bits. A value at the border of two integers then goes to the other
// one, which moves the outputs a little: see docs/gate.md for what was measured.
const (
	boundClasses = 0.02 // of the samples may have another class, and two in any case
	boundNSR     = 0.02 // relative, of the mean
)

// recheck derives a certificate again.
type recheck struct {
	*open.Job
	o   RecheckOptions
	c   *Certificate
	res *RecheckResult
}

func (r *recheck) say(what, verdict, recorded, found, note string) {
	r.res.Checks = append(r.res.Checks, Recheck{what, verdict, recorded, found, note})
}

// same compares two texts.
func (r *recheck) same(what, recorded, found, note string) bool {
	if recorded == found {
		r.say(what, RecheckEqual, recorded, "", "")
		return true
	}
	r.say(what, RecheckDifferent, recorded, found, note)
	return false
}

// at is where a file of the certificate is.
func (r *recheck) at(path string) string {
	if r.o.Root != "" {
		return resolved(filepath.Join(r.o.Root, "certificate"), path)
	}
	return resolved(r.o.Certificate, path)
}

// Verify derives everything again that a certificate says. A file that is not there is an error that says how to name it.
func Verify(ctx context.Context, j *open.Job, o RecheckOptions) (*RecheckResult, error) {
	elapsed := j.Stopwatch()
	c, err := readCertificate(j, o.Certificate)
	r := &recheck{Job: j, o: o, c: c, res: &RecheckResult{Certificate: o.Certificate}}
	switch {
	case errors.Is(err, errSeal):
		r.say("certificate", RecheckDifferent, c.SHA256, "", errSeal.Error())
		return r.res, r.res.err() // what it says now is worth nothing
	case err != nil:
		return nil, err
	default:
		r.say("certificate", RecheckEqual, c.SHA256, "", "")
	}
	r.res.Arithmetic = [2]string{c.Arithmetic, arithmeticHere()}
	if c.Tool.Version != j.Catalog.Version {
		r.say("qwb", RecheckSkipped, c.Tool.Version, j.Catalog.Version, "another version: what it computes may differ")
	}
	same, err := r.files()
	if err == nil && same {
		err = r.figures(ctx)
	}
	if err != nil {
		return nil, err
	}
	if !same {
		r.say("figures, integers", RecheckSkipped, "", "", "not derived: they are those of other files")
	}
	r.res.Holds = !slices.ContainsFunc(r.res.Checks, func(c Recheck) bool { return c.Verdict == RecheckDifferent })
	r.res.Seconds = elapsed()
	return r.res, r.res.err()
}

// err names what differs.
func (r *RecheckResult) err() error {
	var first *Recheck
	n := 0
	for i := range r.Checks {
		if c := &r.Checks[i]; c.Verdict == RecheckDifferent {
			if n++; first == nil {
				first = c
			}
		}
	}
	if first == nil {
		return nil
	}
	text := first.What + " differs"
	if first.Note != "" {
		text += ": " + first.Note
	} else if first.Recorded != "" {
		text += fmt.Sprintf(": %s, the certificate says %s", first.Found, first.Recorded)
	}
	if n > 1 {
		text += fmt.Sprintf(" (and %d more)", n-1)
	}
	return fault.Checkf("%s: %s", r.Certificate, text)
}

// gone is the error of a file that is not there.
func gone(what, name, flag string, err error) error {
	return fmt.Errorf("the certificate's %s is not there: %s (%s names another place, --root the folder that all paths are relative to): %w", what, name, flag, err)
}

// bytesAt reads a file of the certificate.
func (r *recheck) bytesAt(what, name, flag string) ([]byte, error) {
	b, err := fs.ReadFile(r.Files(), name)
	if store.Missing(err) {
		return nil, gone(what, name, flag, fs.ErrNotExist)
	}
	return b, err
}

func (r *recheck) planFile() string  { return cmp.Or(r.o.Plan, r.at(r.c.Plan.Path)) }
func (r *recheck) modelFile() string { return cmp.Or(r.o.Model, r.at(r.c.Model.Path)) }

// files compares all files with their hashes. same says that nothing differs that figures follow from.
func (r *recheck) files() (same bool, err error) {
	same = true
	digest := func(what, name, flag, recorded string) error {
		if _, err := fs.Stat(r.Files(), name); store.Missing(err) {
			return gone(what, name, flag, fs.ErrNotExist)
		}
		m, err := r.OpenModel(name)
		if err != nil { // it could be read when the certificate was made
			r.say(what+" "+name, RecheckDifferent, recorded, "", "it cannot be read any more: "+fault.OneLine(err))
			same = false
			return nil
		}
		defer m.Close()
		same = r.same(what+" "+name, recorded, m.Digest, "") && same
		return nil
	}
	if err := digest("model", r.modelFile(), "--model", r.c.Model.SHA256); err != nil {
		return false, err
	}
	if i := r.c.Imported; i != nil {
		if err := digest("imported model", r.at(i.Path), "--root", i.SHA256); err != nil {
			return false, err
		}
	}
	ok, err := r.plan()
	if err != nil {
		return false, err
	}
	same = same && ok
	if t := r.c.Overlay; t != nil {
		name := filepath.Join(filepath.Dir(r.planFile()), filepath.Base(filepath.FromSlash(t.Path)))
		b, err := r.bytesAt("file of tuned values", name, "--plan")
		if err != nil {
			return false, err
		}
		same = r.same("tuned values "+name, t.SHA256, overlay.Hash(b), "") && same
	}
	for _, f := range []struct {
		what, flag, name string
		file             *plan.File
	}{{"labels", "--labels", r.o.Labels, r.c.Data.Labels}, {"alphabet", "--root", "", r.c.Data.Alphabet}} {
		if f.file == nil {
			continue
		}
		name := cmp.Or(f.name, r.at(f.file.Path))
		sum, err := sumOfFiles(r.Files(), name)
		if store.Missing(err) {
			return false, gone(f.what, name, f.flag, fs.ErrNotExist)
		} else if err != nil {
			return false, err
		}
		same = r.same(f.what+" "+name, f.file.SHA256, sum, "") && same
	}
	for _, f := range r.c.Exports {
		for _, file := range f.files() {
			if err := r.exported(file); err != nil {
				return false, err
			}
		}
	}
	return same, nil
}

// exported compares a file of an export.
func (r *recheck) exported(f plan.File) error {
	name := r.at(f.Path)
	b, err := fs.ReadFile(r.Files(), name)
	switch {
	case store.Missing(err):
		r.say("export "+name, RecheckSkipped, f.SHA256, "", "the file is not here")
		return nil
	case err != nil:
		return err
	}
	r.same("export "+name, f.SHA256, store.Sum(b), "")
	return nil
}

// plan compares the plan's file: first what it decides, then any other byte.
func (r *recheck) plan() (bool, error) {
	name := r.planFile()
	raw, err := r.bytesAt("plan", name, "--plan")
	if err != nil {
		return false, err
	}
	p, err := plan.Parse(name, raw)
	if err != nil {
		r.say("plan "+name, RecheckDifferent, r.c.Plan.SHA256, "", "it cannot be read any more: "+fault.OneLine(err))
		return false, nil
	}
	hash, err := p.Hash()
	if err != nil {
		return false, err
	}
	if !r.same("plan "+name, r.c.Plan.SHA256, hash, "") {
		return false, nil
	}
	if edited, err := p.Edited(); err != nil || edited {
		r.say("plan "+name, RecheckDifferent, r.c.Plan.Text, "", "its nodes_sha256 is not that of its numbers")
		return false, err
	}
	return r.same("text of the plan", r.c.Plan.Text, planText(raw, p), "other reasons, paths, warnings or layout than when it was certified; its decisions and numbers are the same"), nil
}

// figures runs everything again.
func (r *recheck) figures(ctx context.Context) error {
	o := compare.Options{Runs: []string{r.planFile()}, Threads: r.o.Threads, Data: r.c.data(r.at)}
	o.Data.Threads = r.o.Threads
	if len(r.o.Data) > 0 {
		o.Data.Paths = r.o.Data
	}
	if r.c.Data.Labels != nil {
		o.Data.Labels = cmp.Or(r.o.Labels, o.Data.Labels)
	}
	for _, path := range o.Data.Paths {
		if open.IsSynthetic(path) {
			continue
		}
		if _, err := fs.Stat(r.Files(), path); store.Missing(err) {
			return gone("data", path, "--data", fs.ErrNotExist)
		}
	}
	r.ModelAt = r.modelFile()
	run, err := compare.Open(r.Job, o)
	if err != nil {
		return err
	}
	defer run.Close()
	runs, err := run.Run(ctx)
	if err != nil {
		return err
	}
	if r.data(runs) {
		r.compare(figuresOf(run, runs), runs)
		if err := r.verifications(ctx, run); err != nil {
			return err
		}
	} else {
		r.say("figures, integers", RecheckSkipped, "", "", "not compared: they are those of other samples")
	}
	if err := r.held(run.Planned[0]); err != nil {
		return err
	}
	return r.exports(ctx, run.Planned[0])
}

// held holds what the plan says of its last verification, which may be another than that of the exports, to its digest.
func (r *recheck) held(p *planning.Planned) error {
	v := p.Plan.Verification
	if v == nil || v.Data == "" && analysis.Holds(v.Verdict) || r.c.Tool.Version != r.Catalog.Version {
		return nil
	}
	profile, err := p.ProfileNamed(v.Profile)
	if err != nil {
		r.say("plan's verification", RecheckDifferent, v.Digest, "", fault.OneLine(err))
		return nil
	}
	program, err := p.Partial(profile)
	if err != nil {
		return err
	}
	digest, err := workverify.Identity(p, program, v)
	if err == nil {
		r.same("plan's verification", v.Digest, digest, "its digest is not that of what it says")
	}
	return err
}

// data compares the samples and names the first that is another one.
func (r *recheck) data(runs *analysis.Runs) bool {
	hash := plan.DataHash(samples.Hashes(runs))
	if n := len(runs.Samples); n != len(r.c.Samples) {
		r.say("data", RecheckDifferent, fmt.Sprintf("%d samples", len(r.c.Samples)), fmt.Sprintf("%d samples", n), "")
		return false
	}
	first, n := "", 0
	for i, s := range runs.Samples {
		recorded, _, _ := strings.Cut(r.c.Samples[i], " ")
		if recorded == fmt.Sprintf("%x", s.Hash[:8]) {
			continue
		}
		if n++; n == 1 {
			first = s.Name
		}
	}
	if n > 0 {
		r.say("data", RecheckDifferent, r.c.Data.Hash, hash, fmt.Sprintf("%d of %d samples are others, the first is %s", n, len(runs.Samples), first))
		return false
	}
	return r.same("data", r.c.Data.Hash, hash, "")
}

// compare holds the figures against those of the certificate: equal on processors of its class, else within the stated bounds.
func (r *recheck) compare(f CertifiedFigures, runs *analysis.Runs) {
	same := r.res.Arithmetic[0] == r.res.Arithmetic[1]
	was := &r.c.Figures
	n := len(runs.Samples)
	rows, classes := 0, 0
	first := ""
	for i, row := range rowsOf(runs) {
		if row == r.c.Samples[i] {
			continue
		}
		if rows++; rows == 1 {
			first = fmt.Sprintf("; the first: sample %s: %s, was %s", runs.Samples[i].Name, row, r.c.Samples[i])
		}
		a, b := strings.Fields(row), strings.Fields(r.c.Samples[i])
		if len(b) != len(a) || !slices.Equal(a[1:4], b[1:4]) {
			classes++
		}
	}
	most := max(2, int(boundClasses*float64(n)))
	switch {
	case rows == 0:
		r.say("samples", RecheckEqual, plural(n, "sample"), "", "")
	case same:
		r.say("samples", RecheckDifferent, "", "", fmt.Sprintf("%d of %d samples give other classes or errors%s", rows, n, first))
	case classes > most:
		r.say("samples", RecheckDifferent, "", "", fmt.Sprintf("%d of %d samples have another class; between processors at most %d may%s", classes, n, most, first))
	default:
		r.say("samples", RecheckWithin, "", "", fmt.Sprintf("%d of %d samples have another class (bound: %d), %d another error in the first four digits", classes, n, most, rows))
	}
	number := func(what string, a, b *float64, bound float64) {
		switch {
		case a == nil && b == nil:
		case a == nil || b == nil:
			r.say(what, RecheckDifferent, workverify.NumberText(a), workverify.NumberText(b), "")
		case *a == *b:
			r.say(what, RecheckEqual, workverify.NumberText(a), "", "")
		case !same && math.Abs(*a-*b) <= bound:
			r.say(what, RecheckWithin, workverify.NumberText(a), workverify.NumberText(b), fmt.Sprintf("bound: %.3g", bound))
		default:
			r.say(what, RecheckDifferent, workverify.NumberText(a), workverify.NumberText(b), "")
		}
	}
	wide := 0.0
	if was.Score != nil {
		wide = boundNSR * math.Abs(*was.Score)
	}
	points := 1.0
	if was.Percent {
		wide, points = float64(most)/float64(max(n, 1)), 100 // what so many samples move a share by
	}
	number("score", was.Score, f.Score, wide)
	number("float score", was.Float, f.Float, wide)
	number("drop", was.Drop, f.Drop, 2*points*wide)
	number("error of the drop", was.DropError, f.DropError, 2*points*wide)
	a, b := flipsOf(was.Flips), flipsOf(f.Flips)
	number("flips", a, b, float64(2*most))
	if same && was.Headlines != nil && !slices.Equal(was.Headlines, f.Headlines) {
		r.say("headlines", RecheckDifferent, strings.Join(f.Headlines, "; "), strings.Join(was.Headlines, "; "), "")
	}
	number("NSR", &was.NSR, &f.NSR, boundNSR*was.NSR)
	if was.NSRError != nil {
		number("error of the NSR", was.NSRError, f.NSRError, 2*boundNSR*was.NSR)
	}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func flipsOf(n *int) *float64 {
	if n == nil {
		return nil
	}
	x := float64(*n)
	return &x
}

// verifications runs the integers again. What follows from the inputs by integers alone is the same on every machine.
func (r *recheck) verifications(ctx context.Context, run *compare.Contest) error {
	same := r.res.Arithmetic[0] == r.res.Arithmetic[1]
	for _, was := range r.c.Verifications {
		what := fmt.Sprintf("integers, profile %s, backend %s", was.Profile, was.Backend)
		profile, err := run.Planned[0].ProfileNamed(was.Profile)
		if err != nil {
			r.say(what, RecheckDifferent, "", "", fault.OneLine(err))
			continue
		}
		backend, err := r.Catalog.Present(was.Backend)
		note := ""
		if err != nil { // the digest is that of the reference, with which every backend agreed
			note = fmt.Sprintf("derived by the reference: %s", fault.OneLine(err))
			if backend, err = r.Catalog.Present("reference"); err != nil {
				r.say(what, RecheckSkipped, "", "", fault.OneLine(err))
				continue
			}
		}
		v, err := verifyFirst(ctx, run, profile, backend, was.Samples)
		if err != nil {
			return err
		}
		now := certified(v, was.Backend)
		r.digest(what, was.Digest, now.Digest, same, note)
		counts := func(c Certified) string {
			ties := ""
			if same {
				ties = fmt.Sprintf(", %d ties", c.Ties)
			}
			return fmt.Sprintf("%s: %d of %d different%s", c.Verdict, c.Different, c.Compared, ties)
		}
		if note != "" { // fewer comparisons
			counts = func(c Certified) string { return fmt.Sprintf("%d different", c.Different) }
		}
		if !same && was.Digest.BehindFloat > 0 {
			counts = func(c Certified) string { return fmt.Sprintf("%d of %d different", c.Different, c.Compared) }
		}
		r.same("verification, profile "+was.Profile+", backend "+was.Backend, counts(was), counts(now), "")
	}
	return nil
}

// digest compares integers.
func (r *recheck) digest(what string, was, now *analysis.Digest, same bool, note string) {
	if was == nil || now == nil {
		r.say(what, RecheckDifferent, "", "", "no digest")
		return
	}
	if was.Integers > 0 || now.Integers > 0 {
		verdict := RecheckEqual
		if was.SHA256 != now.SHA256 || was.Integers != now.Integers {
			verdict = RecheckDifferent
		}
		r.say(what, verdict, fmt.Sprintf("%d, %s", was.Integers, was.SHA256), fmt.Sprintf("%d, %s", now.Integers, now.SHA256), note)
	}
	switch {
	case was.BehindFloat == 0 && now.BehindFloat == 0:
	case was.BehindFloat == now.BehindFloat && was.BehindFloatSHA256 == now.BehindFloatSHA256:
		r.say(what+", behind float operators", RecheckEqual, fmt.Sprintf("%d, %s", was.BehindFloat, was.BehindFloatSHA256), "", note)
	case !same && was.BehindFloat == now.BehindFloat:
		r.say(what+", behind float operators", RecheckWithin, fmt.Sprintf("%d, %s", was.BehindFloat, was.BehindFloatSHA256), now.BehindFloatSHA256, "they hang on the last bits of floats")
	default:
		r.say(what+", behind float operators", RecheckDifferent, fmt.Sprintf("%d, %s", was.BehindFloat, was.BehindFloatSHA256), fmt.Sprintf("%d, %s", now.BehindFloat, now.BehindFloatSHA256), note)
	}
}

// exports makes exported files again.
func (r *recheck) exports(ctx context.Context, p *planning.Planned) error {
	for i := range r.c.Exports {
		f := &r.c.Exports[i]
		name := filepath.Base(filepath.FromSlash(f.Path))
		what := "export " + name + ", made again"
		k := slices.IndexFunc(r.Catalog.Formats, func(x export.Format) bool { return x.Name == f.Export && x.From != export.Checkpoint })
		switch {
		case f.Export == "":
			r.say(what, RecheckSkipped, f.SHA256, "", "no format gave it by its defaults")
			continue
		case k < 0:
			r.say(what, RecheckSkipped, f.SHA256, "", "this program has no format "+f.Export)
			continue
		}
		made, err := exportAgain(ctx, r.Job, p, &r.Catalog.Formats[k], name, cmp.Or(f.Verification, p.Plan.Verification), r.o.Threads)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			r.say(what, RecheckDifferent, f.SHA256, "", fault.OneLine(err))
		default:
			r.madeAgain(f, made)
		}
	}
	return nil
}

// madeAgain compares every file of an export with what was made again.
func (r *recheck) madeAgain(f *CertifiedFile, made []export.File) {
	for i, was := range f.files() {
		what := "export " + filepath.Base(filepath.FromSlash(was.Path)) + ", made again"
		switch {
		case i >= len(made):
			r.say(what, RecheckDifferent, was.SHA256, "", "this program writes no such file")
		case made[i].SHA256 != was.SHA256 && r.c.Tool.Version != r.Catalog.Version:
			r.say(what, RecheckSkipped, was.SHA256, made[i].SHA256, "the file names the version of qwb that wrote it")
		default:
			r.same(what, was.SHA256, made[i].SHA256, "")
		}
	}
	for _, m := range made[min(len(made), 1+len(f.Parts)):] {
		r.say("export "+m.Path+", made again", RecheckSkipped, "", m.SHA256, "the certificate does not have this file of the export: make it anew")
	}
}
