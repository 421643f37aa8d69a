package ref

// Conv is, for every image n, output position (z, y, x) and output channel m of group g,
//
//	acc = 0
//	for kd, kh, kw, c in 0..C/Group: acc = acc + in(n, z*StrideD-PadFront+kd*DilD, ..., g*C/Group+c) * w[m, c, kd, kh, kw]
//	dst[n, z, y, x, m] = activation(acc + bias[m] + add[n, z, y, x, m])
//
// where in(...) is src, or +0 outside it. src and dst are channels-last, w is [M, C/Group, KD, KH, KW].
func Conv(ar Arith, dst, src, w []float32, s ConvShape, ep Epilogue) {
	s = s.Full()
	cg, mg := s.C/s.Group, s.M/s.Group
	s.eachOutput(func(n, z, y, x, at int) {
		for m := range s.M {
			acc, g := 0.0, m/mg
			for kd := range s.KD {
				for kh := range s.KH {
					for kw := range s.KW {
						p, inside := s.at(n, z*s.StrideD-s.PadFront+kd*s.DilD, y*s.StrideH-s.PadTop+kh*s.DilH, x*s.StrideW-s.PadLeft+kw*s.DilW)
						for c := range cg {
							v := float32(0)
							if inside {
								v = src[p*s.C+g*cg+c]
							}
							acc = ar.MulAdd(acc, v, w[(((m*cg+c)*s.KD+kd)*s.KH+kh)*s.KW+kw])
						}
					}
				}
			}
			dst[at*s.M+m] = ar.finish(acc, ep, m, at*s.M+m)
		}
	})
	ep.Finish(s.N * s.OutD * s.OutH * s.OutW)
}

// ConvTranspose is, for every image n, output position (z, y, x) and output channel m of group g,
//
//	acc = 0
//	for kd, kh, kw in order, where z+PadFront-kd*DilD = StrideD*i, y+PadTop-kh*DilH = StrideH*j, x+PadLeft-kw*DilW = StrideW*l:
//	  for c in 0..C/Group: acc = acc + in(n, i, j, l, g*C/Group+c) * w[g*C/Group+c, m-g*M/Group, kd, kh, kw]
//	dst[n, z, y, x, m] = activation(acc + bias[m] + add[n, z, y, x, m])
//
// where in(...) is src, or +0 outside it. src and dst are channels-last, w is [C, M/Group, KD, KH, KW]. Kernel positions that
// fall between input positions do not take part.
func ConvTranspose(ar Arith, dst, src, w []float32, s ConvShape, ep Epilogue) {
	s = s.Full()
	cg, mg := s.C/s.Group, s.M/s.Group
	s.eachOutput(func(n, z, y, x, at int) {
		for m := range s.M {
			acc, g := 0.0, m/mg
			for kd := range s.KD {
				for kh := range s.KH {
					for kw := range s.KW {
						i, iOK := exactly(z+s.PadFront-kd*s.DilD, s.StrideD)
						j, jOK := exactly(y+s.PadTop-kh*s.DilH, s.StrideH)
						l, lOK := exactly(x+s.PadLeft-kw*s.DilW, s.StrideW)
						if !iOK || !jOK || !lOK {
							continue
						}
						p, inside := s.at(n, i, j, l)
						for c := g * cg; c < (g+1)*cg; c++ {
							v := float32(0)
							if inside {
								v = src[p*s.C+c]
							}
							acc = ar.MulAdd(acc, v, w[(((c*mg+m-g*mg)*s.KD+kd)*s.KH+kh)*s.KW+kw])
						}
					}
				}
			}
			dst[at*s.M+m] = ar.finish(acc, ep, m, at*s.M+m)
		}
	})
	ep.Finish(s.N * s.OutD * s.OutH * s.OutW)
}

// exactly returns v/d and whether the division leaves no remainder.
func exactly(v, d int) (int, bool) { return v / d, v%d == 0 }

// at returns the number of the input position and whether it lies inside the input.
func (s ConvShape) at(n, z, y, x int) (int, bool) {
	inside := z >= 0 && z < s.D && y >= 0 && y < s.H && x >= 0 && x < s.W
	return ((n*s.D+z)*s.H+y)*s.W + x, inside
}

// eachOutput calls f for every output position, at being its number.
func (s ConvShape) eachOutput(f func(n, z, y, x, at int)) {
	at := 0
	for n := range s.N {
		for z := range s.OutD {
			for y := range s.OutH {
				for x := range s.OutW {
					f(n, z, y, x, at)
					at++
				}
			}
		}
	}
}
