package search

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"qwb/analysis"
	"qwb/analysis/assign"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/sim"
)

// Found is what a search found and what it may claim.
type Found struct {
	Goal struct {
		Metric string  `json:"metric"`
		Budget float64 `json:"budget"`
	} `json:"goal"`
	Samples int                    `json:"samples"`  // in all
	Fit     *analysis.BudgetFigure `json:"fit"`      // of what was found, on the samples that it was found on; null where nothing was fitted
	HeldOut *analysis.BudgetFigure `json:"held_out"` // on the samples that confirm; of a plan that stays as it is all samples
	// Crossed says that each half was judged by what was found on the other one: HeldOut is of all samples.
	Crossed bool `json:"cross_validated,omitempty"`
	// Claimed says that the budget holds: the upper limit on the held-out samples meets it.
	Claimed bool `json:"claimed"`
	// Needed is how many samples in all would decide, as far as anybody can say; 0: unknown.
	Needed  int    `json:"needed"`
	Refused string `json:"refused"` // why nothing is claimed; empty if something is
	// Along are operators that go to float though nothing asked for it: the target runs them on integers only together with others.
	Along []string `json:"along"`
	// Integers says what running the integers adds to what the simulation says; null where nothing can run them.
	Integers *analysis.IntegersAdded `json:"integers"`
	Apply    string                  `json:"apply,omitempty"` // the command that decides what was found, where the plan was not changed
	Formats  []string                `json:"formats"`
	Seconds  float64                 `json:"seconds"`

	Stopped bool `json:"interrupted"`
	// Ranking has the operators as layerwise analysis of some fitting samples found them, in graph order.
	Ranking []analysis.LayerError `json:"layerwise,omitempty"`
	// Units has, of a search in several formats, what each part of the network makes of the outputs when it alone has a format.
	Units  []UnitErrors           `json:"units,omitempty"`
	Search *analysis.SearchResult `json:"-"`
	Budget *Budget                `json:"-"`
	Limit  func() string          `json:"-"` // says what the cost may be, where the budget is on that; else nil
}

// searcher connects analysis.Search with the graph, its statistics and the data.
type searcher struct {
	*planning.Change
	base    []decision.Decision // what holds whatever is tried
	o       Options
	budget  *Budget
	goal    analysis.Goal
	start   *planning.Derived
	formats []numberFormat // nil: float32
	units   []assign.Unit
	mix     *Mixture
	places  map[string]*placed
	asIs    bool    // the plan as it is holds
	most    float64 // what the plan may cost, where that is the budget
	room    float64 // the work that a choice may have; 0: any
	barred  *bool   // a choice had more

	samples   []*exec.Sample // nil: too many to keep
	set       *data.Set
	halves    exec.Halves
	fit, held *sampleSide
	shared    *sim.Constants
	closing   func() // of the metric
	count     int    // evaluations
	tick      func(int)
}

// search looks for the operators to send to float, or to other formats, under the plan's decisions and those of this step, and returns the
// decisions about them, none if none is needed. What was measured is put into the result. Where nothing can be claimed the error is a
// fault.CheckError.
func search(ctx context.Context, c *planning.Change, o Options, step []decision.Decision, result *Result) ([]decision.Decision, error) {
	formats, err := ParseFormats(o.Formats)
	if err == nil {
		err = o.Costing.open(c.Files(), o.DeviceFile)
	}
	if err != nil {
		return nil, err
	}
	base := *c.Planned.Plan
	base.Decide(step...)
	if err := decision.CheckList(base.Decisions); err != nil {
		return nil, err
	}
	start, err := c.Derive(ctx, &base)
	if err != nil {
		return nil, err
	}
	budget := Budget{Name: "nsr", At: math.Inf(1)}
	if o.Budget != nil {
		budget = *o.Budget
	}
	s := &searcher{Change: c, base: base.Decisions, o: o, budget: &budget, start: start, formats: formats, places: map[string]*placed{},
		shared: new(sim.Constants), barred: new(bool), closing: func() {}}
	elapsed := c.Stopwatch()
	found := &Found{Along: []string{}, Formats: []string{"int8"}, Budget: s.budget}
	for _, f := range s.asked() {
		if f.name != "int8" {
			found.Formats = append(found.Formats, f.name)
		}
	}
	err = s.read(ctx)
	defer s.closing()
	if err != nil {
		return nil, err
	}
	found.Goal.Metric, found.Goal.Budget = budget.metricName(), budget.At
	if o.MaxCost != nil {
		if s.most = o.MaxCost.At; o.MaxCost.Share {
			cost, err := analysis.CostOf(start.Graph, start.Set, c.Derivation.Target, o.Costing.Device)
			if err != nil {
				return nil, err
			}
			s.most *= o.Costing.Of(cost, c.Derivation.Target)
		}
		found.Goal.Metric, found.Goal.Budget, found.Limit = o.Costing.name(), s.most, s.limited
	}
	if err := s.allow(); err != nil {
		return nil, err
	}
	result.Found = found
	tick, finish := c.Progress("search (evaluations)", 0)
	s.tick = tick
	choice, err := s.run(ctx, found, result)
	finish()
	found.Units = s.unitErrors()
	found.Stopped = err != nil && ctx.Err() != nil
	result.Evaluations, found.Seconds = s.count, elapsed()
	if found.Search != nil {
		result.Points = found.Search.Points
	}
	out, perr := s.placed(ctx, choice)
	if perr == nil {
		result.Cost, perr = s.costs(out)
	}
	if err = cmp.Or(err, perr); err != nil || len(out.decisions) == 0 {
		return nil, err
	}
	return s.evident(out.decisions, step, found, result)
}

// evident gives decisions what they were found on, and says in the result what they are. They come after step.
func (s *searcher) evident(list, step []decision.Decision, found *Found, result *Result) ([]decision.Decision, error) {
	evidence := planning.SearchEvidence{Samples: found.Samples, Fit: found.Fit, HeldOut: found.HeldOut, Confirmed: found.Claimed,
		Evaluations: result.Evaluations, Before: result.Before, After: result.After, Cost: nil}
	if s.mixed() {
		evidence.Cost = result.Cost
	}
	for i := range list {
		if s.mixed() {
			result.Decisions = append(result.Decisions, list[i].String())
		}
	}
	raw, err := json.Marshal(evidence)
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	inputs, err := s.Planned.Plan.Inputs()
	if err != nil {
		return nil, err
	}
	next := append(s.Planned.Plan.Decisions[:len(s.Planned.Plan.Decisions):len(s.Planned.Plan.Decisions)], step...)
	for i := range list {
		d := &list[i]
		d.Evidence = raw
		if d.After, err = decision.After(append(next, *d), len(next), inputs); err != nil {
			return nil, err
		}
		next = append(next, *d)
	}
	return list, nil
}

// run searches, and returns a choice; nil where the plan may stay as it is.
func (s *searcher) run(ctx context.Context, found *Found, result *Result) ([]int, error) {
	samples, held := s.pieces(s.fit)+s.pieces(s.held), s.pieces(s.held)
	found.Samples = len(s.fit.hashes) + len(s.held.hashes)
	refuse := func(why string, needed int) error {
		found.Refused, found.Needed = why, needed
		return fault.Checkf("dispatch: the budget is not confirmed: %s; the plan is unchanged", why)
	}
	if len(s.fit.hashes) == 0 { // one sample repeated: the side hangs on its hash
		return nil, refuse(fmt.Sprintf("all %d samples are held out, and none is left to fit on; give samples that differ", found.Samples), 0)
	}
	crossed := s.crossed()
	if crossed {
		held = samples
	}
	why, needed := s.budget.tooFew(s.goal, s.piece(), samples, held, s.o.MaxCost == nil)
	needed = s.inSamples(needed)
	if why != "" && !s.o.Force {
		return nil, refuse(why+" (--force decides without)", needed)
	}
	s.Note("the search measures the plan on %s; if it has to go on, it ranks the operators one by one on half of them "+
		"and tries at most %d sets", plain.Count(found.Samples, "sample"), analysis.DefaultEvaluations)
	sides := []*sampleSide{s.fit}
	if len(s.held.hashes) > 0 {
		sides = append(sides, s.held)
	}
	var asIs []half
	for _, h := range sides {
		var err error
		if err = s.prepare(ctx, h); err == nil {
			h.start, err = s.measure(ctx, h, s.start)
		}
		if err != nil {
			return nil, err
		}
		asIs = append(asIs, h.start)
	}
	s.evaluated()
	all := s.budget.trial(asIs...)
	first := analysis.Attempt(0)
	whole := s.shown(all, first, append(slices.Clone(s.fit.hashes), s.held.hashes...))
	result.Before, result.After = whole.Value, whole.Value
	if s.o.MaxCost != nil {
		return s.cheapEnough(ctx, found, result, why, needed)
	}
	rest := analysis.ClaimRisk // for what is found
	if why == "" && !s.goal.Missed(s.budget.trial(s.fit.start)) {
		if s.goal.Upper(all, first) <= s.goal.Limit {
			found.HeldOut, found.Claimed, s.asIs = whole, true, true
		}
		rest -= first
	}
	if plain, _ := s.goal.Estimates(all); why != "" && plain.Mean <= s.goal.Limit {
		found.Fit, found.Refused, found.Needed, s.asIs = whole, why, needed, true
	}
	if s.asIs && !s.mixed() {
		return nil, s.asIntegers(ctx, found)
	}
	if s.goal.Held = 0; why == "" {
		s.goal.Held, s.goal.Risk = held, rest
		if best := s.goal.Best(held, rest); s.budget.Name == "drop" && best > s.goal.Limit {
			if found.HeldOut = whole; s.asIs {
				return nil, s.asIntegers(ctx, found)
			}
			return nil, refuse(fmt.Sprintf("as it is the plan has %s on all %s, and the %d held-out ones cannot confirm that fewer "+
				"operators in INT8 do better", a(s.budget.shown(whole)), plain.Count(samples, s.piece()), held), s.needed(all, 1))
		}
	}
	if crossed {
		s.goal.Spread = analysis.CrossedError
		return s.takeTurns(ctx, found, result, refuse)
	}
	return s.choose(ctx, found, result, why, needed, refuse)
}

// choose searches on the fitting samples and confirms on the others.
func (s *searcher) choose(ctx context.Context, found *Found, result *Result, why string, needed int,
	refuse func(string, int) error) ([]int, error) {
	var err error
	if found.Ranking, err = s.rank(ctx); err != nil {
		return nil, err
	}
	found.Search, err = s.searched(ctx)
	if err != nil {
		if ctx.Err() != nil && found.Search != nil && len(found.Search.Candidates) > 0 {
			p := &found.Search.Points[found.Search.Candidates[0]]
			found.Fit, found.Apply = s.shown(p.Trial, 0, nil), s.apply(p.Choice)
		}
		return nil, err
	}
	points := found.Search.Points
	list := slices.DeleteFunc(found.Search.Candidates, func(i int) bool { return s.asIs && points[i].Cost >= points[0].Cost })
	switch {
	case len(list) == 0 && s.asIs:
		return nil, s.asIntegers(ctx, found)
	case len(list) == 0:
		return nil, refuse(s.unmet(), 0)
	}
	if why != "" { // forced
		best := &points[list[len(list)-1]]
		found.Fit, found.Refused, found.Needed = s.shown(best.Trial, 0, nil), why, needed
		result.After = found.Fit.Value
		return best.Choice, s.companions(ctx, best.Choice, found)
	}
	asIs := *found
	found.Claimed = false
	// From the most certain to the cheapest, as long as each is confirmed: this takes the risk once (fixed sequence of tests).
	var missed *analysis.Trial
	var confirmed half
	last := -1
	for _, i := range list {
		t, h, err := s.trial(ctx, s.held, points[i].Choice)
		if err != nil {
			return nil, err
		}
		holds := s.goal.Upper(t, s.goal.Risk) <= s.goal.Limit
		if holds || last < 0 {
			found.Fit, found.HeldOut = s.shown(points[i].Trial, 0, nil), s.shown(t, s.goal.Risk, s.held.hashes)
			result.Before, result.After = s.shown(s.budget.trial(s.held.start), 0, nil).Value, found.HeldOut.Value
			last, missed, confirmed = i, t, h
		}
		if !holds {
			break
		}
		found.Claimed, found.Apply = true, s.apply(points[i].Choice) // for as long as it is not decided
	}
	if !found.Claimed && s.asIs {
		*found = asIs
		result.After = result.Before
		return nil, s.asIntegers(ctx, found)
	}
	return s.concluded(ctx, found, points[last].Choice, missed, confirmed, refuse)
}

// searched looks for sets on the fitting samples.
func (s *searcher) searched(ctx context.Context) (*analysis.SearchResult, error) {
	return analysis.Search(ctx, analysis.SearchConfig{Units: s.units, Place: s.place, Start: s.budget.trial(s.fit.start), Goal: s.goal,
		Metric: s.budget.figure, Bounded: s.room > 0,
		Evaluate: func(ctx context.Context, choice []int) (*analysis.Trial, error) {
			t, _, err := s.trial(ctx, s.fit, choice)
			return t, err
		}})
}

// unsupported says of the best set found why it is not claimed.
func (s *searcher) unsupported(found *Found) string {
	if found.Crossed {
		return fmt.Sprintf("the best set found has %s, where each half of %d samples is judged by what was found on the other one, "+
			"which does not support %s", a(s.budget.shown(found.HeldOut)), found.HeldOut.Samples, a(s.budget.said()))
	}
	return fmt.Sprintf("the best set found has %s on %d fitting samples and %s on %d held-out ones, which does not support %s",
		a(s.budget.shown(found.Fit)), found.Fit.Samples, a(s.budget.shown(found.HeldOut)), found.HeldOut.Samples, a(s.budget.said()))
}

func (s *searcher) evaluated() {
	s.count++
	s.tick(s.count)
}

// needed is how many samples in all would show that a trial's mean is below the limit, of which one in so many confirms; or all of them
// where the halves take turns. 0: no number would.
func (s *searcher) needed(t *analysis.Trial, parts int) int {
	goal := s.goal
	least := func() int {
		return leastSamples(func(n int) bool { return goal.Expect(t, n, analysis.Attempt(0)) <= goal.Limit })
	}
	if plain, _ := goal.Estimates(t); !(plain.Mean < goal.Limit) {
		return 0
	}
	n := least()
	if goal.Spread = 0; s.crossed() && n >= analysis.CrossedBelow {
		n = max(2*least(), analysis.CrossedBelow)
	} else if !s.crossed() {
		n = parts * least()
	}
	return rounded(s.inSamples(n))
}

// inSamples is how many samples so many pieces of evidence are.
func (s *searcher) inSamples(pieces int) int {
	return pieces * (len(s.fit.hashes) + len(s.held.hashes)) / max(s.pieces(s.fit)+s.pieces(s.held), 1)
}

// shown is a trial as results have it. hashes are those of held-out samples.
func (s *searcher) shown(t *analysis.Trial, risk float64, hashes [][32]byte) *analysis.BudgetFigure {
	plain, _ := s.goal.Estimates(t)
	f := &analysis.BudgetFigure{Samples: t.Samples, Value: s.budget.figure(plain.Mean), Error: analysis.NewSpread(plain).NSRError}
	if risk > 0 {
		if upper := s.budget.figure(s.goal.Upper(t, risk)); !math.IsInf(upper, 0) && !math.IsNaN(upper) {
			f.Upper = &upper
		}
		f.Kind = analysis.HeldOutKind(hashes, s.seen())
	}
	return f
}

// trial measures a choice on a side.
func (s *searcher) trial(ctx context.Context, h *sampleSide, choice []int) (*analysis.Trial, half, error) {
	out, err := s.placed(ctx, choice)
	if err != nil {
		return nil, half{}, err
	}
	x, err := s.measure(ctx, h, out.Derived)
	if err != nil {
		return nil, half{}, err
	}
	s.evaluated()
	return s.budget.trial(x), x, nil
}

// asIntegers runs the plan as it is as integers, where it is confirmed.
func (s *searcher) asIntegers(ctx context.Context, found *Found) error {
	if !found.Claimed {
		return nil
	}
	return s.integers(ctx, nil, s.held.start, found)
}
