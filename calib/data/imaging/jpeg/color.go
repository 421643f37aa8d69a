package jpeg

// Colour conversion of JFIF (full range BT.601) in 16-bit fixed point, as in libjpeg's jdcolor.c.
const (
	fixOne = 1 << 16
	crToR  = 91881  // 1.40200
	cbToB  = 116130 // 1.77200
	crToG  = 46802  // 0.71414
	cbToG  = 22554  // 0.34414
)

// isYCC tells whether the first three components are luma and chroma, by the rules of libjpeg's jdapimin.c.
func (d *decoder) isYCC() bool {
	if len(d.comps) == 4 {
		return d.adobe && d.transform == 2
	}
	switch {
	case d.jfif:
		return true
	case d.adobe:
		return d.transform != 0
	}
	return [3]uint8{d.comps[0].id, d.comps[1].id, d.comps[2].id} != [3]uint8{'R', 'G', 'B'}
}

// picture upsamples the components and converts them to grey or RGB.
func (d *decoder) picture() (*Picture, error) {
	n := len(d.comps)
	p := &Picture{W: d.w, H: d.h, C: 3}
	if n == 1 {
		p.C = 1
	}
	p.Pix = make([]uint8, p.W*p.H*p.C)
	hMax, vMax := 1, 1
	for _, c := range d.comps {
		hMax, vMax = max(hMax, c.hs), max(vMax, c.vs)
	}
	rows := make([][]uint8, n)
	for i := range rows {
		rows[i] = make([]uint8, d.w)
	}
	sums := make([]int, d.w)
	ycc := n > 1 && d.isYCC()
	for y := range d.h {
		for i := range d.comps {
			c := &d.comps[i]
			plane{c.pix, c.blocksX * 8, hMax / c.hs, vMax / c.vs, c.w, c.h}.upsampleRow(rows[i], y, sums)
		}
		dst := p.Pix[y*p.W*p.C:][:p.W*p.C]
		switch {
		case n == 1:
			copy(dst, rows[0])
		case n == 3:
			rgbRow(dst, rows, ycc)
		default:
			cmykRow(dst, rows, ycc)
		}
	}
	return p, nil
}

func rgbRow(dst []uint8, rows [][]uint8, ycc bool) {
	for x, v := range rows[0] {
		r, g, b := v, rows[1][x], rows[2][x]
		if ycc {
			r, g, b = yccPixel(int(r), int(g)-128, int(b)-128)
		}
		dst[3*x], dst[3*x+1], dst[3*x+2] = r, g, b
	}
}

// cmykRow converts inverted CMYK as Pillow does: each ink takes away from what black leaves.
func cmykRow(dst []uint8, rows [][]uint8, ycc bool) {
	for x, v := range rows[0] {
		c, m, y, white := v, rows[1][x], rows[2][x], int(rows[3][x])
		if ycc {
			r, g, b := yccPixel(int(c), int(m)-128, int(y)-128)
			c, m, y = 255-r, 255-g, 255-b
		}
		for i, ink := range [3]uint8{255 - c, 255 - m, 255 - y} {
			t := int(ink)*white + 128
			dst[3*x+i] = clamp(white - (t>>8+t)>>8)
		}
	}
}

func yccPixel(y, cb, cr int) (r, g, b uint8) {
	return clamp(y + (crToR*cr+fixOne/2)>>16), clamp(y + (-cbToG*cb-crToG*cr+fixOne/2)>>16), clamp(y + (cbToB*cb+fixOne/2)>>16)
}

func clamp(v int) uint8 { return uint8(min(max(v, 0), 255)) }
