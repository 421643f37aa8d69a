package kernels

import "qwb/kernels/ref"

// goGemm is the plain Go gemm tile: four rows at a time share each weight, products are rounded before they are added.
func goGemm(t *tile) {
	const nr = 4
	var acc [4][nr]float32
	if t.load != 0 {
		for i := range t.rows {
			copy(acc[i][:t.cols], t.dst[i*t.ldd:])
		}
	}
	b := t.panel
	r1, r2, r3 := min(1, t.rows-1)*t.lda, min(2, t.rows-1)*t.lda, min(3, t.rows-1)*t.lda
	for _, seg := range t.segs {
		x0, x1 := t.a[seg.off:][:seg.n], t.a[r1+seg.off:][:seg.n]
		x2, x3 := t.a[r2+seg.off:][:seg.n], t.a[r3+seg.off:][:seg.n]
		panel := b[:seg.n*nr]
		b = b[seg.n*nr:]
		goProducts(&acc, x0, x1, x2, x3, panel)
	}
	for i := range t.rows {
		t.store(i, acc[i][:t.cols])
	}
}

// goProducts adds the products of four rows and a panel to their sums. It stands alone because the compiler then keeps more of the loop in
// registers: as WebAssembly a matrix product takes two thirds of the time.
//
//go:noinline
func goProducts(acc *[4][4]float32, x0, x1, x2, x3, panel []float32) {
	const nr = 4
	for half := 0; half < nr; half += 2 {
		// Two columns at a time: eight sums fit into the registers.
		a00, a01, a10, a11 := acc[0][half], acc[0][half+1], acc[1][half], acc[1][half+1]
		a20, a21, a30, a31 := acc[2][half], acc[2][half+1], acc[3][half], acc[3][half+1]
		for p, x := range x0 {
			w := panel[p*nr+half : p*nr+half+2]
			w0, w1 := w[0], w[1]
			a00 += float32(x * w0)
			a01 += float32(x * w1)
			y := x1[p]
			a10 += float32(y * w0)
			a11 += float32(y * w1)
			y = x2[p]
			a20 += float32(y * w0)
			a21 += float32(y * w1)
			y = x3[p]
			a30 += float32(y * w0)
			a31 += float32(y * w1)
		}
		acc[0][half], acc[0][half+1], acc[1][half], acc[1][half+1] = a00, a01, a10, a11
		acc[2][half], acc[2][half+1], acc[3][half], acc[3][half+1] = a20, a21, a30, a31
	}
}

// store applies the epilogue to the sums of one row.
func (t *tile) store(row int, acc []float32) {
	dst := t.dst[row*t.ldd:][:len(acc)]
	for j, v := range acc {
		if t.bias != nil {
			v += t.bias[j]
		}
		dst[j] = ref.Limit(v, t.lo, t.hi)
	}
}

// goDepthwise is the plain Go depthwise tile.
func goDepthwise(t *tile) {
	const nr = 4
	for i := range t.rows {
		var acc [nr]float32
		for k, seg := range t.segs {
			x, w := t.a[i*t.lda+seg.off:][:t.cols], t.panel[k*nr:][:nr]
			for j, v := range x {
				acc[j] += float32(v * w[j])
			}
		}
		t.store(i, acc[:t.cols])
	}
}

// goMaxWindow is the plain Go tile of the largest value.
func goMaxWindow(t *tile) {
	t.window(func(acc, x []float32) {
		for j, v := range x {
			if a := acc[j]; a == a && !(v <= a) {
				acc[j] = v
			}
		}
	})
}

// goSumWindow is the plain Go tile of the sum.
func goSumWindow(t *tile) {
	t.window(func(acc, x []float32) {
		for j, v := range x {
			acc[j] += v
		}
	})
}

// window starts every row of dst as lo and calls add with it and the row of a of every segment.
func (t *tile) window(add func(acc, x []float32)) {
	for i := range t.rows {
		acc := t.dst[i*t.ldd:][:t.cols]
		for j := range acc {
			acc[j] = t.lo
		}
		for _, seg := range t.segs {
			add(acc, t.a[i*t.lda+seg.off:][:t.cols])
		}
	}
}

// goGemm64 accumulates in float64. It must be given whole sums: load is not supported because dst could not hold them.
func goGemm64(t *tile) {
	const nr = 4
	for i := range t.rows {
		var acc [nr]float64
		b := t.panel
		for _, seg := range t.segs {
			for p, x := range t.a[i*t.lda+seg.off:][:seg.n] {
				w, v := b[p*nr:][:nr], float64(x)
				acc[0] += float64(v * float64(w[0]))
				acc[1] += float64(v * float64(w[1]))
				acc[2] += float64(v * float64(w[2]))
				acc[3] += float64(v * float64(w[3]))
			}
			b = b[seg.n*nr:]
		}
		t.store64(i, acc[:t.cols])
	}
}

// goDepthwise64 is goDepthwise in float64.
func goDepthwise64(t *tile) {
	const nr = 4
	for i := range t.rows {
		var acc [nr]float64
		for k, seg := range t.segs {
			x, w := t.a[i*t.lda+seg.off:][:t.cols], t.panel[k*nr:][:nr]
			for j, v := range x {
				acc[j] += float64(float64(v) * float64(w[j]))
			}
		}
		t.store64(i, acc[:t.cols])
	}
}

// store64 adds the bias in float64 and rounds once.
func (t *tile) store64(row int, acc []float64) {
	dst := t.dst[row*t.ldd:][:len(acc)]
	for j, v := range acc {
		if t.bias != nil {
			v += float64(t.bias[j])
		}
		dst[j] = ref.Limit(float32(v), t.lo, t.hi)
	}
}
