package analysis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/analysis/assign"
)

// Unit is what a search moves between formats as one piece, as rankings show it.
type Unit struct {
	Name   string
	MACs   int64
	Error  float64 // the layerwise error, which ranks units, with its standard error
	Spread Estimate
}

// Placement is what a choice of formats amounts to before any sample is run.
type Placement struct {
	Cost    float64 // what the search makes small
	MACs    int64   // work in float, as the dispatcher left it (at least that of the units)
	Borders int     // tensors that cross between INT8 and float
	// Chosen has the option that each unit gets in the end: a unit may be taken along by others.
	Chosen []int
	// Barred says that it is not to be tried: nothing is quantized, so that nothing is lost and nothing won, or it costs too much work.
	Barred bool
	// Formats says how many units have which option, where there are others than float; else nil.
	Formats map[string]int
}

// Trial is what was measured of a choice.
type Trial struct {
	// Loss is the quantity whose parts the units' errors are; of several Parts the largest.
	Loss float64
	// Parts are the losses by output and part, as the units' errors are; nil: Loss is the only one.
	Parts []float64
	// Amounts say by how much each sample is worse than in float, in the budget's terms, larger is worse; one list for each output. Of steps
	// of sequences they are those of Blocks.
	Amounts [][]float64
	Samples int // that Amounts tell of
}

// parts are the losses by part.
func (t *Trial) parts() []float64 {
	if t.Parts == nil {
		return []float64{t.Loss}
	}
	return t.Parts
}

// Point is one choice that a search evaluated.
type Point struct {
	FP32    []string `json:"fp32"`      // the units that are not as they were
	MACs    int64    `json:"macs_fp32"` // work in float
	Borders int      `json:"borders"`   // tensors that cross between INT8 and float
	Metric  float64  `json:"metric"`    // on the fitting samples
	Error   *float64 `json:"error"`     // its standard error
	Met     bool     `json:"met"`       // its mean meets the budget on the fitting samples: no claim
	Pareto  bool     `json:"pareto"`    // no other point has less work in float, fewer borders and a smaller error
	// Formats and Cost are of a search in several formats: how many units have which one, and what it makes small.
	Formats map[string]int `json:"formats,omitempty"`
	Cost    float64        `json:"cost,omitempty"`
	Choice  []int          `json:"-"`
	Trial   *Trial         `json:"-"`
}

// SearchConfig asks for the cheapest choice of one option for each unit that meets a goal.
type SearchConfig struct {
	// Units have as the first option what they are; the errors of options are in the terms of Trial.Loss.
	Units []assign.Unit
	// Place derives a choice without running a sample; it is cheap. Evaluate runs the fitting samples.
	Place    func(ctx context.Context, choice []int) (*Placement, error)
	Evaluate func(ctx context.Context, choice []int) (*Trial, error)
	Start    *Trial // of the first options on the fitting samples
	Goal     Goal
	// Bounded says that placements may be barred because they cost too much work: the search then begins with the most that is allowed.
	Bounded bool
	// MaxEvaluations bounds the search, 0 for DefaultEvaluations.
	MaxEvaluations int
	// Metric turns an amount into the figure that people know, for Points; nil: it is that.
	Metric func(amount float64) float64
}

// DefaultEvaluations is how many choices a search evaluates at most.
const DefaultEvaluations = 8

// SearchResult is the outcome of a search. The first of Points is the start.
type SearchResult struct {
	Points []Point
	// Candidates are the points that may hold on other samples, the one with most margin first, each cheaper than the one before. Empty: none
	// but float everywhere does.
	Candidates []int
	// Surest is the point whose limit on other samples is expected to be the lowest, the start excepted, whether it meets the goal or not; -1
	// where nothing else was measured.
	Surest int
}

// margins are how many standard errors of a difference between fitting and held-out samples a candidate is to have to spare: by chance it
// is missed with 5 %, 20 %, 50 % and 80 %: where a surer one is confirmed, trying one that is not costs nothing but the run.
var margins = []float64{1.645, 0.842, 0, -0.842}

const (
	usual = 1 // the margin that the search aims at, unless even samples of which none is worse than in float would miss it
	even  = 2 // the least margin that it aims at
)

// spares are by which factors the loss of candidates to fall back on is smaller, where none can have the first margin.
var spares = []float64{16, 4}

// Search looks for the cheapest choice that meets the goal with a margin.
//
// The loss of a choice is predicted, for each output and part, as the sum of its options' errors, corrected by all that was measured so
// far; the largest of the sums counts. assign.MinCost gives the cheapest choice below a bound on the loss, and the bound is moved until the
// choice meets the goal. Then choices that cost less and are predicted to lose least are tried as long as one may meet it. Only the bound
// is fitted to the metric, so that chance in a few samples has little to choose from. Deterministic.
// When ctx ends it returns what was found so far with the error.
func Search(ctx context.Context, cfg SearchConfig) (*SearchResult, error) {
	s := &searcher{cfg: cfg, seen: map[string]int{}, limit: cfg.MaxEvaluations, model: newModel(cfg.Units, cfg.Start.parts()),
		failing: math.Inf(1)}
	if s.limit == 0 {
		s.limit = DefaultEvaluations
	}
	if s.cfg.Metric == nil {
		s.cfg.Metric = func(x float64) float64 { return x }
	}
	for s.aim = usual; s.aim < even && !s.possible(s.aim); s.aim++ {
	}
	err := s.run(ctx)
	if errors.Is(err, errSpent) {
		err = nil
	}
	markPareto(s.points, s.cfg.Metric(1) < s.cfg.Metric(0))
	return &SearchResult{Points: s.points, Candidates: s.candidates(), Surest: s.surest()}, err
}

type searcher struct {
	cfg     SearchConfig
	model   *model
	points  []Point
	seen    map[string]int // by what the units get in the end
	limit   int            // of points, the start excepted
	failing float64        // the smallest loss that does not meet the goal
	outside float64        // what placements cost beside the units
	off     []float64      // by how much predictions were wrong, relative to them
	aim     int            // the margin aimed at
}

// errSpent ends the search when the evaluations are used up; what was found stands.
var errSpent = errors.New("evaluations used up")

func (s *searcher) run(ctx context.Context) error {
	as := make([]int, len(s.cfg.Units))
	place, err := s.cfg.Place(ctx, as)
	if err != nil {
		return err
	}
	s.outside = place.Cost - s.sum(as)
	s.add(as, place, s.cfg.Start)
	if len(as) == 0 || place.Barred {
		return nil
	}
	if s.cfg.Bounded {
		if err := s.dearest(ctx); err != nil {
			return err
		}
	}
	if err := s.narrow(ctx, s.aim, s.limit/2); err != nil {
		return err
	}
	if err := s.fallBack(ctx); err != nil {
		return err
	}
	return s.improve(ctx)
}

// add remembers what was measured.
func (s *searcher) add(choice []int, place *Placement, t *Trial) int {
	plain, _ := s.cfg.Goal.Estimates(t)
	p := Point{FP32: []string{}, MACs: place.MACs, Borders: place.Borders, Metric: s.cfg.Metric(plain.Mean), Error: figure(plain.Error),
		Met: plain.Mean <= s.cfg.Goal.Limit, Choice: slices.Clone(choice), Cost: place.Cost, Formats: place.Formats, Trial: t}
	for i, k := range choice {
		if k > 0 {
			p.FP32 = append(p.FP32, s.cfg.Units[i].Name)
		}
	}
	if expected := s.model.predict(place.Chosen); len(s.points) > 0 && expected > 0 {
		s.off = append(s.off, math.Abs(t.Loss-expected)/expected)
	}
	s.model.observe(place.Chosen, t.parts())
	s.seen[fmt.Sprint(place.Chosen)] = len(s.points)
	s.points = append(s.points, p)
	if !s.meets(len(s.points)-1, s.aim) {
		s.failing = min(s.failing, t.Loss)
	}
	return len(s.points) - 1
}

// meets reports whether a point meets the goal with a margin.
func (s *searcher) meets(point, margin int) bool {
	return s.cfg.Goal.expected(s.points[point].Trial, margins[margin]) <= s.cfg.Goal.Limit
}

// possible reports whether a trial that shows no loss at all would have a margin.
func (s *searcher) possible(margin int) bool {
	none := &Trial{}
	for _, list := range s.cfg.Start.Amounts {
		none.Amounts = append(none.Amounts, make([]float64, len(list)))
	}
	return s.cfg.Goal.expected(none, margins[margin]) <= s.cfg.Goal.Limit
}

// dearest tries the choice that is predicted to lose least of those that are not barred, by bisection of a bound on the cost.
func (s *searcher) dearest(ctx context.Context) error {
	const steps = 24
	lo, hi := s.sum(make([]int, len(s.cfg.Units))), 0.0
	for _, u := range s.model.units() {
		most := 0.0
		for _, o := range u.Options {
			most = max(most, o.Cost)
		}
		hi += most
	}
	var best []int
	var where *Placement
	for range steps {
		next, err := assign.MinError(ctx, s.model.units(), (lo+hi)/2)
		if err != nil {
			return err
		}
		place, err := s.cfg.Place(ctx, next.Choice)
		if err != nil {
			return err
		}
		if place.Barred {
			hi = min(next.Cost, (lo+hi)/2)
			continue
		}
		lo, best, where = (lo+hi)/2, next.Choice, place
	}
	if best == nil {
		return nil
	}
	_, err := s.try(ctx, best, where)
	return err
}

// fallBack looks for a candidate that is surer than the one aimed at: with the first margin, or else with a fraction of its loss.
func (s *searcher) fallBack(ctx context.Context) error {
	if s.possible(0) {
		if err := s.narrow(ctx, 0, 3); err != nil || s.cheapest(0) >= 0 {
			return err
		}
	}
	best := s.cheapest(s.aim)
	if best < 0 || s.cfg.Goal.Held == 0 {
		return nil
	}
	for _, factor := range spares {
		choice, err := assign.MinCost(ctx, s.model.units(), s.points[best].Trial.Loss/factor)
		if errors.Is(err, assign.ErrBound) {
			continue
		}
		if err != nil {
			return err
		}
		place, err := s.cfg.Place(ctx, choice.Choice)
		if err != nil {
			return err
		}
		if place.Barred {
			continue
		}
		if _, err := s.try(ctx, choice.Choice, place); err != nil {
			return err
		}
	}
	return nil
}

// try evaluates a placed choice once.
func (s *searcher) try(ctx context.Context, choice []int, place *Placement) (point int, err error) {
	if i, ok := s.seen[fmt.Sprint(place.Chosen)]; ok {
		return i, nil
	}
	if len(s.points) > s.limit {
		return 0, errSpent
	}
	t, err := s.cfg.Evaluate(ctx, choice)
	if err != nil {
		return 0, err
	}
	return s.add(choice, place, t), nil
}

// narrow moves the bound on the loss between what meets the goal with a margin and what does not, by so many evaluations. Float meets it;
// the start does not, or else what is cheapest may not.
func (s *searcher) narrow(ctx context.Context, margin, evaluations int) error {
	const closest, most = 1.1, 24
	lo, hi := 0.0, s.cfg.Start.Loss
	last := 0
	if s.meets(0, margin) {
		cheapest, err := assign.MinCost(ctx, s.model.units(), math.Inf(1))
		if err != nil || !slices.ContainsFunc(cheapest.Choice, func(k int) bool { return k > 0 }) {
			return err
		}
		hi = max(cheapest.Error, lo) * (1 + 1e-9)
	}
	for i := range s.points { // what is known from another margin
		if loss := s.points[i].Trial.Loss; i > 0 && !s.meets(i, margin) && loss < hi {
			last, hi = i, loss
		}
	}
	for i := range s.points {
		if loss := s.points[i].Trial.Loss; s.meets(i, margin) && loss < hi {
			lo = max(lo, loss)
		}
	}
	before := len(s.points)
	for range most {
		next := s.bound(last, margin, lo, hi)
		if len(s.points) >= before+evaluations || !(hi > closest*lo) || !(next > 1e-6*s.cfg.Start.Loss) {
			return nil
		}
		choice, err := assign.MinCost(ctx, s.model.units(), next)
		if errors.Is(err, assign.ErrBound) {
			return nil
		}
		if err != nil {
			return err
		}
		place, err := s.cfg.Place(ctx, choice.Choice)
		if err != nil {
			return err
		}
		if place.Barred {
			lo = next
			continue
		}
		point, err := s.try(ctx, choice.Choice, place)
		if err != nil {
			return err
		}
		if last = point; s.meets(point, margin) {
			lo = next
		} else {
			hi = next
		}
	}
	return nil
}

// bound is the next bound on the loss to try: what the last point needs if its level is proportional to the loss, kept inside the bracket.
func (s *searcher) bound(last, margin int, lo, hi float64) float64 {
	low := max(lo, hi/16)
	t := s.points[last].Trial
	guess := t.Loss * s.cfg.Goal.Limit / s.cfg.Goal.expected(t, margins[margin])
	switch {
	case (lo == 0 || last == 0) && guess > low && guess < hi/1.05:
		return guess
	case last == 0 && lo > 0 && guess >= hi: // the cheapest may do
		return hi
	}
	return math.Sqrt(low * hi)
}

// improve tries what costs less than the cheapest point that meets the goal, first what is predicted to lose least.
func (s *searcher) improve(ctx context.Context) error {
	for {
		best := s.cheapest(s.aim)
		if best < 0 {
			return nil
		}
		choice, place, err := s.below(ctx, &s.points[best])
		if err != nil || choice == nil {
			return err
		}
		if _, err = s.try(ctx, choice, place); err != nil {
			return err
		}
	}
}

const (
	solutions = 16  // of less and less cost that are placed in search of a better point
	neighbors = 200 // of the best point that are
)

// below returns a choice that costs less than a point, was not evaluated, and of all that were looked at is predicted to lose least; nil
// where all are predicted not to meet the goal by more than predictions are wrong. Costs need not add up:
// what units cost together is known only when they are placed.
func (s *searcher) below(ctx context.Context, than *Point) (choice []int, place *Placement, err error) {
	least := s.failing * (1 + NewEstimate(s.off).Mean)
	look := func(c []int) error {
		p, err := s.cfg.Place(ctx, c)
		if err != nil {
			return err
		}
		if _, known := s.seen[fmt.Sprint(p.Chosen)]; known || p.Cost >= than.Cost || p.Barred {
			return nil
		}
		if x := s.model.predict(p.Chosen); x < least {
			choice, place, least = slices.Clone(c), p, x
		}
		return nil
	}
	bound := than.Cost - s.outside
	for range solutions {
		sol, err := assign.MinError(ctx, s.model.units(), bound-math.Abs(bound)*1e-9)
		if errors.Is(err, assign.ErrBound) {
			break
		}
		if err == nil {
			err = look(sol.Choice)
		}
		if err != nil {
			return nil, nil, err
		}
		if sol.Error >= least { // the next ones lose more
			break
		}
		bound = sol.Cost
	}
	return choice, place, s.moves(than.Choice, look)
}

// moves shows look the neighbours of a choice: one unit in one of its options that costs less, then also another unit in one that costs
// more than it did, but not more than the first one saves.
func (s *searcher) moves(from []int, look func([]int) error) error {
	units, left := s.model.units(), neighbors
	show := func(c []int) error {
		if left--; left < 0 {
			return nil
		}
		return look(c)
	}
	next := slices.Clone(from)
	each := func(i int, most float64, f func() error) error { // every other option of unit i that costs less than most
		for k, o := range units[i].Options {
			if k == from[i] || o.Cost >= most {
				continue
			}
			next[i] = k
			if err := f(); err != nil {
				return err
			}
		}
		next[i] = from[i]
		return nil
	}
	cost := func(i int) float64 { return units[i].Options[next[i]].Cost }
	for i := range from {
		if err := each(i, cost(i), func() error { return show(next) }); err != nil {
			return err
		}
	}
	for i, k := range from {
		err := each(i, cost(i), func() error {
			saved := units[i].Options[k].Cost - cost(i)
			for v := range from {
				if v == i {
					continue
				}
				now := cost(v)
				if err := each(v, now+saved, func() error {
					if cost(v) <= now {
						return nil
					}
					return show(next)
				}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cheapest is the cheapest point that meets the goal with a margin, the start excepted; -1 where none does.
func (s *searcher) cheapest(margin int) int {
	best := -1
	for i := 1; i < len(s.points); i++ {
		if s.meets(i, margin) && (best < 0 || cheaper(&s.points[i], &s.points[best])) {
			best = i
		}
	}
	return best
}

// surest is the point whose limit is expected to be the lowest, the start excepted; -1 where there is none.
func (s *searcher) surest() int {
	best, least := -1, math.Inf(1)
	for i := 1; i < len(s.points); i++ {
		if level := s.cfg.Goal.expected(s.points[i].Trial, 0); level < least {
			best, least = i, level
		}
	}
	return best
}

// candidates lists the cheapest points of each margin; where none has the first, the point that is likeliest to hold comes before them, as
// long as its mean meets the goal: held-out samples may confirm it, or say how many of them would.
func (s *searcher) candidates() (list []int) {
	add := func(i int) {
		if n := len(list); n == 0 || s.points[i].Cost < s.points[list[n-1]].Cost {
			list = append(list, i)
		}
	}
	if i := s.surest(); i >= 0 && s.points[i].Met && s.cheapest(0) < 0 {
		add(i)
	}
	for m := range margins {
		if i := s.cheapest(m); i >= 0 && (m <= even || len(list) > 0 || s.cfg.Bounded) {
			add(i)
		}
	}
	return list
}

// cheaper prefers less cost, then fewer borders, then fewer units, then less loss.
func cheaper(a, b *Point) bool {
	switch {
	case a.Cost != b.Cost:
		return a.Cost < b.Cost
	case a.Borders != b.Borders:
		return a.Borders < b.Borders
	case len(a.FP32) != len(b.FP32):
		return len(a.FP32) < len(b.FP32)
	}
	return a.Trial.Loss < b.Trial.Loss
}

// markPareto marks the points no other point beats in work, borders and error at once.
func markPareto(points []Point, descending bool) {
	worse := func(a, b float64) bool {
		if descending {
			return a < b
		}
		return a > b
	}
	for i := range points {
		p := &points[i]
		p.Pareto = !slices.ContainsFunc(points, func(o Point) bool {
			noWorse := o.MACs <= p.MACs && o.Borders <= p.Borders && !worse(o.Metric, p.Metric)
			return noWorse && (o.MACs < p.MACs || o.Borders < p.Borders || worse(p.Metric, o.Metric))
		})
	}
}
