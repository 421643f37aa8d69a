package sweep

import (
	"fmt"
	"slices"
	"strings"

	"qwb/internal/plain"
	"qwb/internal/work/calibrate"
	"qwb/internal/work/fault"
	"qwb/internal/work/planning"
	"qwb/internal/work/search"
	"qwb/internal/work/store"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// FormatDefault are the formats that a target takes unless told otherwise.
const FormatDefault = "default"

// SweepObservers are the methods that a sweep tries unless told otherwise.
func SweepObservers() []tqc.Observer {
	return []tqc.Observer{tqc.ObserverMinMax, "percentile(0.999)", "percentile(0.9999)", "percentile(0.99999)", tqc.ObserverMSE,
		tqc.ObserverRobust, tqc.ObserverKL, tqc.ObserverAuto}
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
	return append([]decision.Decision{planning.CalibrationDecision(p.Observer, p.Granularity == GranularityTensor, false),
		planning.DispatcherDecision(p.Target, p.Dispatcher, nil)}, more...), err
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
	return *p == Point{p.Platform, p.Target, p.Target.Activation.Observer, GranularityChannel,
		planning.DispatcherDecision(p.Target, "", nil).Dispatcher, FormatDefault}
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
	if s.Options.Beside {
		was, own := s.Plan, *s.Project
		own.Plan, own.Stats, s.Options.Beside = strings.TrimSuffix(was, store.PlanSuffix)+".sweep"+store.PlanSuffix, "", false
		s.Project = &own
		s.Note("%s stays as it is: the plan of the sweep is %s", was, s.Plan)
		return s.replaceable()
	}
	n := 0
	for i, counts := range decision.InForce(p.Decisions) {
		if d := &p.Decisions[i]; counts && d.By != decision.ByCalibrate && !d.Default() {
			n++
		}
	}
	if n > 0 || p.Imported != nil {
		return fmt.Errorf("%s has %d decisions of its own, which the plan that a sweep writes has not: give that plan another name with -o, "+
			"or replace this one with --fresh", s.Plan, n)
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

// command is the calibration that decides what the combination does.
func (p *Point) command(model, plan string, flags []string) string {
	words := []string{"qwb calibrate", plain.Shell(append([]string{model}, flags...)...), "--platform", plain.Shell(p.Platform), "--observer",
		plain.Shell(string(p.Observer))}
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
