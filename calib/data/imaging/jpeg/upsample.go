package jpeg

// plane holds the samples of one component: one for every hs x vs pixels.
type plane struct {
	pix    []uint8
	stride int
	hs, vs int
	w, h   int // samples that belong to the picture
}

// upsampleRow writes row y of the component at full resolution to dst. It is libjpeg's default: triangle filters for 2:1 in
// one or both directions ("fancy upsampling", jdsample.c), repetition for other ratios. Rows and columns beyond the picture
// repeat its border. sums is scratch for at least a row of samples.
func (p plane) upsampleRow(dst []uint8, y int, sums []int) {
	row := func(i int) []uint8 {
		i = min(max(i, 0), p.h-1)
		return p.pix[i*p.stride:][:p.w]
	}
	near := row(y / p.vs)
	far := row(y/p.vs - 1)
	if y%2 == 1 {
		far = row(y/p.vs + 1)
	}
	switch {
	case p.hs == 1 && p.vs == 1:
		copy(dst, near)
	case p.hs == 2 && p.vs == 1 && p.w > 2:
		for i, v := range near {
			sums[i] = int(v)
		}
		interpolate(dst, sums[:p.w], 1, 2, 2)
	case p.hs == 2 && p.vs == 2 && p.w > 2:
		for i, v := range near {
			sums[i] = 3*int(v) + int(far[i])
		}
		interpolate(dst, sums[:p.w], 8, 7, 4)
	case p.hs == 1 && p.vs == 2:
		bias := 1 + y%2
		for i, v := range near {
			dst[i] = uint8((3*int(v) + int(far[i]) + bias) >> 2)
		}
	default:
		for x := range dst {
			dst[x] = near[x/p.hs]
		}
	}
}

// interpolate doubles a row of sums: each output is three quarters of the nearer and a quarter of the farther sample, shifted
// down. Outputs left of a sample are rounded with another bias than those right of it, which spreads the ties.
func interpolate(dst []uint8, s []int, left, right, shift int) {
	for x := range dst {
		i := x / 2
		far, bias := max(i-1, 0), left
		if x%2 == 1 {
			far, bias = min(i+1, len(s)-1), right
		}
		dst[x] = uint8((3*s[i] + s[far] + bias) >> shift)
	}
}
