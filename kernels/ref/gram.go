package ref

// GramLanes is how many columns a panel of rows has.
const GramLanes = 32

// Gram adds to dst, GramLanes rows of GramLanes sums, the products of each column of a with each of b, over all rows. The rows of a and b
// lie in pairs: column c of rows 2p and 2p+1 are elements 2*(GramLanes*p+c) and the next. No element is -32768.
func Gram(dst []int64, a, b []int16) {
	const wide = 2 * GramLanes
	b = b[:len(a)]
	for len(a) >= wide {
		for i := range GramLanes {
			x, y := int32(a[2*i]), int32(a[2*i+1])
			if x == 0 && y == 0 {
				continue
			}
			sums := dst[i*GramLanes:][:GramLanes]
			for j := range sums {
				sums[j] += int64(x*int32(b[2*j]) + y*int32(b[2*j+1]))
			}
		}
		a, b = a[wide:], b[wide:]
	}
}
