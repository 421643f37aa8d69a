package assign

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// generators of units: what options of one unit have to do with each other decides how hard the problem is.
var generators = map[string]func(r *rand.Rand, options int) []Option{
	"unrelated": func(r *rand.Rand, options int) (list []Option) {
		for range options {
			list = append(list, Option{Error: r.Float64(), Cost: r.Float64()})
		}
		return list
	},
	// The size of a unit and its sensitivity vary by orders of magnitude, bits cost what they say, errors fall fourfold with each bit.
	"network": func(r *rand.Rand, options int) (list []Option) {
		size, sensitive := math.Exp(4*r.NormFloat64()), math.Exp(3*r.NormFloat64())
		for k := range options {
			bits := []float64{32, 16, 8, 4, 2}[k%5]
			list = append(list, Option{Error: sensitive * math.Pow(4, -bits/2) * (0.5 + r.Float64()), Cost: size * bits})
		}
		return list
	},
	// Small whole numbers: many choices are equal.
	"whole": func(r *rand.Rand, options int) (list []Option) {
		for range options {
			list = append(list, Option{Error: float64(r.IntN(4)), Cost: float64(r.IntN(4))})
		}
		return list
	},
	// Error and cost nearly add up to the same for all: every choice is on the line of the relaxed solution.
	"balanced": func(r *rand.Rand, options int) (list []Option) {
		for range options {
			x := r.Float64()
			list = append(list, Option{Error: x, Cost: 1 - x + 1e-3*r.Float64()})
		}
		return list
	},
	"negative": func(r *rand.Rand, options int) (list []Option) {
		for range options {
			list = append(list, Option{Error: r.NormFloat64(), Cost: r.NormFloat64()})
		}
		return list
	},
}

func units(kind string, seed uint64, n, options int) []Unit {
	r := rand.New(rand.NewPCG(seed, 1))
	list := make([]Unit, n)
	for i := range list {
		list[i] = Unit{Name: fmt.Sprint("u", i), Options: generators[kind](r, options)}
	}
	return list
}

// exhaustive tries every choice: all of one half of the units, and for each the best one of all of the other half.
func exhaustive(list []Unit, limit float64, weight, value func(Option) float64) float64 {
	type sum struct{ weight, value float64 }
	all := func(half []Unit) []sum {
		sums := []sum{{}}
		for _, u := range half {
			var next []sum
			for _, s := range sums {
				for _, o := range u.Options {
					next = append(next, sum{s.weight + weight(o), s.value + value(o)})
				}
			}
			sums = next
		}
		slices.SortFunc(sums, func(a, b sum) int {
			if a.weight < b.weight {
				return -1
			}
			return 1
		})
		return sums
	}
	left, right := all(list[:len(list)/2]), all(list[len(list)/2:])
	for i := 1; i < len(right); i++ {
		right[i].value = min(right[i].value, right[i-1].value)
	}
	_, scale := extremes(list, func(o Option) float64 { return math.Abs(weight(o)) })
	best, j := math.Inf(1), len(right)
	for _, l := range left {
		for j > 0 && l.weight+right[j-1].weight > limit+1e-12*scale {
			j--
		}
		if j > 0 {
			best = min(best, l.value+right[j-1].value)
		}
	}
	return best
}

func errorOf(o Option) float64 { return o.Error }
func costOf(o Option) float64  { return o.Cost }

func extremes(list []Unit, of func(Option) float64) (least, most float64) {
	for _, u := range list {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, o := range u.Options {
			lo, hi = min(lo, of(o)), max(hi, of(o))
		}
		least, most = least+lo, most+hi
	}
	return least, most
}

func TestAgainstExhaustiveSearch(t *testing.T) {
	for kind := range generators {
		t.Run(kind, func(t *testing.T) {
			for seed := range uint64(10) {
				list := units(kind, seed, 12, 5)
				for _, way := range []struct {
					solve         func(context.Context, []Unit, float64) (Solution, error)
					weight, value func(Option) float64
				}{{MinCost, errorOf, costOf}, {MinError, costOf, errorOf}} {
					least, most := extremes(list, way.weight)
					for _, share := range []float64{0, 0.01, 0.1, 0.3, 0.5, 0.9, 1} {
						limit := least + share*(most-least)
						s, err := way.solve(t.Context(), list, limit)
						require.NoError(t, err)
						var w, v float64
						for i, k := range s.Choice {
							w, v = w+way.weight(list[i].Options[k]), v+way.value(list[i].Options[k])
						}
						require.LessOrEqual(t, w, limit+1e-11*(most-least))
						require.InDelta(t, exhaustive(list, limit, way.weight, way.value), v, 1e-9*(1+math.Abs(v)), "seed %d, share %g", seed, share)
						require.Zero(t, s.Gap)
					}
				}
			}
		})
	}
}

// Problems too large for exhaustive search: the gap that is said is small beside the costs, and none in most cases.
// wholes has a table of the least value for each weight: the other way to be exact, for whole numbers of any number of units.
func wholes(list []Unit, limit int) float64 {
	least := make([]float64, limit+1)
	for _, u := range list {
		next := make([]float64, limit+1)
		for w := range next {
			next[w] = math.Inf(1)
			for _, o := range u.Options {
				if rest := w - int(o.Error); rest >= 0 {
					next[w] = min(next[w], least[rest]+o.Cost)
				}
			}
		}
		least = next
	}
	return least[limit]
}

func TestAgainstTableOfWholeNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	proven := 0
	for seed := range uint64(40) {
		list := make([]Unit, 60)
		for i := range list {
			options := make([]Option, 1+r.IntN(6))
			for k := range options {
				e := float64(r.IntN(60))
				options[k] = Option{Error: e, Cost: 1000 - 10*e + float64(r.IntN(200))}
			}
			list[i] = Unit{Name: fmt.Sprint("u", i), Options: options}
		}
		least, most := extremes(list, errorOf)
		limit := int(least + (0.05+0.02*float64(seed))*(most-least))
		s, err := MinCost(t.Context(), list, float64(limit))
		require.NoError(t, err)
		want := wholes(list, limit)
		require.GreaterOrEqual(t, s.Cost, want-1e-6)
		require.LessOrEqual(t, s.Cost-s.Gap, want+1e-6, "seed %d: the gap is none", seed)
		if s.Gap == 0 {
			proven++
		}
	}
	require.GreaterOrEqual(t, proven, 38)
}

func TestThousandsOfUnits(t *testing.T) {
	for kind := range generators {
		t.Run(kind, func(t *testing.T) {
			for _, n := range []int{100, 1000, 5000} {
				list := units(kind, 7, n, 5)
				least, most := extremes(list, errorOf)
				for _, share := range []float64{0.001, 0.05, 0.4} {
					limit := least + share*(most-least)
					start := time.Now()
					s, err := MinCost(t.Context(), list, limit)
					took := time.Since(start)
					require.Less(t, took, longtest.Hang) // well under a second where nothing else runs
					require.NoError(t, err)
					require.LessOrEqual(t, s.Error, limit*(1+1e-9)+1e-9)
					_, scale := extremes(list, costOf)
					t.Logf("%d units, %g: cost %g, gap %g, %v", n, share, s.Cost, s.Gap, took)
					require.LessOrEqual(t, s.Gap, 1e-4*scale)
					again, err := MinCost(t.Context(), list, limit)
					require.NoError(t, err)
					require.Equal(t, s, again)
				}
			}
		})
	}
}

func TestWhatCannotBeChosen(t *testing.T) {
	one := []Unit{{Name: "conv", Options: []Option{{Name: "fp32", Error: 1, Cost: 8}, {Name: "int8", Error: 3, Cost: 2}}}}
	_, err := MinCost(t.Context(), one, 0.5)
	require.ErrorIs(t, err, ErrBound)
	require.EqualError(t, err, "no choice meets the bound: error 1 at least, 0.5 allowed")
	_, err = MinError(t.Context(), one, 1)
	require.EqualError(t, err, "no choice meets the bound: cost 2 at least, 1 allowed")
	_, err = MinError(t.Context(), one, math.NaN())
	require.EqualError(t, err, "the bound on cost is not a number")
	_, err = MinCost(t.Context(), []Unit{{Name: "conv"}}, 1)
	require.EqualError(t, err, `unit "conv" has no options`)
	_, err = MinCost(t.Context(), []Unit{{Name: "conv", Options: []Option{{Name: "int8", Error: math.NaN(), Cost: 1}}}}, 1)
	require.EqualError(t, err, `unit "conv" as int8: error NaN and cost 1 must be finite`)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, err = MinCost(stopped, units("network", 1, 100, 5), 10)
	require.ErrorIs(t, err, context.Canceled)
}

func TestEdges(t *testing.T) {
	s, err := MinCost(t.Context(), nil, 0)
	require.NoError(t, err)
	require.Equal(t, Solution{Choice: []int{}}, s)
	// No bound: the cheapest of all; of equals the one that stands first.
	s, err = MinCost(t.Context(),
		[]Unit{{Options: []Option{{Name: "a", Error: 5, Cost: 1}, {Name: "b", Error: 5, Cost: 1}, {Name: "c", Error: 4, Cost: 2}}}}, math.Inf(1))
	require.NoError(t, err)
	require.Equal(t, Solution{Choice: []int{0}, Error: 5, Cost: 1}, s)
	// A bound that the sum just meets, with numbers that are no sums of powers of two.
	tenth := []Unit{{Options: []Option{{Name: "a", Error: 0.1, Cost: 1}, {Name: "b", Error: 0, Cost: 2}}},
		{Options: []Option{{Name: "a", Error: 0.2, Cost: 1}, {Name: "b", Error: 0, Cost: 2}}}}
	s, err = MinCost(t.Context(), tenth, 0.3)
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, s.Choice)
}

// parted are units whose errors are of several parts: each unit is sensitive in parts of its own.
func parted(seed uint64, n, options, parts int) []Unit {
	r := rand.New(rand.NewPCG(seed, 5))
	list := make([]Unit, n)
	for i := range list {
		sensitive := make([]float64, parts)
		for c := range sensitive {
			sensitive[c] = math.Exp(2 * r.NormFloat64())
		}
		size := math.Exp(r.NormFloat64())
		for k := range options {
			o := Option{Cost: size * []float64{8, 16, 4, 32}[k%4]}
			for _, s := range sensitive {
				o.Parts = append(o.Parts, s*[]float64{1, 1. / 64, 20, 0}[k%4]*(0.5+r.Float64()))
			}
			list[i].Options = append(list[i].Options, o)
		}
	}
	return list
}

// everyPart is the least cost, and the least of the largest sum, over all choices.
func everyPart(list []Unit, maxError, maxCost float64) (cost, loss float64) {
	cost, loss = math.Inf(1), math.Inf(1)
	choice := make([]int, len(list))
	for {
		x, c := slices.Max(Sums(list, choice)), 0.0
		for i, k := range choice {
			c += list[i].Options[k].Cost
		}
		if x <= maxError {
			cost = min(cost, c)
		}
		if c <= maxCost {
			loss = min(loss, x)
		}
		i := 0
		for ; i < len(list) && choice[i] == len(list[i].Options)-1; i++ {
			choice[i] = 0
		}
		if i == len(list) {
			return cost, loss
		}
		choice[i]++
	}
}

// With parts what is found is about the best, its gap is one, and no part is above the bound.
func TestPartsAgainstEveryChoice(t *testing.T) {
	const problems = 24
	var cost, loss float64
	best := 0
	for seed := range uint64(problems) {
		list := parted(seed, 9, 3, 1+int(seed)%5)
		as := slices.Max(Sums(list, make([]int, 9)))
		limit := as * []float64{0.1, 0.4, 1.5}[seed%3]
		s, err := MinCost(t.Context(), list, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, slices.Max(Sums(list, s.Choice)), limit*(1+1e-9))
		wantCost, wantLoss := everyPart(list, limit, s.Cost)
		require.LessOrEqual(t, s.Cost-s.Gap, wantCost*(1+1e-9))
		e, err := MinError(t.Context(), list, s.Cost)
		require.NoError(t, err)
		require.LessOrEqual(t, e.Cost, s.Cost*(1+1e-9))
		require.LessOrEqual(t, e.Error-e.Gap, wantLoss*(1+1e-9))
		cost, loss = max(cost, s.Cost/wantCost), max(loss, e.Error/wantLoss)
		if s.Cost <= wantCost*(1+1e-9) {
			best++
		}
	}
	t.Logf("least cost in %d of %d, at worst %.3f times it; at worst %.3f times the least error", best, problems, cost, loss)
	require.GreaterOrEqual(t, best, problems*3/4)
	require.Less(t, cost, 1.05)
	require.Less(t, loss, 1.1)
}

func TestPartsThatCannotBe(t *testing.T) {
	list := []Unit{{Name: "conv", Options: []Option{{Name: "int8", Parts: []float64{3, 1}}, {Name: "fp16", Parts: []float64{1, 2}, Cost: 5}}}}
	s, err := MinCost(t.Context(), list, 2)
	require.NoError(t, err)
	require.Equal(t, []int{1}, s.Choice)
	_, err = MinCost(t.Context(), list, 1.9)
	require.ErrorIs(t, err, ErrBound)
	_, err = MinError(t.Context(), list, -1)
	require.ErrorIs(t, err, ErrBound)
	list[0].Options[1].Parts = []float64{1}
	_, err = MinCost(t.Context(), list, 2)
	require.EqualError(t, err, `unit "conv" as fp16: errors of 1 parts, others have 2`)
	list[0].Options[1].Parts = []float64{1, math.NaN()}
	_, err = MinError(t.Context(), list, 2)
	require.EqualError(t, err, `unit "conv" as fp16: the error NaN of a part must be finite`)
}
