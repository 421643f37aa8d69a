package qmath

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// Int4Min and Int4Max are the codes of an int4 group.
const (
	Int4Min = -8
	Int4Max = 7
)

// GroupRule says how groups of neighbours become integers with one scale each; code 0 stands for 0.
type GroupRule struct {
	Size     int      // neighbours that share a scale; the last group may be shorter
	Max      int32    // the largest code: GroupMax, Int4Max; at most 127
	Min      int32    // the least code: Int4Min; 0: -Max. Not above -Max
	Rounding Rounding // of x / scale
	// Search takes, instead of the scale of the largest magnitude, the one with the smallest squared error among those that give the element
	// of the largest magnitude the last code of its side, or cut it to that. Where float32 rounding makes it no better, the other stays.
	Search bool
}

// Quantize writes a code for every element of x and a scale for every group:
//
//	scale = max|x| / Max in float32, or m / Min where that is not -Max, m being the first element of the largest magnitude with its sign
//	code = round(x / scale), a true division in float32, at least Min and at most Max
//
// With one code more on the negative side the scale has the sign that gives m that code, as Q4_0 of ggml has it. A group of zeros has
// scale and codes 0, and so has one whose scale underflows to 0. It reports whether all of x is finite; where it is not, codes and
// scales mean nothing.
func (r GroupRule) Quantize(codes []int8, scales, x []float32) (finite bool) {
	var s scaleSearch
	for g := range scales {
		lo, hi := g*r.Size, min((g+1)*r.Size, len(x))
		group, out := x[lo:hi], codes[lo:hi]
		most := largest(group)
		if most-most != 0 {
			return false
		}
		scale := r.plain(group, most)
		if r.Search && scale != 0 {
			scale = r.search(&s, group, nil, scale)
		}
		scales[g] = scale
		r.Codes(out, group, scale)
	}
	return true
}

// Least is the least code.
func (r GroupRule) Least() int32 {
	if r.Min == 0 {
		return -r.Max
	}
	return r.Min
}

// plain is the scale of a group whose largest magnitude is most.
func (r GroupRule) plain(x []float32, most float32) float32 {
	if r.Least() != -r.Max {
		return signed(x, most) / float32(r.Min)
	}
	return most / float32(r.Max)
}

// signed returns the first element with a magnitude.
func signed(x []float32, magnitude float32) float32 {
	for _, v := range x {
		if Abs32(v) == magnitude {
			return v
		}
	}
	return magnitude
}

// Weighted is the scale of one group under which the sum of importance * squared error is least, among those that Search takes; it has the
// sign that Quantize gives it. x is finite, importance has a number of at least 0 for each element. Where none counts all count alike; a
// group of zeros has scale 0.
func (r GroupRule) Weighted(x []float32, importance []float64) float32 {
	scale := r.plain(x, largest(x))
	if scale == 0 {
		return 0
	}
	if !slices.ContainsFunc(importance, func(w float64) bool { return w > 0 }) {
		importance = nil
	}
	s := searches.Get().(*scaleSearch)
	defer searches.Put(s)
	return r.search(s, x, importance, scale)
}

// search returns the scale with the smallest squared error where that is below that of the given one. importance may be nil: 1 each.
func (r GroupRule) search(s *scaleSearch, x []float32, importance []float64, scale float32) float32 {
	least := r.squaredError(x, importance, scale)
	try := func(d float32) {
		if e := r.squaredError(x, importance, d); e < least {
			scale, least = d, e
		}
	}
	lo, hi := r.Least(), r.Max
	try(float32(s.best(x, importance, lo, hi)))
	if lo != -hi {
		try(-float32(s.best(x, importance, -hi, -lo)))
	}
	return scale
}

// Codes writes the codes of the elements of one group with the given scale. |x| / |scale| must be at most 2^22, which holds if
// the scale was made from the largest element.
func (r GroupRule) Codes(codes []int8, x []float32, scale float32) {
	lo, hi := r.Least(), r.Max
	switch {
	case scale == 0:
		clear(codes[:len(x)])
	case r.Rounding == HalfEven:
		for i, v := range x {
			codes[i] = int8(min(max(nearestEven(v/scale), lo), hi))
		}
	default:
		for i, v := range x {
			codes[i] = int8(min(max(r.Rounding.Round(float64(v/scale)), float64(lo)), float64(hi)))
		}
	}
}

// squaredError is the sum of the squared differences between the elements of a group and their codes times the scale, in float64, each
// times its importance.
func (r GroupRule) squaredError(x []float32, importance []float64, scale float32) float64 {
	if scale == 0 || scale-scale != 0 {
		return math.Inf(1)
	}
	sum, lo, hi := 0.0, float64(r.Least()), float64(r.Max)
	for i, v := range x {
		code := min(max(r.Rounding.Round(float64(v/scale)), lo), hi)
		d := float64(v) - code*float64(scale)
		sum += d * d * weightOf(importance, i)
	}
	return sum
}

// weightOf is 1 where there is no importance.
func weightOf(importance []float64, i int) float64 {
	if importance == nil {
		return 1
	}
	return importance[i]
}

// nearestEven rounds half to even, for magnitudes up to 2^22.
func nearestEven(v float32) int32 {
	const shift = 3 << 22 // adding it leaves no bits for fractions
	return int32(math.Float32bits(v+shift)) - 0x4b400000
}

// largest returns the largest magnitude of x, and what is not finite where something is not.
func largest(x []float32) float32 {
	var most uint32
	for _, v := range x {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	return math.Float32frombits(most)
}

// scaleSearch finds scales with the smallest squared error, and keeps its memory between groups.
//
// The error of a group as a function of its scale s is, as long as no code changes, the parabola X - 2sA + ssB with X the sum of
// x*x, A that of x*code and B that of code*code. Codes change at known scales, |x| / (k + 1/2), where the error is continuous. So
// the smallest error is that of the best scale of one of the pieces, which are all visited, from the largest scale down.
type scaleSearch struct{ steps []codeStep }

var searches = sync.Pool{New: func() any { return new(scaleSearch) }}

// codeStep is a scale below which the code of an element grows from k to k+1 in magnitude.
type codeStep struct{ scale, x, k, weight float64 }

// best returns the scale above 0 with the smallest squared error for codes from lo to hi, lo < 0 < hi, in real arithmetic, among
// the scales described at GroupRule.Search. Scales below those it visits cut some element by so much that this alone is more than the
// error without a search. x is finite and not all zero.
func (s *scaleSearch) best(x []float32, importance []float64, lo, hi int32) float64 {
	var most [2]float64 // of positive and negative elements
	limit := [2]float64{float64(hi), -float64(lo)}
	for _, v := range x {
		side := sideOf(v)
		most[side] = max(most[side], math.Abs(float64(v)))
	}
	plain := max(most[0]/limit[0], most[1]/limit[1])
	top := max(most[0]/(limit[0]-0.5), most[1]/(limit[1]-0.5))
	spent := 0.0
	for i, v := range x {
		a := math.Abs(float64(v))
		d := a - plain*min(math.Floor(a/plain+0.5), limit[sideOf(v)])
		spent += d * d * weightOf(importance, i)
	}
	bottom := 0.0
	for i, v := range x {
		if w := weightOf(importance, i); w > 0 {
			bottom = max(bottom, (math.Abs(float64(v))-math.Sqrt(spent/w))/limit[sideOf(v)])
		}
	}

	s.steps = s.steps[:0]
	var xx, xq, qq float64
	for i, v := range x {
		a, end, w := math.Abs(float64(v)), limit[sideOf(v)], weightOf(importance, i)
		k := min(math.Floor(a/top+0.5), end)
		xx, xq, qq = xx+a*a*w, xq+a*k*w, qq+k*k*w
		for ; a > 0 && k < end && a/(k+0.5) > bottom; k++ {
			s.steps = append(s.steps, codeStep{a / (k + 0.5), a, k, w})
		}
	}
	slices.SortFunc(s.steps, func(a, b codeStep) int { return cmp.Compare(b.scale, a.scale) })

	best, least, above := plain, math.Inf(1), top
	visit := func(below float64) {
		if qq > 0 {
			at := min(max(xq/qq, below), above)
			if e := xx - 2*at*xq + at*at*qq; e < least {
				best, least = at, e
			}
		}
		above = below
	}
	for _, c := range s.steps {
		visit(min(c.scale, above))
		xq, qq = xq+c.x*c.weight, qq+(2*c.k+1)*c.weight
	}
	visit(min(max(bottom, 0), above))
	return best
}

func sideOf(v float32) int {
	if v < 0 {
		return 1
	}
	return 0
}
