package imaging

// plane is one component of a JPEG picture: a sample for every hs x vs pixels.
type plane struct {
	pix    []uint8
	stride int
	hs, vs int
}

// upsampleRow writes row y of the component at full resolution to dst, for a picture of w x h pixels. It is libjpeg's
// default: triangle filters for 2:1 in one or both directions (fancy upsampling, jdsample.c), repetition for other ratios.
// sums is scratch for at least a row of samples.
func (p plane) upsampleRow(dst []uint8, y, w, h int, sums []int) {
	cw, ch := (w+p.hs-1)/p.hs, (h+p.vs-1)/p.vs
	row := func(i int) []uint8 {
		i = min(max(i, 0), ch-1)
		return p.pix[i*p.stride:][:cw]
	}
	near := row(y / p.vs)
	far := row(y/p.vs - 1)
	if y%2 == 1 {
		far = row(y/p.vs + 1)
	}
	switch {
	case p.hs == 1 && p.vs == 1:
		copy(dst, near)
	case p.hs == 2 && p.vs == 1 && cw > 2:
		for i, v := range near {
			sums[i] = int(v)
		}
		interpolate(dst, sums[:cw], w, 1, 2, 2)
	case p.hs == 2 && p.vs == 2 && cw > 2:
		for i, v := range near {
			sums[i] = 3*int(v) + int(far[i])
		}
		interpolate(dst, sums[:cw], w, 8, 7, 4)
	case p.hs == 1 && p.vs == 2:
		bias := 1 + y%2
		for i, v := range near {
			dst[i] = uint8((3*int(v) + int(far[i]) + bias) >> 2)
		}
	default:
		for x := range w {
			dst[x] = near[x/p.hs]
		}
	}
}

// interpolate doubles a row of sums: each output is three quarters of the nearer and a quarter of the farther sample,
// shifted down; outputs to the left of a sample are rounded with one bias, those to its right with the other, which
// alternates the direction of ties (ordered dither, as jdsample.c calls it).
func interpolate(dst []uint8, s []int, w, left, right, shift int) {
	for x := range w {
		i := x / 2
		far, bias := max(i-1, 0), left
		if x%2 == 1 {
			far, bias = min(i+1, len(s)-1), right
		}
		dst[x] = uint8((3*s[i] + s[far] + bias) >> shift)
	}
}

// Colour conversion of JPEG (JFIF, full range BT.601) in 16-bit fixed point, as in libjpeg's jdcolor.c.
const (
	fixOne = 1 << 16
	crToR  = 91881  // 1.40200
	cbToB  = 116130 // 1.77200
	crToG  = 46802  // 0.71414
	cbToG  = 22554  // 0.34414
)

func yccToRGB(w, h int, y, cb, cr plane) *Image {
	out := New(w, h, 3)
	rows := make([]uint8, 3*w)
	ys, cbs, crs := rows[:w], rows[w:2*w], rows[2*w:]
	sums := make([]int, w)
	for i := range h {
		y.upsampleRow(ys, i, w, h, sums)
		cb.upsampleRow(cbs, i, w, h, sums)
		cr.upsampleRow(crs, i, w, h, sums)
		dst := out.Pix[i*w*3:][:w*3]
		for x, l := range ys {
			r, g, b := yccPixel(int(l), int(cbs[x])-128, int(crs[x])-128)
			dst[3*x], dst[3*x+1], dst[3*x+2] = r, g, b
		}
	}
	return out
}

func yccPixel(y, cb, cr int) (r, g, b uint8) {
	return clamp(y + (crToR*cr+fixOne/2)>>16), clamp(y + (-cbToG*cb-crToG*cr+fixOne/2)>>16), clamp(y + (cbToB*cb+fixOne/2)>>16)
}

func clamp(v int) uint8 { return uint8(min(max(v, 0), 255)) }
