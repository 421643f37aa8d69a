package certify

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/internal/plain"
	"qwb/internal/work/compare"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
	workverify "qwb/internal/work/verify"
	"qwb/quantizer/plan"
)

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
		if recorded == sampleName(s) {
			continue
		}
		if n++; n == 1 {
			first = s.Name
		}
	}
	if n > 0 {
		r.say("data", RecheckDifferent, r.c.Data.Hash, hash, fmt.Sprintf("%d of %d samples are others, the first is %s", n,
			len(runs.Samples), first))
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
		r.say("samples", RecheckEqual, plain.Count(n, "sample"), "", "")
	case same:
		r.say("samples", RecheckDifferent, "", "", fmt.Sprintf("%d of %d samples give other classes or errors%s", rows, n, first))
	case classes > most:
		r.say("samples", RecheckDifferent, "", "", fmt.Sprintf("%d of %d samples have another class; between processors at most %d may%s",
			classes, n, most, first))
	default:
		r.say("samples", RecheckWithin, "", "", fmt.Sprintf("%d of %d samples have another class (bound: %d), "+
			"%d another error in the first four digits", classes, n, most, rows))
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
		what := integersOf(&was)
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
		r.say(what+", behind float operators", RecheckWithin, fmt.Sprintf("%d, %s", was.BehindFloat, was.BehindFloatSHA256),
			now.BehindFloatSHA256, "they hang on the last bits of floats")
	default:
		r.say(what+", behind float operators", RecheckDifferent, fmt.Sprintf("%d, %s", was.BehindFloat, was.BehindFloatSHA256),
			fmt.Sprintf("%d, %s", now.BehindFloat, now.BehindFloatSHA256), note)
	}
}
