package certify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/analysis"
	"qwb/internal/kind"
	"qwb/internal/plain"
	"qwb/internal/work/compare"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
	workverify "qwb/internal/work/verify"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// GateOptions are the arguments of gate.
type GateOptions struct {
	// A is what is held against the limits: a certificate, or what compare takes. B is the baseline; without one it is float.
	A, B string
	// Limits; nil for none. MaxDrop is how much worse A may score than the baseline: percentage points of a share. MaxFlips is how many
	// percent of the samples may have another class than by the baseline. MaxNSR is on the error of A against float.
	MaxDrop, MaxNSR, MaxFlips *float64
	Slice                     string // the part of an output that MaxNSR is on; empty: the worst
	Strict                    bool   // nothing above a limit passes
	Verified                  bool   // the integers of A have to be verified as an export asks: what is noted otherwise fails
	// Run is how runs are made; its Runs and Layers do not count. Without data those of a certificate are taken, else the first plan's.
	Run compare.Options
}

// gated is what a gate knows of one side.
type gated struct {
	figures  CertifiedFigures
	parts    []analysis.SliceError // of the outputs
	rows     []gatedRow
	hash     string // of the samples
	steps    bool   // they are steps of sequences, each behind the one before it
	verdicts []gatedVerdict
}

// gatedVerdict is that of a verification: what it is of, and, where it is weaker than an export asks, why.
type gatedVerdict struct{ of, verdict, says, lacks string }

func Gate(ctx context.Context, j *open.Job, o GateOptions) (*analysis.GateReport, error) {
	elapsed := j.Stopwatch()
	if o.MaxDrop == nil && o.MaxNSR == nil && o.MaxFlips == nil {
		return nil, fault.Usagef("gate needs a limit: --max-drop, --max-nsr or --max-flips")
	}
	for _, limit := range []struct {
		name string
		x    *float64
	}{{"max-drop", o.MaxDrop}, {"max-nsr", o.MaxNSR}, {"max-flips", o.MaxFlips}} {
		if limit.x != nil && math.IsNaN(*limit.x) {
			return nil, fault.Usagef("--%s NaN: not a number", limit.name)
		}
	}
	if o.Slice != "" && o.MaxNSR == nil {
		return nil, fault.Usagef("--slice needs --max-nsr: it is that limit that it narrows down")
	}
	g := &gateRun{Job: j, o: o, res: &analysis.GateReport{A: o.A, B: o.B, Strict: o.Strict, Paired: true, Checks: []analysis.GateCheck{}}}
	err := g.measure(ctx)
	found := planning.Located(ctx, j, err, o.Run.Data, o.Run.Threads)
	switch {
	case errors.As(found, new(*fault.NotFiniteError)):
		g.res.Checks = append(g.res.Checks, analysis.GateCheck{Check: "finite numbers", Verdict: analysis.GateFailed, Note: found.Error()})
	case err != nil:
		return nil, err
	}
	if err == nil {
		err = g.limits()
	}
	if err != nil && found == nil {
		return nil, err
	}
	g.res.Held = true
	var missed []string
	for _, c := range g.res.Checks {
		if c.Verdict == analysis.GateFailed {
			g.res.Held = false
			missed = append(missed, c.Check+": "+c.Note)
		}
	}
	g.res.Seconds = elapsed()
	if !g.res.Held {
		return g.res, fault.Checkf("gate: %s: %s", o.A, strings.Join(missed, "; "))
	}
	return g.res, nil
}

type gateRun struct {
	*open.Job
	o    GateOptions
	res  *analysis.GateReport
	a, b *gated // b is nil where the baseline is float
	drop *analysis.Estimate
}

// isCertificate reports whether a file is one, in any form.
func isCertificate(j *open.Job, name string) bool {
	if strings.HasSuffix(name, store.PlanSuffix) || j.Check(name, "a certificate", kind.JSON) != nil {
		return false // a model need not be read to know that
	}
	b, err := store.ReadFile(j.Files(), name, maxCertificate)
	if err != nil {
		return false
	}
	_, err = unwrap(name, b)
	return !errors.Is(err, errOther)
}

// measure reads certificates and runs the rest.
func (g *gateRun) measure(ctx context.Context) error {
	var runs []string
	sides := []**gated{&g.a, &g.b}
	for i, name := range []string{g.o.A, g.o.B} {
		switch {
		case name == "":
		case isCertificate(g.Job, name):
			c, err := readCertificate(g.Job, name)
			if errors.Is(err, errSeal) || errors.Is(err, errSubjects) {
				return fault.Checkf("gate: %s: %v", name, err)
			} else if err != nil {
				return err
			}
			if *sides[i], err = gatedBy(name, c); err != nil {
				return err
			}
			if len(g.o.Run.Data.Paths) == 0 {
				g.o.Run.Data = dataOfCertificate(name, c, g.o.Run.Data)
			}
		default:
			if _, err := fs.Stat(g.Files(), name); err != nil {
				return err
			}
			runs = append(runs, name)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	o := g.o.Run
	o.Runs, o.Layers, o.Slice = runs, 0, g.o.Slice
	c, err := compare.Open(g.Job, o)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Run(ctx)
	if err != nil {
		return err
	}
	n := 0
	for i, name := range []string{g.o.A, g.o.B} {
		if name == "" || *sides[i] != nil {
			continue
		}
		if *sides[i], err = gatedRun(c, r, n); err != nil {
			return err
		}
		n++
	}
	if n == 2 && c.Metric != nil { // whatever the metric is, the two were measured together
		e := r.Blocks.Estimate(analysis.Drops(r.All[1], r.All[0], c.Metric, c.Scorer))
		g.drop = &e
	}
	return nil
}

// dataOfCertificate are the samples that a certificate is about, with the labels and the metric of o where it has them.
func dataOfCertificate(name string, c *Certificate, o open.DataOptions) open.DataOptions {
	d := c.data(func(path string) string { return resolved(name, path) })
	o.Paths, o.Samples, o.Seed, o.Stored, o.LabelOffset = d.Paths, d.Samples, d.Seed, d.Stored, d.LabelOffset
	o.Labels, o.Metric.Alphabet = cmp.Or(o.Labels, d.Labels), cmp.Or(o.Metric.Alphabet, d.Metric.Alphabet)
	if len(o.Metric.Names) == 0 {
		o.Metric.Names = d.Metric.Names
	}
	return o
}

// gatedBy is a side that a certificate tells of.
func gatedBy(name string, c *Certificate) (*gated, error) {
	s := &gated{figures: c.Figures, parts: c.Figures.errors(), hash: c.Data.Hash, steps: len(c.Data.Preprocess.States) > 0}
	for i, line := range c.Samples {
		f := strings.Fields(line)
		if len(f) != 5 {
			return nil, fmt.Errorf("%s: sample %d: %q is no row of a certificate", name, i+1, line)
		}
		row := gatedRow{hash: f[0]}
		for k, to := range []*int{&row.label, &row.float, &row.class} {
			x, err := strconv.Atoi(f[1+k])
			if err != nil {
				return nil, fmt.Errorf("%s: sample %d: %w", name, i+1, err)
			}
			*to = x
		}
		var err error
		if row.loss, err = strconv.ParseFloat(f[4], 64); err != nil {
			return nil, fmt.Errorf("%s: sample %d: %w", name, i+1, err)
		}
		s.rows = append(s.rows, row)
	}
	for _, v := range c.Verifications {
		one := gatedVerdict{of: integersOf(&v), verdict: v.Verdict,
			says: "on " + plain.Count(v.Samples, "sample")}
		if need := min(samples.VerifySamples, c.Figures.Samples); v.Samples < need && analysis.Holds(v.Verdict) {
			one.verdict, one.lacks = analysis.VerdictUnverified, fmt.Sprintf("it is on %s, not %d", plain.Count(v.Samples, "sample"), need)
		}
		s.verdicts = append(s.verdicts, one)
	}
	return s, nil
}

// gatedRun is a side that was run.
func gatedRun(c *compare.Contest, r *analysis.Runs, k int) (*gated, error) {
	one := &analysis.Runs{Names: r.Names[k : k+1], Samples: r.Samples, Blocks: r.Blocks, Centred: r.Centred, Mismatches: r.Mismatches,
		Float: r.Float[k : k+1], All: r.All[k : k+1]}
	s := &gated{figures: figuresOf(c, one), hash: plan.DataHash(samples.Hashes(r)), steps: c.Set.Steps()}
	s.parts = one.All[0].Slices
	for i, sample := range r.Samples {
		s.rows = append(s.rows, gatedRow{sampleName(sample), sample.Label, r.Float[k].Classes[i], r.All[k].Classes[i],
			r.All[k].Losses[i]})
	}
	p := c.Planned[k]
	if p == nil || p.Plan.Verification == nil && !slices.Contains(p.Set.Domains, tqc.DomainInt) {
		return s, nil
	}
	held, err := heldVerdict(p)
	if err == nil {
		s.verdicts = append(s.verdicts, held)
	}
	return s, err
}

// heldVerdict is the check of what a plan says of its integers. One that says nothing is as one whose verification is too weak.
func heldVerdict(p *planning.Planned) (gatedVerdict, error) {
	v := p.Plan.Verification
	if v == nil {
		profile, err := p.ProfileNamed("")
		return gatedVerdict{of: "integers, profile " + profile.Name, verdict: analysis.VerdictUnverified}, err
	}
	verdict, lacks, err := workverify.HeldVerdict(p)
	return gatedVerdict{"integers, profile " + v.Profile, verdict, "on " + workverify.ByWhom(p, v), lacks}, err
}

// limits holds what was measured against the limits.
func (g *gateRun) limits() error {
	a, f := g.a, &g.a.figures
	g.res.Samples, g.res.Metric, g.res.Headlines = f.Samples, f.Metric, f.Headlines
	unit := ""
	if f.Percent {
		unit = "pp"
	}
	if g.o.MaxDrop != nil {
		e, err := g.drops()
		if err != nil {
			return err
		}
		name := "drop of " + f.Metric
		if f.Agreement {
			name += " (agreement with float)"
		}
		size := 0.0
		if f.Metric == "top1" || f.Agreement {
			size = 100 // an answer is right or wrong
		}
		g.add(analysis.Gate(name, e, size, *g.o.MaxDrop, unit, g.o.Strict), "")
	}
	if g.o.MaxNSR != nil {
		if err := g.errors(f, g.a.parts); err != nil {
			return err
		}
	}
	if g.o.MaxFlips != nil {
		flips, err := g.flips()
		if err != nil {
			return err
		}
		g.add(analysis.Gate("classes that changed", g.a.blocks().Estimate(flips), 100, *g.o.MaxFlips, "%", g.o.Strict), "")
	}
	for _, v := range a.verdicts {
		c := analysis.GateCheck{Check: v.of, Verdict: analysis.GatePassed, Note: v.verdict + " " + v.says}
		switch {
		case v.verdict == analysis.VerdictUnverified || v.verdict == analysis.VerdictNothing:
			c.Verdict, c.Note = analysis.GateNoted, v.verdict+"; qwb verify does it"
		case !analysis.Holds(v.verdict):
			c.Verdict, c.Note = analysis.GateFailed, v.verdict
		}
		if v.lacks != "" {
			c.Note = fmt.Sprintf("not verified as an export asks: the verification does not stand: %s; qwb verify does it", v.lacks)
		}
		if g.o.Verified && c.Verdict == analysis.GateNoted {
			c.Verdict = analysis.GateFailed
		}
		g.res.Checks = append(g.res.Checks, c)
	}
	if g.o.Verified && len(a.verdicts) == 0 {
		g.res.Checks = append(g.res.Checks, analysis.GateCheck{Check: "integers", Verdict: analysis.GateFailed,
			Note: "nothing says that they were verified; of a plan qwb verify does it"})
	}
	return nil
}

// errors holds the error against its limit: that of the slice asked for, else of the worst; and names other slices that have no signal
// left.
func (g *gateRun) errors(f *CertifiedFigures, parts []analysis.SliceError) error {
	n := g.a.blocks().Count(f.Samples)
	e, name := analysis.Estimate{Mean: f.NSR, Error: errorOf(f.NSRError), N: n}, f.Worst
	if g.o.Slice != "" {
		at := slices.IndexFunc(parts, func(s analysis.SliceError) bool { return s.Name == g.o.Slice })
		if at < 0 {
			return fault.Usagef("--slice %s: %s has no figures of it", g.o.Slice, g.o.A)
		}
		e, name = analysis.Estimate{Mean: parts[at].NSR, Error: errorOf(parts[at].NSRError), N: n}, g.o.Slice
		if parts[at].Finding == analysis.SignalNone {
			g.res.Checks = append(g.res.Checks, analysis.GateCheck{Check: "NSR of " + name, Verdict: analysis.GateNoted, Note: analysis.SignalNone})
			return nil
		}
	}
	check := analysis.ErrorName(f.Mismatches)
	if name != "" {
		check += " of " + name
	}
	g.add(analysis.Gate(check, e, 0, *g.o.MaxNSR, "", g.o.Strict), "")
	if last := lastSteps(g.a.rows); g.a.steps && g.o.Slice == "" {
		at := analysis.Gate(check+" at last steps", analysis.NewEstimate(last), 0, *g.o.MaxNSR, "", g.o.Strict)
		g.add(at, "of "+plain.Count(len(last), "sequence"))
	}
	for _, group := range analysis.Found(parts, analysis.SignalLost) {
		if g.o.Slice == "" || slices.Contains(group.Names, g.o.Slice) {
			g.res.Checks = append(g.res.Checks, analysis.GateCheck{Check: "signal of " + group.Name(), Verdict: analysis.GateFailed,
				Note: group.Text()})
		}
	}
	return nil
}

func (g *gateRun) add(c analysis.GateCheck, note string) {
	if !g.res.Paired && strings.HasPrefix(c.Check, "drop") {
		note = "the two were measured on other samples: not paired"
	}
	if note != "" {
		c.Note = strings.TrimPrefix(c.Note+"; "+note, "; ")
	}
	g.res.Checks = append(g.res.Checks, c)
}

func errorOf(x *float64) float64 {
	if x == nil {
		return math.Inf(1)
	}
	return *x
}

// drops is how much worse A scores than the baseline.
func (g *gateRun) drops() (analysis.Estimate, error) {
	f := &g.a.figures
	if f.Drop == nil {
		return analysis.Estimate{}, fault.Usagef("--max-drop: nothing scores %s: it has no labels and no row of classes; name a --metric, "+
			"or limit --max-nsr", g.o.A)
	}
	own := analysis.Estimate{Mean: *f.Drop, Error: errorOf(f.DropError), N: g.a.blocks().Count(f.Samples)}
	switch {
	case g.drop != nil:
		return *g.drop, nil
	case g.b == nil:
		return own, nil
	}
	b := &g.b.figures
	switch {
	case b.Drop == nil || b.Metric != f.Metric || b.Agreement != f.Agreement:
		return own, fault.Usagef("--max-drop: %s is scored by %s and %s by %s: name a --metric and --labels that both have", g.o.A, scoredBy(f),
			g.o.B, scoredBy(b))
	case f.Metric == "top1" && g.a.hash == g.b.hash:
		rows, _ := byKey(g.b.rows)
		_, keys := byKey(g.a.rows)
		var d []float64
		for i := range g.a.rows {
			a, b := &g.a.rows[i], rows[keys[i]]
			if b == nil {
				return own, fault.Usagef("--max-drop: %s and %s were scored on other labels of the same samples", g.o.A, g.o.B)
			}
			d = append(d, hit(b.class, b.right())-hit(a.class, a.right()))
		}
		return g.a.blocks().Estimate(d), nil
	}
	g.res.Paired = false
	other := analysis.Estimate{Mean: *b.Drop, Error: errorOf(b.DropError), N: g.b.blocks().Count(b.Samples)}
	return analysis.Estimate{Mean: own.Mean - other.Mean, Error: math.Hypot(own.Error, other.Error), N: min(own.N, other.N)}, nil
}

// hit is 100 for a right class: the difference of two is in percentage points.
func hit(class, right int) float64 {
	if class == right {
		return 100
	}
	return 0
}

func scoredBy(f *CertifiedFigures) string {
	switch {
	case f.Metric == "":
		return "nothing"
	case f.Agreement:
		return f.Metric + " against float"
	}
	return f.Metric
}

// flips is 100 for each sample to which A gives another class than the baseline.
func (g *gateRun) flips() ([]float64, error) {
	before := map[sampleKey]*gatedRow{}
	if g.b != nil {
		if g.a.hash != g.b.hash {
			return nil, fault.Usagef("--max-flips: %s and %s were measured on other samples", g.o.A, g.o.B)
		}
		before, _ = byKey(unlabelled(g.b.rows))
	}
	_, keys := byKey(unlabelled(g.a.rows))
	var list []float64
	for i := range g.a.rows {
		r := &g.a.rows[i]
		was := r.float
		if b := before[keys[i]]; g.b != nil && b != nil {
			was = b.class
		}
		if was < 0 || r.class < 0 {
			return nil, fault.Usagef("--max-flips: the first output of %s is no row of classes", g.o.A)
		}
		list = append(list, 100-hit(r.class, was))
	}
	return list, nil
}

// GateFigures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var GateFigures = journal.Picked[analysis.GateReport]("a b held strict samples metric")
