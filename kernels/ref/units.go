package ref

// AddUnits adds the elements of x, limited to [lo, hi] and multiplied by scale, to sums as whole numbers: element i of x to sum i modulo
// their number. scale is a power of two that is 1 or more, or 0; lo <= hi. Elements that are no whole numbers then are not added, and of
// these odd is called with their number in x and what they are limited to. x is finite, and no element reaches 2^50 in magnitude.
func AddUnits(sums []int64, x []float32, scale, lo, hi float32, odd func(i int, v float32)) {
	for first := 0; first < len(x); first += len(sums) {
		row := x[first:min(first+len(sums), len(x))]
		acc := sums[:len(row)]
		for i, v := range row {
			v = min(max(v, lo), hi)
			f := v * scale
			q := int64(f)
			if float32(q) != f {
				odd(first+i, v)
				continue
			}
			acc[i] += q
		}
	}
}
