package jpeg

// Constants of libjpeg's jidctint.c: cosines in 13-bit fixed point.
const (
	constBits = 13
	pass1Bits = 2

	fix0298631336 = 2446
	fix0390180644 = 3196
	fix0541196100 = 4433
	fix0765366865 = 6270
	fix0899976223 = 7373
	fix1175875602 = 9633
	fix1501321110 = 12299
	fix1847759065 = 15137
	fix1961570560 = 16069
	fix2053119869 = 16819
	fix2562915447 = 20995
	fix3072711026 = 25172
)

// idct is jpeg_idct_islow: the inverse DCT after Loeffler, Ligtenberg and Moschytz in 32 bits, columns first. It takes
// dequantized coefficients in natural order and writes 8 rows of samples.
func idct(c *[64]int32, dst []uint8, stride int) {
	for i := range 8 {
		v := [8]int32{c[i], c[8+i], c[16+i], c[24+i], c[32+i], c[40+i], c[48+i], c[56+i]}
		if v[1]|v[2]|v[3]|v[4]|v[5]|v[6]|v[7] == 0 { // exactly what the full transform gives
			for k := range 8 {
				c[8*k+i] = v[0] << pass1Bits
			}
			continue
		}
		idct1D(&v, constBits-pass1Bits)
		for k, x := range v {
			c[8*k+i] = x
		}
	}
	for i := range 8 {
		v := [8]int32(c[8*i:])
		idct1D(&v, constBits+pass1Bits+3)
		row := dst[i*stride:][:8]
		for k, x := range v {
			row[k] = clamp(int(x) + 128)
		}
	}
}

// idct1D transforms eight values in place and shifts the result down, rounding halves up.
func idct1D(v *[8]int32, shift int) {
	z1 := (v[2] + v[6]) * fix0541196100
	t2 := z1 - v[6]*fix1847759065
	t3 := z1 + v[2]*fix0765366865
	t0 := (v[0] + v[4]) << constBits
	t1 := (v[0] - v[4]) << constBits
	t10, t13, t11, t12 := t0+t3, t0-t3, t1+t2, t1-t2

	t0, t1, t2, t3 = v[7], v[5], v[3], v[1]
	z1, z2, z3, z4 := t0+t3, t1+t2, t0+t2, t1+t3
	z5 := (z3 + z4) * fix1175875602
	z1 *= -fix0899976223
	z2 *= -fix2562915447
	z3 = z5 - z3*fix1961570560
	z4 = z5 - z4*fix0390180644
	t0 = t0*fix0298631336 + z1 + z3
	t1 = t1*fix2053119869 + z2 + z4
	t2 = t2*fix3072711026 + z2 + z3
	t3 = t3*fix1501321110 + z1 + z4

	half := int32(1) << (shift - 1)
	v[0], v[7] = (t10+t3+half)>>shift, (t10-t3+half)>>shift
	v[1], v[6] = (t11+t2+half)>>shift, (t11-t2+half)>>shift
	v[2], v[5] = (t12+t1+half)>>shift, (t12-t1+half)>>shift
	v[3], v[4] = (t13+t0+half)>>shift, (t13-t0+half)>>shift
}
