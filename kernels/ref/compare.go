package ref

// CompareBlock is how many elements of a comparison are summed together; a multiple of Lanes.
const CompareBlock = 4096

// Compare returns the sums of (x[i]-y[i])^2, y[i]^2, x[i]^2 and x[i]*y[i] in float64, every operation rounded: within each block of
// CompareBlock elements element i is added to lane i%Lanes, then FoldLanes; the blocks are added in their order. x and y have
// the same length.
func Compare(x, y []float32) (noise, signal, other, dot float64) {
	for lo := 0; lo < len(x); lo += CompareBlock {
		var sums [4][Lanes]float64
		hi := min(lo+CompareBlock, len(x))
		Compare4(&sums, x[lo:hi], y[lo:hi], nil)
		noise += FoldLanes(&sums[0])
		signal += FoldLanes(&sums[1])
		other += FoldLanes(&sums[2])
		dot += FoldLanes(&sums[3])
	}
	return noise, signal, other, dot
}

// Compare4 adds the elements of one block to the lanes of the four sums of Compare; it takes no third operand.
func Compare4(sums *[4][Lanes]float64, x, y, _ []float32) {
	for i := range x {
		a, b := float64(x[i]), float64(y[i])
		d := a - b
		sums[0][i%Lanes] += float64(d * d)
		sums[1][i%Lanes] += float64(b * b)
		sums[2][i%Lanes] += float64(a * a)
		sums[3][i%Lanes] += float64(a * b)
	}
}

// Parts returns the sums of y[i]^2, (z[i]-y[i])*(x[i]-y[i]) and (x[i]-z[i])*(x[i]-y[i]), added as by Compare. All have the
// same length.
func Parts(x, y, z []float32) (signal, first, second float64) {
	for lo := 0; lo < len(x); lo += CompareBlock {
		var sums [4][Lanes]float64
		hi := min(lo+CompareBlock, len(x))
		Parts3(&sums, x[lo:hi], y[lo:hi], z[lo:hi])
		signal += FoldLanes(&sums[0])
		first += FoldLanes(&sums[1])
		second += FoldLanes(&sums[2])
	}
	return signal, first, second
}

// Parts3 adds the elements of one block to the lanes of the three sums of Parts.
func Parts3(sums *[4][Lanes]float64, x, y, z []float32) {
	for i := range x {
		a, b, m := float64(x[i]), float64(y[i]), float64(z[i])
		d := a - b
		sums[0][i%Lanes] += float64(b * b)
		sums[1][i%Lanes] += float64((m - b) * d)
		sums[2][i%Lanes] += float64((a - m) * d)
	}
}

// AddDifferences adds x - y to the sums of columns in float64, row after row, each operation rounded. x and y are whole rows of len(sums)
// elements; of each the columns from first on are added.
func AddDifferences(sums []float64, x, y []float32, first int) {
	n := len(sums)
	if first == n {
		return
	}
	for ; len(x) >= n; x, y = x[n:], y[n:] {
		at := y[:n]
		for c := first; c < n; c++ {
			sums[c] += float64(x[c]) - float64(at[c])
		}
	}
}
