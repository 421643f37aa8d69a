package imaging

import "math"

// precisionBits is the fixed point of the weights: 8 bits for the samples and 2 for sums of negative lobes are left of 32.
const precisionBits = 32 - 8 - 2

// Resize scales the image to w x h pixels as Pillow's Image.resize does: separable convolution, first along rows, then along
// columns, 8-bit samples in between, weights in 22-bit fixed point, and a kernel that is widened by the ratio when shrinking
// (antialiasing), except for nearest. w and h are at least 1. It may return the image itself.
func (m *Image) Resize(w, h int, f Filter) *Image {
	if w == m.W && h == m.H {
		return m
	}
	if f.weight == nil {
		return m.nearest(w, h)
	}
	out := m
	if w != m.W {
		out = out.resizeRows(w, f)
	}
	if h != m.H {
		out = out.resizeColumns(h, f)
	}
	return out
}

// taps are the weights of one output sample: those of the inputs from first on.
type taps struct {
	first   int
	weights []int32
}

// computeTaps is precompute_coeffs and normalize_coeffs_8bpc of Pillow's Resample.c.
func computeTaps(in, out int, f Filter) []taps {
	scale := float64(in) / float64(out)
	widen := max(scale, 1)
	support := f.support * widen
	list := make([]taps, out)
	k := make([]float64, 0, int(math.Ceil(support))*2+1)
	for i := range list {
		center := float64((float64(i) + 0.5) * scale)
		lo := max(int(center-support+0.5), 0)
		hi := min(int(center+support+0.5), in)
		k = k[:0]
		sum := 0.0
		for x := lo; x < hi; x++ {
			w := f.weight(float64((float64(x) - center + 0.5) * (1 / widen)))
			k = append(k, w)
			sum += w
		}
		list[i] = taps{lo, make([]int32, len(k))}
		for j, w := range k {
			if sum != 0 {
				w /= sum
			}
			fixed := float64(w * (1 << precisionBits))
			list[i].weights[j] = int32(fixed + math.Copysign(0.5, fixed))
		}
	}
	return list
}

func clip8(v int32) uint8 { return uint8(min(max(v>>precisionBits, 0), 255)) }

const half = 1 << (precisionBits - 1)

func (m *Image) resizeRows(w int, f Filter) *Image {
	out := New(w, m.H, m.C)
	list := computeTaps(m.W, w, f)
	for y := range m.H {
		src, dst := m.Pix[y*m.W*m.C:][:m.W*m.C], out.Pix[y*w*m.C:][:w*m.C]
		if m.C == 3 {
			for x, t := range list {
				r, g, b := int32(half), int32(half), int32(half)
				s := src[t.first*3:][:len(t.weights)*3]
				for i, k := range t.weights {
					r += int32(s[3*i]) * k
					g += int32(s[3*i+1]) * k
					b += int32(s[3*i+2]) * k
				}
				dst[3*x], dst[3*x+1], dst[3*x+2] = clip8(r), clip8(g), clip8(b)
			}
			continue
		}
		for x, t := range list {
			for c := range m.C {
				sum := int32(half)
				for i, k := range t.weights {
					sum += int32(src[(t.first+i)*m.C+c]) * k
				}
				dst[x*m.C+c] = clip8(sum)
			}
		}
	}
	return out
}

func (m *Image) resizeColumns(h int, f Filter) *Image {
	out := New(m.W, h, m.C)
	row := m.W * m.C
	sums := make([]int32, row)
	for y, t := range computeTaps(m.H, h, f) {
		for i := range sums {
			sums[i] = half
		}
		for i, k := range t.weights {
			for x, v := range m.Pix[(t.first+i)*row:][:row] {
				sums[x] += int32(v) * k
			}
		}
		dst := out.Pix[y*row:][:row]
		for x, s := range sums {
			dst[x] = clip8(s)
		}
	}
	return out
}

// nearest is ImagingScaleAffine of Pillow's Geometry.c, whose source position is a running sum.
func (m *Image) nearest(w, h int) *Image {
	out := New(w, h, m.C)
	cols := nearestIndex(m.W, w)
	for y, sy := range nearestIndex(m.H, h) {
		for x, sx := range cols {
			copy(out.Pix[(y*w+x)*m.C:][:m.C], m.Pix[(sy*m.W+sx)*m.C:])
		}
	}
	return out
}

func nearestIndex(in, out int) []int {
	step := float64(in) / float64(out)
	list := make([]int, out)
	at := float64(step * 0.5)
	for i := range list {
		list[i] = min(int(at), in-1)
		at += step
	}
	return list
}
