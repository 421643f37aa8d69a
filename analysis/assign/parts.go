package assign

import (
	"context"
	"fmt"
	"math"
	"slices"

	"qwb/kernels/elementary"
)

// Where outputs have parts, the sum of errors is one sum for each of them, and the largest counts. A mean of these sums, with weights that
// add up to 1, is never above the largest, so that the choice that is best by the mean is at least as good: a bound. The weights move to
// the parts whose sums are too large (multiplicative weights; Plotkin, Shmoys and Tardos, Mathematics of Operations Research 20, 1995), and
// the best choice seen is taken.
const (
	rounds  = 24
	enough  = 1e-3 // of the value: a smaller gap is not worth another round
	tighter = 3    // how many tighter bounds on the mean are tried where the largest sum is above the bound
)

// Part is the error of a part; Error where there are none.
func (o *Option) Part(i int) float64 {
	if o.Parts == nil {
		return o.Error
	}
	return o.Parts[i]
}

// Sums adds up the errors of a choice, by part; of units without parts it is one sum.
func Sums(units []Unit, choice []int) []float64 {
	sums := make([]float64, max(parts(units), 1))
	for i, k := range choice {
		for c := range sums {
			sums[c] += units[i].Options[k].Part(c)
		}
	}
	return sums
}

// parts is how many parts the errors of units have; 0 where they have none.
func parts(units []Unit) (n int) {
	for _, u := range units {
		for _, o := range u.Options {
			n = max(n, len(o.Parts))
		}
	}
	return n
}

// checkParts makes sure that all options have the same parts, and finite errors.
func checkParts(units []Unit, n int) error {
	for _, u := range units {
		for _, o := range u.Options {
			if o.Parts != nil && len(o.Parts) != n {
				return fmt.Errorf("unit %q as %s: errors of %d parts, others have %d", u.Name, o.Name, len(o.Parts), n)
			}
			for _, x := range o.Parts {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					return fmt.Errorf("unit %q as %s: the error %g of a part must be finite", u.Name, o.Name, x)
				}
			}
		}
	}
	return nil
}

// mean is the units with a weighted mean of the parts as their error.
func mean(units []Unit, weights []float64) []Unit {
	out := make([]Unit, len(units))
	for i, u := range units {
		out[i] = Unit{u.Name, make([]Option, len(u.Options))}
		for k, o := range u.Options {
			p := Option{Name: o.Name, Cost: o.Cost}
			for c, w := range weights {
				p.Error += w * o.Part(c)
			}
			out[i].Options[k] = p
		}
	}
	return out
}

// weighing are the weights of the parts.
type weighing struct {
	logs  []float64
	round int
}

// newWeighing begins with the parts as they are with the first options.
func newWeighing(units []Unit) *weighing {
	w := &weighing{logs: Sums(units, make([]int, len(units)))}
	most := slices.Max(w.logs)
	for c, x := range w.logs {
		w.logs[c] = math.Log(max(x, 1e-6*most, math.SmallestNonzeroFloat64))
	}
	return w
}

// weights add up to 1.
func (w *weighing) weights() []float64 {
	most, sum := slices.Max(w.logs), 0.0
	out := make([]float64, len(w.logs))
	for c, x := range w.logs {
		out[c] = elementary.Exp(x - most)
		sum += out[c]
	}
	for c := range out {
		out[c] /= sum
	}
	return out
}

// move gives more weight to the parts with large sums.
func (w *weighing) move(sums []float64) {
	w.round++
	if most := slices.Max(sums); most > 0 {
		for c, x := range sums {
			w.logs[c] += 2 / math.Sqrt(float64(w.round)) * x / most
		}
	}
}

// minCostOfParts is MinCost of units with parts.
func minCostOfParts(ctx context.Context, units []Unit, maxError float64) (Solution, error) {
	w := newWeighing(units)
	best, lower := Solution{Cost: math.Inf(1)}, math.Inf(-1)
	see := func(s *Solution) (sums []float64, worst float64) {
		sums = Sums(units, s.Choice)
		if worst = slices.Max(sums); worst <= maxError+1e-12*math.Abs(maxError) && s.Cost < best.Cost {
			best = Solution{Choice: s.Choice, Error: worst, Cost: s.Cost}
		}
		return sums, worst
	}
	for range rounds {
		list := mean(units, w.weights())
		s, err := choose(ctx, list, maxError, byError)
		if err != nil {
			return s, err
		}
		lower = max(lower, s.Cost-s.Gap)
		sums, worst := see(&s)
		limit, over := maxError, worst
		for range tighter {
			if limit *= maxError / over; !(over > maxError) || !(limit > 0) {
				break
			}
			t, err := choose(ctx, list, limit, byError)
			if err != nil {
				break
			}
			_, over = see(&t)
		}
		if best.Cost-lower <= enough*math.Abs(best.Cost) || ctx.Err() != nil {
			break
		}
		w.move(sums)
	}
	if best.Choice == nil { // the least of the largest sums, at whatever cost
		s, err := minErrorOfParts(ctx, units, math.Inf(1))
		if err == nil && s.Error > maxError {
			err = fmt.Errorf("%w: error %g at least, %g allowed", ErrBound, s.Error-s.Gap, maxError)
		}
		if err != nil {
			return Solution{}, err
		}
		best = s
	}
	exchange(units, &best, func(now, then *Solution) bool {
		return then.Error <= maxError && then.Cost < now.Cost-1e-12*math.Abs(now.Cost)
	})
	best.Gap = max(best.Cost-lower, 0)
	return best, ctx.Err()
}

// minErrorOfParts is MinError of units with parts.
func minErrorOfParts(ctx context.Context, units []Unit, maxCost float64) (Solution, error) {
	w := newWeighing(units)
	best, lower := Solution{Error: math.Inf(1)}, math.Inf(-1)
	for range rounds {
		s, err := choose(ctx, mean(units, w.weights()), maxCost, byCost)
		if err != nil {
			return s, err
		}
		lower = max(lower, s.Error-s.Gap)
		sums := Sums(units, s.Choice)
		if worst := slices.Max(sums); worst < best.Error {
			best = Solution{Choice: s.Choice, Error: worst, Cost: s.Cost}
		}
		if best.Error-lower <= enough*math.Abs(best.Error) || ctx.Err() != nil {
			break
		}
		w.move(sums)
	}
	exchange(units, &best, func(now, then *Solution) bool {
		return then.Cost <= maxCost && then.Error < now.Error-1e-12*math.Abs(now.Error)
	})
	best.Gap = max(best.Error-lower, 0)
	return best, ctx.Err()
}

// mostPairs is of how many options of all units pairs are exchanged: more would take longer than it is worth.
const mostPairs = 300

// exchange gives units other options, one or two at a time, as long as that is better.
func exchange(units []Unit, s *Solution, better func(now, then *Solution) bool) {
	options := 0
	for _, u := range units {
		options += len(u.Options)
	}
	sums := Sums(units, s.Choice)
	next := *s
	// with tries another option of a unit, and below it, if deep, of a second one.
	var with func(from int, deep bool) bool
	with = func(from int, deep bool) bool {
		for i := from; i < len(units); i++ {
			was := s.Choice[i]
			for k := range units[i].Options {
				if k == was {
					continue
				}
				next.Cost += units[i].Options[k].Cost - units[i].Options[was].Cost
				for c := range sums {
					sums[c] += units[i].Options[k].Part(c) - units[i].Options[was].Part(c)
				}
				s.Choice[i] = k
				if next.Error = slices.Max(sums); better(s, &next) {
					s.Cost, s.Error = next.Cost, next.Error
					return true
				}
				if deep && with(i+1, false) {
					return true
				}
				s.Choice[i] = was
				next.Cost += units[i].Options[was].Cost - units[i].Options[k].Cost
				for c := range sums {
					sums[c] += units[i].Options[was].Part(c) - units[i].Options[k].Part(c)
				}
			}
		}
		return false
	}
	for range len(units) {
		if !with(0, options <= mostPairs) {
			return
		}
		sums, next = Sums(units, s.Choice), *s // without the rounding of what was added and taken off
	}
}
