package imaging

import (
	"fmt"
	"image"
	"image/color"
)

// fromPNG converts what image/png decodes. Samples are taken as they are stored, never multiplied by alpha.
func fromPNG(m image.Image) (*Image, error) {
	b := m.Bounds()
	w, h := b.Dx(), b.Dy()
	switch m := m.(type) {
	case *image.Gray:
		out := New(w, h, 1)
		copyRows(out.Pix, m.Pix, w, h, m.Stride, 1, []int{0})
		return out, nil
	case *image.Gray16:
		// The high byte, as for 16-bit colour. Here Pillow differs: it clips such samples to 255, which leaves white.
		out := New(w, h, 1)
		copyRows(out.Pix, m.Pix, w, h, m.Stride, 2, []int{0})
		return out, nil
	case *image.RGBA:
		return strided(m.Pix, w, h, m.Stride, 4, 1), nil
	case *image.NRGBA:
		return strided(m.Pix, w, h, m.Stride, 4, 1), nil
	case *image.RGBA64:
		return strided(m.Pix, w, h, m.Stride, 8, 2), nil
	case *image.NRGBA64:
		return strided(m.Pix, w, h, m.Stride, 8, 2), nil
	case *image.Paletted:
		var table [256][3]uint8
		for i, c := range m.Palette {
			switch c := c.(type) {
			case color.RGBA:
				table[i] = [3]uint8{c.R, c.G, c.B}
			case color.NRGBA:
				table[i] = [3]uint8{c.R, c.G, c.B}
			}
		}
		out := New(w, h, 3)
		for y := range h {
			for x, v := range m.Pix[y*m.Stride:][:w] {
				copy(out.Pix[(y*w+x)*3:], table[v][:])
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("PNG: unexpected pixel type %T", m)
}

// strided takes the colours out of pixels of size bytes, whose samples are step bytes apart, the high byte first.
func strided(pix []uint8, w, h, stride, size, step int) *Image {
	out := New(w, h, 3)
	copyRows(out.Pix, pix, w, h, stride, size, []int{0, step, 2 * step})
	return out
}

// copyRows copies the bytes at offsets of each pixel of size bytes.
func copyRows(dst, src []uint8, w, h, stride, size int, offsets []int) {
	for y := range h {
		row := src[y*stride:]
		for x := range w {
			for i, o := range offsets {
				dst[i] = row[x*size+o]
			}
			dst = dst[len(offsets):]
		}
	}
}
