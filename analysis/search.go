package analysis

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrBudget is returned by Search when not even the whole graph in float meets the budget.
var ErrBudget = errors.New("the budget cannot be met")

// Unit is what Search moves between INT8 and float as one piece: an operator with what must stay with it.
type Unit struct {
	Name  string  // of the operator
	MACs  int64   // work that leaves INT8 with it
	Error float64 // the layerwise error, which ranks units
}

// Point is one set of units in float that Search evaluated.
type Point struct {
	FP32    []string `json:"fp32"`
	MACs    int64    `json:"macs_fp32"` // work in float, as the dispatcher left it (at least that of the units)
	Borders int      `json:"borders"`   // tensors that cross between INT8 and float
	Metric  float64  `json:"metric"`
	Met     bool     `json:"met"`
	Pareto  bool     `json:"pareto"` // no other point has less work in float, fewer borders and a smaller error
}

// SearchConfig asks for the smallest set of units in float that meets a budget.
type SearchConfig struct {
	Units []Unit
	// Evaluate dispatches the units listed (indices into Units, ascending) to float and measures: the metric, the MACs that then
	// run in float and the number of borders.
	Evaluate func(ctx context.Context, fp32 []int) (metric float64, macs int64, borders int, err error)
	// Met says whether a metric meets the budget. Larger metrics are worse unless Descending.
	Met        func(metric float64) bool
	Descending bool // larger metrics are better (cosine)
	// MaxEvaluations bounds the search, 0 for 8 per unit plus 32. The best set found by then is returned.
	MaxEvaluations int
}

// SearchResult is the outcome of Search. Before has nothing in float; After is the best set that meets the budget, with FP32 its
// units, or where none does all units in float.
type SearchResult struct {
	FP32          []int
	Before, After Point
	Ranking       []int   // units by error, largest first
	Points        []Point // everything evaluated, in order of evaluation
}

// Search looks for the set with the fewest MACs in float, then the fewest borders, that meets the budget.
//
// Three orders of the units (error per MAC, error, MACs) each give a smallest sufficient prefix by bisection; it is pruned by taking
// back units one by one, largest first, and improved by exchanging one unit for a cheaper one, or two that are, until so many exchanges
// as half of the units and 16 more have not helped.
// Deterministic. It returns ErrBudget, and the result so far, when all units in float do not meet the budget.
func Search(ctx context.Context, cfg SearchConfig) (*SearchResult, error) {
	s := &searcher{cfg: cfg, seen: map[string]int{}, limit: cfg.MaxEvaluations}
	if s.limit == 0 {
		s.limit = 32 + 8*len(cfg.Units)
	}
	res := &SearchResult{Ranking: s.order(func(u Unit) float64 { return u.Error })}
	err := s.run(ctx, res.Ranking)
	res.Points = s.points
	markPareto(res.Points, cfg.Descending)
	if len(s.points) > 0 {
		res.Before, res.After = s.points[0], s.points[len(s.points)-1]
	}
	if err == nil {
		res.After, res.FP32 = s.points[s.best], s.sets[s.best]
	}
	return res, err
}

type searcher struct {
	cfg    SearchConfig
	points []Point
	sets   [][]int
	seen   map[string]int
	best   int
	limit  int
}

func (s *searcher) run(ctx context.Context, ranking []int) error {
	all := make([]int, len(s.cfg.Units))
	for i := range all {
		all[i] = i
	}
	s.best = -1
	for _, set := range [][]int{nil, all} {
		if met, err := s.try(ctx, set); err != nil {
			return err
		} else if met && set == nil {
			return nil
		}
	}
	if s.best < 0 {
		return fmt.Errorf("%w: %g with every operator in float", ErrBudget, s.points[len(s.points)-1].Metric)
	}
	density := s.order(func(u Unit) float64 { return u.Error / float64(u.MACs+1) })
	cheapest := s.order(func(u Unit) float64 { return -float64(u.MACs) })
	for _, order := range [][]int{density, ranking, cheapest} {
		set, err := s.prefix(ctx, order)
		if err == nil {
			set, err = s.prune(ctx, set)
		}
		if err == nil {
			err = s.exchange(ctx, set)
		}
		if errors.Is(err, errSpent) {
			break
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errSpent ends the search when the evaluations are used up; what was found stands.
var errSpent = errors.New("evaluations used up")

// order sorts unit indices by key, largest first, ties by index.
func (s *searcher) order(key func(Unit) float64) []int {
	idx := make([]int, len(s.cfg.Units))
	for i := range idx {
		idx[i] = i
	}
	slices.SortStableFunc(idx, func(a, b int) int {
		ka, kb := key(s.cfg.Units[a]), key(s.cfg.Units[b])
		switch {
		case ka > kb:
			return -1
		case ka < kb:
			return 1
		}
		return a - b
	})
	return idx
}

// try evaluates a set once and remembers the best that meets the budget.
func (s *searcher) try(ctx context.Context, set []int) (bool, error) {
	set = slices.Clone(set)
	slices.Sort(set)
	key := fmt.Sprint(set)
	if i, ok := s.seen[key]; ok {
		return s.points[i].Met, nil
	}
	if len(s.points) >= max(s.limit, 2) { // nothing and everything in float are always tried
		return false, errSpent
	}
	metric, macs, borders, err := s.cfg.Evaluate(ctx, set)
	if err != nil {
		return false, err
	}
	p := Point{FP32: []string{}, MACs: macs, Borders: borders, Metric: metric, Met: s.cfg.Met(metric)}
	for _, i := range set {
		p.FP32 = append(p.FP32, s.cfg.Units[i].Name)
	}
	i := len(s.points)
	s.points, s.sets = append(s.points, p), append(s.sets, set)
	s.seen[key] = i
	if p.Met && (s.best < 0 || cheaper(p, s.points[s.best])) {
		s.best = i
	}
	return p.Met, nil
}

func cheaper(a, b Point) bool {
	if a.MACs != b.MACs {
		return a.MACs < b.MACs
	}
	if a.Borders != b.Borders {
		return a.Borders < b.Borders
	}
	return len(a.FP32) < len(b.FP32)
}

// prefix bisects for the shortest prefix of order that meets the budget. The error is assumed to fall along the order; where
// it does not, the prefix found still meets the budget.
func (s *searcher) prefix(ctx context.Context, order []int) ([]int, error) {
	lo, hi := 0, len(order) // lo fails, hi holds
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		met, err := s.try(ctx, order[:mid])
		if err != nil {
			return nil, err
		}
		if met {
			hi = mid
		} else {
			lo = mid
		}
	}
	return slices.Clone(order[:hi]), nil
}

// prune takes units back to INT8, those with the most work first, as long as the budget holds.
func (s *searcher) prune(ctx context.Context, set []int) ([]int, error) {
	slices.SortStableFunc(set, func(a, b int) int {
		if d := s.cfg.Units[b].MACs - s.cfg.Units[a].MACs; d != 0 {
			return sign(d)
		}
		return a - b
	})
	for i := 0; i < len(set); {
		without := slices.Delete(slices.Clone(set), i, i+1)
		met, err := s.try(ctx, without)
		if err != nil {
			return nil, err
		}
		if met {
			set = without
		} else {
			i++
		}
	}
	return set, nil
}

// exchange replaces one unit by one that costs less, or by two that together cost less, while the budget holds. There are as many
// pairs as the square of the units: it gives up when a while of them were tried in vain.
func (s *searcher) exchange(ctx context.Context, set []int) error {
	start := len(s.points)
	for improved := true; improved; {
		improved = false
		for i := 0; i < len(set) && !improved; i++ {
			for _, other := range s.replacements(set, set[i]) {
				if len(s.points)-max(start, s.best) > 16+len(s.cfg.Units)/2 {
					return nil
				}
				next := append(slices.Delete(slices.Clone(set), i, i+1), other...)
				met, err := s.try(ctx, next)
				if err != nil {
					return err
				}
				if met {
					if next, err = s.prune(ctx, next); err != nil {
						return err
					}
					set, improved = next, true
					break
				}
			}
		}
	}
	return nil
}

// replacements lists what could stand for unit u at less cost: single units and pairs outside set, most promising first.
func (s *searcher) replacements(set []int, u int) [][]int {
	units := s.cfg.Units
	var free []int
	for _, i := range s.order(func(u Unit) float64 { return u.Error }) {
		if !slices.Contains(set, i) && units[i].MACs < units[u].MACs {
			free = append(free, i)
		}
	}
	var out [][]int
	for _, a := range free {
		out = append(out, []int{a})
	}
	for i, a := range free {
		for _, b := range free[i+1:] {
			if units[a].MACs+units[b].MACs < units[u].MACs {
				out = append(out, []int{a, b})
			}
		}
	}
	return out
}

func sign(d int64) int {
	if d < 0 {
		return -1
	}
	return 1
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
