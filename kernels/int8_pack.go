package kernels

// groups returns the number of groups that segments of n elements each take, of segments segments.
func (l layout8) groups(segments, n int) int {
	g := l.group()
	return segments * ((n + g - 1) / g)
}

// panelLen is the length in bytes of a panel of nr columns.
func (l layout8) panelLen(segments, n, nr int) int {
	return l.groups(segments, n) * l.group() * nr * l.bytes()
}

// pack8 writes panels of nr columns for sums over segments runs of n elements; column j takes weight p of run s from
// at(s*n+p, j). dst is all zero before.
func pack8(dst []int8, l layout8, segments, n, cols, nr int, at func(p, j int) int8) {
	g, size := l.group(), l.panelLen(segments, n, nr)
	perSegment := (n + g - 1) / g
	for j0 := 0; j0 < cols; j0 += nr {
		panel := dst[j0/nr*size:][:size]
		for s := range segments {
			for p := range n {
				group, e := s*perSegment+p/g, p%g
				for j := range min(nr, cols-j0) {
					l.put(panel, nr, group, e, j, at(s*n+p, j0+j))
				}
			}
		}
	}
}

// put writes element e of weight group g of column j.
func (l layout8) put(panel []int8, nr, g, e, j int, w int8) {
	switch l {
	case flat8:
		panel[g*nr+j] = w
	case quads8:
		panel[(g*nr+j)*4+e] = w
	case pairs16:
		at := (((g*2+e&1)*nr+j)*2 + e>>1) * 2
		panel[at], panel[at+1] = w, w>>7
	case wide32:
		at := (g*nr + j) * 4
		panel[at], panel[at+1], panel[at+2], panel[at+3] = w, w>>7, w>>7, w>>7
	}
}

// packMatrix8 is pack8 of a k x n matrix with rows ld apart, or with trans of an n x k one, to every element of which flip is
// exclusively ored.
func packMatrix8[T int8 | uint8](dst []int8, l layout8, b []T, k, n, ld int, trans bool, nr int, flip T) {
	size := l.panelLen(1, k, nr)
	sk, sj := ld, 1
	if trans {
		sk, sj = 1, ld
	}
	for j0 := 0; j0 < n; j0 += nr {
		panel := dst[j0/nr*size:][:size]
		cols := min(nr, n-j0)
		if l != quads8 {
			g := l.group()
			for p := range k {
				for j := range cols {
					l.put(panel, nr, p/g, p%g, j, int8(b[p*sk+(j0+j)*sj]^flip))
				}
			}
			continue
		}
		for p := 0; p < k; p += 4 {
			group := panel[p*nr:][:4*nr]
			for e := range min(4, k-p) {
				from := b[(p+e)*sk+j0*sj:]
				for j := range cols {
					group[4*j+e] = int8(from[j*sj] ^ flip)
				}
			}
		}
	}
}

// columnSums8 adds up each of the columns of a k x n matrix of int8, read as packMatrix8 reads it.
func columnSums8[T int8 | uint8](sums []int32, b []T, k, n, ld int, trans bool, flip T) {
	clear(sums)
	for p := range k {
		if !trans {
			for j, w := range b[p*ld:][:n] {
				sums[j] += int32(int8(w ^ flip))
			}
			continue
		}
		for j := range n {
			sums[j] += int32(int8(b[j*ld+p] ^ flip))
		}
	}
}
