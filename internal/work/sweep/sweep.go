// Package sweep tries combinations of options of a calibration and takes the best.
package sweep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/internal/plain"
	"qwb/internal/work/calibrate"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/internal/work/search"
	"qwb/internal/work/store"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// Options are the arguments of sweep: what is tried in all combinations. An empty list is the default that it names.
type Options struct {
	Data          open.DataOptions // without paths only the samples that the statistics keep are looked at, and nothing is written
	Platforms     []string         // of the plan that is there; without one all of the catalog
	Observers     []tqc.Observer   // SweepObservers
	Granularities []string         // of weights, GranularityChannel and GranularityTensor: the first
	Dispatchers   []string         // the first of dispatch.Strategies
	// Formats are properties that hold for every operator that can have them, "weights=int4-sym-channel" or several separated by blanks;
	// FormatDefault, which is tried alone unless told otherwise, is the target's own.
	Formats []string
	Peers   bool   // also what other tools choose: observers.Peers
	Device  string // a device file to predict times by; empty: costs are work and bytes
	Fresh   bool   // replace a plan that has decisions
	Force   bool   // write a plan that too few samples chose
	Threads int
	Batch   int   // of calibration
	Memory  int64 // for activations and samples
}

// Granularities of weights that sweep tries.
const (
	GranularityChannel = "channel"
	GranularityTensor  = "tensor"
)

// FormatDefault are the formats that a target takes unless told otherwise.
const FormatDefault = "default"

// SweepObservers are the methods that a sweep tries unless told otherwise.
func SweepObservers() []tqc.Observer {
	return []tqc.Observer{tqc.ObserverMinMax, "percentile(0.999)", "percentile(0.9999)", "percentile(0.99999)", tqc.ObserverMSE, tqc.ObserverRobust, tqc.ObserverKL, tqc.ObserverAuto}
}

// Row is one plan that was tried.
type Row struct {
	Platform    string       `json:"platform"`
	Observer    tqc.Observer `json:"observer"`
	Granularity string       `json:"granularity"`
	Dispatcher  string       `json:"dispatcher"`
	Format      string       `json:"format"`
	// The centred NSR of the outputs on the held-out samples; of the output where it is largest.
	analysis.NSR
	*Answered
	// Integers are the integer outputs beside float ones: the NSR of each is the share of its elements that differ.
	Integers []analysis.SliceError `json:"integer_outputs,omitempty"`
	// Behind is by how much the NSR is larger than that of the plan chosen, over the same samples, and its standard error.
	Behind      float64  `json:"behind"`
	BehindError *float64 `json:"behind_error"`
	// Rank is from 1; rows with the same rank cannot be told apart from the best of them. See analysis.Rank.
	Rank    int            `json:"rank"`
	Cost    *analysis.Cost `json:"cost"`
	MACs    float64        `json:"macs_int8"`         // share of the multiply-accumulates that run on integers
	Bytes   int64          `json:"constant_bytes"`    // of all formats
	Default bool           `json:"default,omitempty"` // calibrate does this by itself on the platform
	Chosen  bool           `json:"chosen,omitempty"`
}

// Answered is how often a plan answers right, where samples have labels.
type Answered struct {
	Top1      int     `json:"top1"`
	Drop      float64 `json:"drop"` // against float, in percentage points of top-1, and its standard error from the pairs
	DropError float64 `json:"drop_error"`
	Flips     int     `json:"flips"`
}

// Skipped is a combination that there is no plan for.
type Skipped struct {
	Platform    string       `json:"platform"`
	Observer    tqc.Observer `json:"observer"`
	Granularity string       `json:"granularity"`
	Dispatcher  string       `json:"dispatcher"`
	Format      string       `json:"format"`
	Why         string       `json:"why"`
}

// Result is what sweep --json prints.
type Result struct {
	Rows    []Row     `json:"rows"` // the best first
	Skipped []Skipped `json:"skipped"`
	Plan    string    `json:"plan"`    // empty where none was written
	Command string    `json:"command"` // the qwb calibrate that gives the scales of the plan chosen
	Samples int       `json:"samples"`
	HeldOut int       `json:"held_out"`
	// HeldOutKind is what the samples that judge are worth: analysis.HeldOutUnseen, or "kept", a hint.
	HeldOutKind string `json:"held_out_kind"`
	// Mismatches says that no output is float: NSRs are shares of elements that differ.
	Mismatches  bool          `json:"mismatches,omitempty"`
	FloatTop1   *int          `json:"float_top1,omitempty"` // on the held-out samples
	Seconds     float64       `json:"seconds"`
	Calibration float64       `json:"calibration_seconds"` // what one calibration on all samples takes, from what it took here
	Warnings    []tqc.Warning `json:"warnings"`
}

// HeldOutKept says that plans were judged on the samples that statistics keep: their scales were fitted on these samples.
const HeldOutKept = "kept"

// Run tries combinations of options on one half of the samples, judges the plans on the other half, ranks them, and writes the best.
func Run(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	elapsed := j.Stopwatch()
	s, err := sweeping(j, o)
	if err != nil {
		return nil, err
	}
	defer s.Network.Close()
	if err := s.measureOn(ctx); err != nil {
		return nil, err
	}
	if err := s.try(ctx); err != nil {
		return nil, err
	}
	r := s.rank()
	if r.Seconds, err = elapsed(), s.write(ctx, r); err == nil {
		r.Seconds = elapsed()
	}
	r.Warnings = append([]tqc.Warning{}, j.Warnings...)
	return r, err
}

// Sweeping is one run of sweep.
type Sweeping struct {
	*open.Job
	Options   Options
	Network   *open.Model
	points    []Point
	Set       *data.Set    // nil: the kept samples judge
	Fit       *calib.Stats // of the samples that scales are fitted on
	evaluator *analysis.Evaluator
	r         *Result
	Config    calib.Config // how the model is observed on data
	labelled  bool
	halves    exec.Halves
	tried     []Point              // those that there are plans of
	answers   []*analysis.Accuracy // of them
	costs     []*analysis.Cost
	device    *analysis.Device
	chosen    *Point
}

// Calibration are the options of calibrate that are those of the sweep.
func (s *Sweeping) Calibration() calibrate.Options {
	return calibrate.Options{Data: s.Options.Data, Threads: s.Options.Threads, Batch: s.Options.Batch, Memory: s.Options.Memory}
}

// Point is one combination.
type Point struct {
	Platform    string // as it was named: a file, for one
	Target      *target.Target
	Observer    tqc.Observer
	Granularity string
	Dispatcher  string
	Format      string
}

// Decisions are those of the calibration, and then those about formats.
func (p *Point) Decisions() ([]decision.Decision, error) {
	more, err := p.formats()
	return append([]decision.Decision{planning.CalibrationDecision(p.Observer, p.Granularity == GranularityTensor, false), planning.DispatcherDecision(p.Target, p.Dispatcher, nil)}, more...), err
}

// formats are the decisions about formats: none for the target's own.
func (p *Point) formats() ([]decision.Decision, error) {
	if p.Format == FormatDefault {
		return nil, nil
	}
	properties, err := decision.ParseProperties(strings.Fields(p.Format))
	if err != nil {
		return nil, fault.UsageError{Err: err}
	}
	d := decision.Decision{By: decision.ByUser, Select: decision.Select{"*"}, Properties: properties}
	if err := d.Check(); err != nil {
		return nil, fault.UsageError{Err: err}
	}
	return []decision.Decision{d}, nil
}

// own reports whether this is what calibrate does by itself on the platform.
func (p *Point) own() bool {
	return *p == Point{p.Platform, p.Target, p.Target.Activation.Observer, GranularityChannel, planning.DispatcherDecision(p.Target, "", nil).Dispatcher, FormatDefault}
}

// sweeping checks the options and opens the model.
func sweeping(j *open.Job, o Options) (*Sweeping, error) {
	if err := planning.Nameable(j, append([]string{j.Model, o.Data.Preprocess}, o.Data.Paths...)...); err != nil {
		return nil, err
	}
	s := &Sweeping{Job: j, Options: o, r: &Result{Rows: []Row{}, Skipped: []Skipped{}}}
	if err := s.replaceable(); err != nil {
		return nil, err
	}
	if err := s.combine(); err != nil {
		return nil, err
	}
	var err error
	if s.Network, err = j.OpenNormal(j.Model); err != nil {
		return nil, err
	}
	if err := open.Unquantized(s.Network); err != nil {
		s.Network.Close()
		return nil, err
	}
	return s, nil
}

// replaceable refuses to lose what was decided about a plan that is there, and takes its platform.
func (s *Sweeping) replaceable() error {
	p, _, err := s.ReadPlan(s.Plan)
	if store.Missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(s.Options.Platforms) == 0 {
		s.Options.Platforms = []string{p.Platform}
	}
	if s.Options.Fresh || len(s.Options.Data.Paths) == 0 {
		return nil
	}
	n := 0
	for i, counts := range decision.InForce(p.Decisions) {
		if d := &p.Decisions[i]; counts && d.By != decision.ByCalibrate && !d.Default() {
			n++
		}
	}
	if n > 0 || p.Imported != nil {
		return fmt.Errorf("%s has %d decisions of its own, which the plan that a sweep writes has not: give that plan another name with -o, or replace this one with --fresh", s.Plan, n)
	}
	return nil
}

// SweepPlatforms are the targets that a sweep tries where neither it nor a plan names one: engines for ONNX files on common machines, and
// integers without multipliers. All there are would be too many.
var SweepPlatforms = []string{"trt_int8", "onnxruntime", "openvino_int8", "pow2_int8"}

// usual are SweepPlatforms as far as the catalog has them; of a catalog that has none of them, all.
func (s *Sweeping) usual() []string {
	all := s.Catalog.Targets().Names()
	list := slices.DeleteFunc(slices.Clone(SweepPlatforms), func(name string) bool { return !slices.Contains(all, name) })
	if len(list) == 0 {
		return all
	}
	return list
}

// combine lists the combinations.
func (s *Sweeping) combine() error {
	o := &s.Options
	if len(o.Platforms) == 0 {
		o.Platforms = s.usual()
	}
	if len(o.Observers) == 0 {
		o.Observers = SweepObservers()
	}
	if len(o.Granularities) == 0 {
		o.Granularities = []string{GranularityChannel}
	}
	if len(o.Dispatchers) == 0 {
		o.Dispatchers = []string{""}
	}
	if len(o.Formats) == 0 {
		o.Formats = []string{FormatDefault}
	}
	if o.Peers {
		for _, m := range observers.Peers() {
			o.Observers = append(o.Observers, m.Name)
		}
	}
	if o.Device != "" {
		var err error
		if s.device, err = search.OpenDevice(s.Files(), o.Device); err != nil {
			return err
		}
	}
	for _, platform := range o.Platforms {
		t, err := s.Target(platform)
		if err != nil {
			return err
		}
		for _, dispatcher := range o.Dispatchers {
			for _, granularity := range o.Granularities {
				if granularity != GranularityChannel && granularity != GranularityTensor {
					return fault.Usagef("unknown granularity %q: %s or %s", granularity, GranularityChannel, GranularityTensor)
				}
				for _, observer := range o.Observers {
					check := calibrate.Options{Observer: observer, Dispatcher: dispatcher}
					if err := check.Check(); err != nil {
						return err
					}
					if name, _, _ := observer.Split(); name.Own() && observers.Find(name, s.Catalog.Observers...) == nil {
						return fault.Usagef("unknown observer %q: it is not built into this program", observer)
					}
					for _, format := range o.Formats {
						p := Point{platform, t, observer, granularity, planning.DispatcherDecision(t, dispatcher, nil).Dispatcher, format}
						if _, err := p.formats(); err != nil {
							return err
						}
						if !slices.Contains(s.points, p) {
							s.points = append(s.points, p)
						}
					}
				}
			}
		}
	}
	return nil
}

// measureOn makes the statistics that scales come from, and runs the float graph on the samples that judge.
func (s *Sweeping) measureOn(ctx context.Context) error {
	if len(s.Options.Data.Paths) == 0 {
		return s.measureOnKept(ctx)
	}
	set, pre, err := s.OpenData(s.Network.Graph, s.Options.Data.Of(s.Network))
	if err != nil {
		return err
	}
	if s.labelled = s.Options.Data.Labels != "" || set.RequireLabels() == nil; s.labelled {
		if err := set.RequireLabels(); err != nil {
			return err
		}
	}
	if s.Config, err = calibrate.Config(s.Job, s.Network, &pre, s.Calibration()); err != nil {
		return err
	}
	s.Set, s.r.HeldOutKind, s.r.Samples = set, analysis.HeldOutUnseen, set.Len()
	elapsed := s.Stopwatch()
	if s.Fit, err = s.ObserveHalf(ctx, false); err != nil {
		return err
	}
	if n := s.Fit.Samples(); n == 0 || n == set.Len() {
		return fault.Checkf("sweep: of %d samples %d are held out to judge on, of which there must be some, but not all: give more samples", set.Len(), set.Len()-n)
	}
	s.r.HeldOut = set.Len() - s.Fit.Samples()
	s.r.Calibration = elapsed() * float64(set.Len()) / float64(s.Fit.Samples())
	parts, err := samples.Slices(s.Job, s.Options.Data.Slices, s.Network.Graph)
	if err != nil {
		return err
	}
	s.evaluator, err = analysis.NewEvaluator(ctx, s.Network.Graph, func() exec.Iterator { return s.Half(true) }, s.Options.Threads, s.Options.Memory, parts...)
	return s.Network.Named("sweep", err)
}

// measureOnKept takes the statistics that are there.
func (s *Sweeping) measureOnKept(ctx context.Context) error {
	var err error
	if s.Fit, err = planning.LoadStats(s.Job, s.StatsFile(), s.Network); store.Missing(err) {
		return fault.Usagef("sweep needs --data: there are no statistics of an earlier run either (%s)", s.StatsFile())
	} else if err != nil {
		return err
	}
	kept, err := (&planning.Derivation{Graph: s.Network.Graph, Stats: s.Fit}).KeptRuns(ctx, s.Options.Threads)
	if err != nil {
		return s.Network.Named("sweep", err)
	}
	s.evaluator, s.r.HeldOutKind, s.r.Samples, s.r.HeldOut = kept.Evaluator, HeldOutKept, s.Fit.Samples(), len(s.Fit.Kept())
	return nil
}

// ObserveHalf observes the model on the samples that are held out, or on the others.
func (s *Sweeping) ObserveHalf(ctx context.Context, heldOut bool) (*calib.Stats, error) {
	if err := s.halve(ctx); err != nil {
		return nil, s.Network.Named("sweep", err)
	}
	what := "sweep: calibrate on the samples to fit on"
	if heldOut {
		what = "sweep: calibrate on the held-out samples"
	}
	tick, finish := s.Progress(what, 0)
	defer finish()
	cfg := s.Config
	cfg.Progress = func(done, _ int) { tick(done) }
	stats, err := calib.Run(ctx, s.Network.Graph, s.Half(heldOut), cfg)
	return stats, s.Network.Named("sweep", err)
}

// halve reads all samples once, to rank them.
func (s *Sweeping) halve(ctx context.Context) error {
	if s.halves != nil {
		return nil
	}
	var hashes [][32]byte
	for it := s.Set.Iterator(); ; {
		x, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		hashes = append(hashes, x.Hash)
	}
	s.halves = exec.NewHalves(hashes)
	return nil
}

// Half is the samples that are held out, or the others, once ObserveHalf has ranked them.
func (s *Sweeping) Half(heldOut bool) exec.Iterator {
	return &samples.Part{Iterator: s.Set.Iterator(), N: s.Set.Len(), Ours: func(x *exec.Sample) bool { return s.halves[x.Hash] == heldOut }}
}

// try derives and simulates all combinations.
func (s *Sweeping) try(ctx context.Context) error {
	tick, finish := s.Progress("sweep: plans", len(s.points))
	defer finish()
	var shared sim.Constants
	var d *planning.Derivation
	var first error
	skip := func(p *Point, err error) {
		first = cmp.Or(first, err)
		s.r.Skipped = append(s.r.Skipped, Skipped{p.Target.Name, p.Observer, p.Granularity, p.Dispatcher, p.Format, err.Error()})
	}
	for i, p := range s.points {
		if d == nil || d.Target != p.Target {
			d = &planning.Derivation{Graph: s.Network.Graph, Target: p.Target, Stats: s.Fit, Own: s.Catalog.Observers, Threads: s.Options.Threads}
		}
		list, err := p.Decisions()
		if err != nil {
			return err
		}
		out, err := d.Derive(ctx, list)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			skip(&p, err)
			continue
		}
		cost, err := analysis.CostOf(out.Graph, out.Set, s.device)
		if err != nil {
			return err
		}
		q, err := d.Simulator(out, &shared)
		if err != nil {
			return err
		}
		var a *analysis.Accuracy
		if s.labelled {
			a, err = s.evaluator.Accuracy(ctx, q)
		} else {
			a, err = s.evaluator.Judged(ctx, q)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if names := q.Infinite(); err != nil && planning.NotFinite(err) || err == nil && len(names) > 0 && !planning.Infinite(s.Fit, names) {
			err = s.notFinite(ctx, d, &p, list, out, q, err)
		}
		if err != nil {
			skip(&p, err)
			tick(i + 1)
			continue
		}
		s.tried, s.answers, s.costs = append(s.tried, p), append(s.answers, a), append(s.costs, &cost)
		tick(i + 1)
	}
	if len(s.tried) == 0 {
		return fmt.Errorf("sweep: none of %d combinations gives a plan; the first: %w", len(s.points), first)
	}
	return nil
}

// notFinite says of a combination that met numbers which are none, and failed with err or went on, what makes them, and how its plan is mended. It returns
// err where nothing is found.
func (s *Sweeping) notFinite(ctx context.Context, d *planning.Derivation, p *Point, list []decision.Decision, out *planning.Derived, q *sim.Simulator, err error) error {
	it := exec.Iterator(&exec.InMemory{Samples: planning.KeptSamples(s.Fit)})
	if s.Set != nil {
		it = s.Half(true)
	}
	taken, failed := samples.First(ctx, it, planning.LookAt)
	if failed != nil {
		return err
	}
	x := &planning.Search{Graph: out.Graph, Target: p.Target, Reference: cmp.Or(d.Reference, d.Graph), Samples: taken}
	x.With = func(selector string) (*tqc.Set, *sim.Simulator, error) {
		more := decision.Decision{By: decision.ByUser, Select: decision.Select{selector}, Properties: decision.Properties{Domain: decision.FP32}}
		out, err := d.Derive(ctx, append(slices.Clip(list), more))
		if err != nil {
			return nil, nil, err
		}
		q, err := d.Simulator(out, nil)
		return out.Set, q, err
	}
	f, selector, failed := x.Find(ctx, out.Set, q)
	if failed != nil || f == nil {
		return err
	}
	if selector != "" {
		f.Cure = p.command(s.Model, s.Plan, s.flags()) + " && qwb set " + plain.Shell(s.Plan, selector, "domain=fp32")
	}
	return fault.CheckError{Err: &fault.NotFiniteError{Found: f, Err: err}}
}

// rank fills the result's rows, the best first.
func (s *Sweeping) rank() *Result {
	candidates := make([]analysis.Candidate, len(s.tried))
	for i, a := range s.answers {
		candidates[i].Losses, candidates[i].Tie = a.Losses.PerSample(), s.costs[i].Work()
		if s.device != nil {
			candidates[i].Tie = *s.costs[i].Seconds
		}
		for _, x := range a.Answers {
			wrong := 0.0
			if x.Class != x.Label {
				wrong = 1
			}
			candidates[i].Wrong = append(candidates[i].Wrong, wrong)
		}
	}
	places, best := analysis.Rank(candidates)
	for i, p := range s.tried {
		row := Row{Platform: p.Target.Name, Observer: p.Observer, Granularity: p.Granularity, Dispatcher: p.Dispatcher, Format: p.Format, Cost: s.costs[i],
			NSR: analysis.NewNSR(s.answers[i].Losses.Estimate()), Rank: places[i].Rank, Behind: places[i].Behind.Mean,
			BehindError: analysis.NewSpread(places[i].Behind).NSRError, Chosen: i == best,
			Default: p.own(), MACs: s.costs[i].Integer(), Bytes: s.costs[i].TotalBytes()}
		if noise := s.answers[i].Noise; noise != nil {
			row.Integers = analysis.Mismatches(noise.Slices)
		}
		if a := s.answers[i]; s.labelled {
			row.Answered = &Answered{a.Top1, a.Drop, a.DropError, a.Flips}
			s.r.FloatTop1 = &a.FloatTop1
		}
		s.r.Rows = append(s.r.Rows, row)
	}
	s.chosen, s.r.Mismatches = &s.tried[best], s.evaluator.Mismatches()
	s.r.Command = s.chosen.command(s.Model, s.Plan, s.flags())
	first := s.r.Rows[best]
	slices.SortStableFunc(s.r.Rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.NSR.NSR, b.NSR.NSR)) })
	at := slices.IndexFunc(s.r.Rows, func(r Row) bool { return r.Chosen })
	copy(s.r.Rows[1:at+1], s.r.Rows[:at])
	s.r.Rows[0] = first
	return s.r
}

// flags are what calibrate has to be told to see the same samples and to write the same plan.
func (s *Sweeping) flags() []string {
	var words []string
	for _, path := range s.Options.Data.Paths {
		words = append(words, "--data", path)
	}
	if s.Options.Data.Preprocess != "" {
		words = append(words, "--preprocess", s.Options.Data.Preprocess)
	}
	if s.Options.Data.Samples > 0 {
		words = append(words, "--samples", fmt.Sprint(s.Options.Data.Samples))
		if s.Options.Data.Seed != 0 {
			words = append(words, "--seed", fmt.Sprint(s.Options.Data.Seed))
		}
	}
	if plan := strings.TrimSuffix(filepath.Base(s.Model), filepath.Ext(s.Model)) + store.PlanSuffix; s.Plan != plan {
		words = append(words, "-o", s.Plan)
	}
	return words
}

// command is the calibration that decides what the combination does.
func (p *Point) command(model, plan string, flags []string) string {
	words := []string{"qwb calibrate", plain.Shell(append([]string{model}, flags...)...), "--platform", plain.Shell(p.Platform), "--observer", plain.Shell(string(p.Observer))}
	if p.Granularity == GranularityTensor {
		words = append(words, "--per-tensor")
	}
	if p.Dispatcher != planning.DispatcherDecision(p.Target, "", nil).Dispatcher {
		words = append(words, "--dispatcher", p.Dispatcher)
	}
	if p.Format != FormatDefault {
		words = append(words, "&& qwb set", plain.Shell(append([]string{plan, "*"}, strings.Fields(p.Format)...)...))
	}
	return strings.Join(words, " ")
}

// Evidence is what a calibration was chosen on, as the plan keeps it: the plan was calibrated on the samples that are not held out, and
// its error is that on the others. The scales that the plan holds come from both.
type Evidence struct {
	Sweep       int    `json:"sweep"` // how many plans were tried
	Samples     int    `json:"samples"`
	HeldOut     int    `json:"held_out"`
	HeldOutKind string `json:"held_out_kind"`
	analysis.NSR
	*Answered
	Confirmed bool `json:"confirmed"` // there were enough held-out samples
}

// write writes the plan chosen, calibrated on all samples, unless only kept samples judged it.
func (s *Sweeping) write(ctx context.Context, r *Result) error {
	if s.Set == nil {
		return nil
	}
	confirmed := r.HeldOut >= analysis.MinHeldOut
	if !confirmed && !s.Options.Force {
		return fault.Checkf("sweep: %d held-out samples are too few to choose a plan by: give about %d samples, so that at least %d are held out; --force writes the plan all the same", r.HeldOut, 2*analysis.MinHeldOut+8, analysis.MinHeldOut)
	}
	evidence, err := json.Marshal(Evidence{Sweep: len(r.Rows), Samples: r.Samples, HeldOut: r.HeldOut, HeldOutKind: r.HeldOutKind, NSR: r.Rows[0].NSR, Answered: r.Rows[0].Answered, Confirmed: confirmed})
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	held, err := s.ObserveHalf(ctx, true)
	if err != nil {
		return err
	}
	all, _, err := calib.Merge(s.Fit, held)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	p, o := s.chosen, s.Calibration()
	o.Fresh = true
	more, err := p.formats()
	if err != nil {
		return err
	}
	o.Platform, o.Observer, o.PerTensor, o.Dispatcher = p.Platform, p.Observer, p.Granularity == GranularityTensor, p.Dispatcher
	if _, _, err := calibrate.With(ctx, s.Job, o, calibrate.Given{Stats: all, Evidence: evidence, More: more}, nil); err != nil {
		return err
	}
	r.Plan = s.Plan
	return nil
}

// Figures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var Figures = journal.WithSearch(func(r *Result) json.RawMessage {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Chosen })
	if i < 0 {
		return journal.Object(struct {
			Rows int `json:"rows"`
		}{len(r.Rows)})
	}
	return journal.Picked[Row]("platform observer granularity rank nsr nsr_error top1 drop drop_error")(&r.Rows[i])
}, (*Result).Search)

// Search is what the sweep found, as pages show it.
func (r *Result) Search() *reports.Search {
	s := &reports.Search{Command: "sweep", Metric: analysis.ErrorName(r.Mismatches), Cost: "bytes"}
	for i := range r.Rows {
		x := &r.Rows[i]
		p := reports.SearchPoint{Label: fmt.Sprintf("%s, %s, per %s", x.Platform, x.Observer, x.Granularity), Metric: x.NSR.NSR, Error: x.NSRError, Chosen: x.Chosen, Tied: x.Rank == r.Rows[0].Rank}
		if x.Format != FormatDefault && x.Format != "" {
			p.Label += ", " + x.Format
		}
		if x.Cost != nil {
			p.Cost = float64(x.Cost.TotalBytes())
		}
		p.Pareto = true
		for k := range r.Rows {
			if y := &r.Rows[k]; y.Cost != nil && float64(y.Cost.TotalBytes()) <= p.Cost && y.NSR.NSR < p.Metric {
				p.Pareto = false
			}
		}
		s.Points = append(s.Points, p)
	}
	return s
}
