package ref

import (
	"math"

	"qwb/kernels/qmath"
)

// QuantizeRow quantizes a row of activations in groups of size neighbours, the last of which may be shorter, at run time: it is
// qmath.QuantizeGroups with ties away from zero, as llama2.c's runq has it. A group that holds NaN or an infinity has scale NaN
// and codes 0, so that every product with it is NaN.
func QuantizeRow(codes []int8, scales, x []float32, size int) {
	qmath.QuantizeGroups(codes, scales, x, size, qmath.HalfAwayFromZero)
	for g := range scales {
		lo, hi := g*size, min((g+1)*size, len(x))
		for _, v := range x[lo:hi] {
			if v-v != 0 {
				scales[g] = float32(math.NaN())
				clear(codes[lo:hi])
				break
			}
		}
	}
}

// DotGroups is the product of a row w of a matrix in groups and a vector x in groups, both of size elements:
//
//	for every piece, in order: acc += float32(float32(float32(sum) * wScale) * xScale)
//
// A piece is a longest run of elements that have one scale in w and one in x, and sum is the sum of the products of its codes in
// int32. Groups of x begin with its first element. Those of a matrix run on from row to row: shift elements of the first group
// of w belong to the row before. Where the groups divide the rows a piece is a group, and the result is that of runq bit for bit.
//
// sums, if not nil, takes the sum of every piece; there are Pieces of them.
func DotGroups(w []int8, wScales []float32, x []int8, xScales []float32, size, shift int, sums []int32) float32 {
	var acc float32
	for lo, piece := 0, 0; lo < len(w); piece++ {
		hi := min(lo+size-(lo+shift)%size, lo+size-lo%size, len(w))
		var sum int32
		ws := w[lo:hi]
		xs := x[lo:hi][:len(ws)]
		for k, c := range ws {
			sum += int32(c) * int32(xs[k])
		}
		if sums != nil {
			sums[piece] = sum
		}
		acc += groupTerm(sum, wScales[(lo+shift)/size], xScales[lo/size])
		lo = hi
	}
	return acc
}

// groupTerm is what a sum adds to a product.
func groupTerm(sum int32, w, x float32) float32 {
	return float32(float32(float32(sum)*w) * x)
}

// Pieces is how many pieces the product of a row of n elements has; see DotGroups.
func Pieces(n, size, shift int) int {
	count := 0
	for lo := 0; lo < n; count++ {
		lo = min(lo+size-(lo+shift)%size, lo+size-lo%size)
	}
	return count
}

// GroupChains is how many sums a group of codes times floats has.
const GroupChains = 4

// DotGroupsFloat is the product of a row w of a matrix in groups and floats: within a piece, a longest run of elements of one
// scale, the k-th product float32(float32(code)*x) is added to chain k%GroupChains, and then
//
//	acc += float32(((chain 0 + chain 1) + (chain 2 + chain 3)) * wScale)
//
// every operation rounded to float32. shift is as in DotGroups.
func DotGroupsFloat(w []int8, wScales, x []float32, size, shift int) float32 {
	var acc float32
	for lo := 0; lo < len(w); {
		hi := min(lo+size-(lo+shift)%size, len(w))
		var chains [GroupChains]float32
		for k, c := range w[lo:hi] {
			chains[k%GroupChains] += float32(float32(c) * x[lo+k])
		}
		acc += float32(((chains[0] + chains[1]) + (chains[2] + chains[3])) * wScales[(lo+shift)/size])
		lo = hi
	}
	return acc
}

// Combine is the weighted sum of vectors of len(dst) elements, step apart in m: dst[i] is the sum of float32(s[k]*m[k*step+i])
// over k, added one after the other, every operation rounded to float32.
func Combine(dst, s, m []float32, step int) {
	clear(dst)
	for k, f := range s {
		for i, v := range m[k*step:][:len(dst)] {
			dst[i] += float32(f * v)
		}
	}
}
