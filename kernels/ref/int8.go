package ref

// Products is the arithmetic of a sum of u8 x s8 products.
type Products uint8

const (
	// Exact products are added in int32. 33,025 products of the largest magnitude fit; beyond that the sum wraps.
	Exact Products = iota
	// Saturating adds the products 2i and 2i+1 of a sum in int16, with saturation, and those pairs in int32: what the
	// instruction VPMADDUBSW does. The last product of an odd number stands alone.
	Saturating
)

// sum returns init plus the k products x(p)*w(p).
func (pr Products) sum(init int32, k int, x func(p int) uint8, w func(p int) int8) int32 {
	acc := init
	product := func(p int) int32 { return int32(x(p)) * int32(w(p)) }
	if pr == Exact {
		for p := range k {
			acc += product(p)
		}
		return acc
	}
	for p := 0; p < k; p += 2 {
		pair := product(p)
		if p+1 < k {
			pair += product(p + 1)
		}
		acc += min(max(pair, -1<<15), 1<<15-1)
	}
	return acc
}

// GemmU8S8 is
//
//	dst[i*n+j] = bias[j] + sum over p in 0..k of a[i*lda+p] * b[p*ldb+j]        (trans: b[j*ldb+p])
//
// with wrapping int32 addition. bias may be nil.
func GemmU8S8(pr Products, dst []int32, a []uint8, lda int, b []int8, ldb int, trans bool, m, n, k int, bias []int32) {
	sk, sj := ldb, 1
	if trans {
		sk, sj = 1, ldb
	}
	for i := range m {
		for j := range n {
			dst[i*n+j] = pr.sum(at(bias, j), k, func(p int) uint8 { return a[i*lda+p] }, func(p int) int8 { return b[p*sk+j*sj] })
		}
	}
}

// ConvU8S8 is, for every output position and output channel m of group g,
//
//	dst = bias[m] + sum over kd, kh, kw, c in 0..C/Group of in(..., g*C/Group+c) * w[m, c, kd, kh, kw]
//
// with wrapping int32 addition, in(...) being src, or zero outside it. src and dst are channels-last, w is
// [M, C/Group, KD, KH, KW]. bias may be nil. Depthwise convolutions are Exact whatever pr says: their products stand in
// different channels, and no implementation pairs them in int16.
func ConvU8S8(pr Products, dst []int32, src []uint8, w []int8, s ConvShape, zero uint8, bias []int32) {
	s = s.Full()
	cg, mg, taps := s.C/s.Group, s.M/s.Group, s.KD*s.KH*s.KW
	if s.Depthwise() {
		pr = Exact
	}
	window := make([]uint8, taps*s.C)
	s.eachOutput(func(n, z, y, x, pos int) {
		tap := 0
		s.eachInput(n, z, y, x, func(p int, inside bool) {
			for c := range s.C {
				if window[tap*s.C+c] = zero; inside {
					window[tap*s.C+c] = src[p*s.C+c]
				}
			}
			tap++
		})
		for m := range s.M {
			g := m / mg
			dst[pos*s.M+m] = pr.sum(at(bias, m), taps*cg,
				func(p int) uint8 { return window[p/cg*s.C+g*cg+p%cg] },
				func(p int) int8 { return w[(m*cg+p%cg)*taps+p/cg] })
		}
	})
}

// Depthwise reports whether every output channel is computed from one input channel, and there are several.
func (s ConvShape) Depthwise() bool { s = s.Full(); return s.Group > 1 && s.C == s.Group }

// at returns bias[j], 0 where there is none.
func at(bias []int32, j int) int32 {
	if bias == nil {
		return 0
	}
	return bias[j]
}
