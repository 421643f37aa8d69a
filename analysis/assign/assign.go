// Package assign chooses one of several formats for each unit of a network so that a bound on the sum of errors is met at the least cost,
// or one on cost at the least error.
//
// Unstable: it may change without notice.
package assign

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// ErrBound says that no choice meets the bound.
var ErrBound = errors.New("no choice meets the bound")

// Unit is a part of a network that gets one format: an operator with what must stay with it.
type Unit struct {
	Name    string
	Options []Option // at least one; the first is the unit as it is
}

// Option is one format of a unit. Errors and Cost are finite, of any sign and unit; both add up over units.
type Option struct {
	Name        string
	Error, Cost float64
	// Parts are the errors of the parts of what is judged, where there are several: their sums are taken one by one and the largest counts, in
	// place of Error. All options have as many, or none, where Error is that of every part.
	Parts []float64
}

// Solution is a choice of one option for each unit.
type Solution struct {
	Choice      []int // by unit, an index into its options
	Error, Cost float64
	// Gap is how much better, at most, the best choice can be in what was minimised; 0: this is the best one, but for the rounding of the
	// sums (one part in 10^12). With several parts it is rarely 0.
	Gap float64
}

// MinCost returns the choice of least cost among those whose errors add up to no more than maxError. The error is ErrBound where there is
// none; it says what the least sum is.
func MinCost(ctx context.Context, units []Unit, maxError float64) (Solution, error) {
	if n := parts(units); n > 1 {
		if err := checkParts(units, n); err != nil {
			return Solution{}, err
		}
		return minCostOfParts(ctx, units, maxError)
	}
	return choose(ctx, units, maxError, byError)
}

// MinError returns the choice of least error among those whose costs add up to no more than maxCost, as MinCost does.
func MinError(ctx context.Context, units []Unit, maxCost float64) (Solution, error) {
	if n := parts(units); n > 1 {
		if err := checkParts(units, n); err != nil {
			return Solution{}, err
		}
		return minErrorOfParts(ctx, units, maxCost)
	}
	return choose(ctx, units, maxCost, byCost)
}

// measure says what is bounded and what is minimised.
type measure struct {
	bounded string
	of      func(Option) (weight, value float64)
}

var (
	byError = measure{"error", func(o Option) (float64, float64) { return o.Part(0), o.Cost }}
	byCost  = measure{"cost", func(o Option) (float64, float64) { return o.Cost, o.Part(0) }}
)

func choose(ctx context.Context, units []Unit, limit float64, by measure) (Solution, error) {
	if math.IsNaN(limit) {
		return Solution{}, fmt.Errorf("the bound on %s is not a number", by.bounded)
	}
	p := problem{ctx: ctx, limit: limit, classes: make([]class, len(units))}
	for i, u := range units {
		if len(u.Options) == 0 {
			return Solution{}, fmt.Errorf("unit %q has no options", u.Name)
		}
		c := &p.classes[i]
		for k, o := range u.Options {
			if w := o.Part(0) + o.Cost; math.IsNaN(w) || math.IsInf(w, 0) {
				return Solution{}, fmt.Errorf("unit %q as %s: error %g and cost %g must be finite", u.Name, o.Name, o.Part(0), o.Cost)
			}
			w, v := by.of(o)
			c.all = append(c.all, item{weight: w, value: v, option: k})
		}
		c.reduce()
	}
	choice, gap, err := p.solve()
	if err != nil {
		if errors.Is(err, ErrBound) {
			err = fmt.Errorf("%w: %s %g at least, %g allowed", ErrBound, by.bounded, p.least, limit)
		}
		return Solution{}, err
	}
	s := Solution{Choice: choice, Gap: gap}
	for i, k := range choice {
		s.Error += units[i].Options[k].Part(0)
		s.Cost += units[i].Options[k].Cost
	}
	return s, nil
}
