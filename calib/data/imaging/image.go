package imaging

import "fmt"

// Image is a picture of 8-bit samples, row-major with its C channels interleaved: 1 is grey, 3 is red, green, blue.
type Image struct {
	W, H, C int
	Pix     []uint8 // W*H*C samples
}

// New allocates a black image.
func New(w, h, c int) *Image { return &Image{W: w, H: h, C: c, Pix: make([]uint8, w*h*c)} }

// RGB returns the image with three channels; a grey one is repeated in each. It may return the image itself.
func (m *Image) RGB() *Image {
	if m.C == 3 {
		return m
	}
	out := New(m.W, m.H, 3)
	for i, v := range m.Pix {
		out.Pix[3*i], out.Pix[3*i+1], out.Pix[3*i+2] = v, v, v
	}
	return out
}

// Grey returns the image with one channel, the luma of ITU-R BT.601 in 16-bit fixed point as Pillow's mode L computes it.
// It may return the image itself.
func (m *Image) Grey() *Image {
	if m.C == 1 {
		return m
	}
	out := New(m.W, m.H, 1)
	for i := range out.Pix {
		r, g, b := uint32(m.Pix[3*i]), uint32(m.Pix[3*i+1]), uint32(m.Pix[3*i+2])
		out.Pix[i] = uint8((r*19595 + g*38470 + b*7471 + 0x8000) >> 16)
	}
	return out
}

// CenterCrop cuts h rows and w columns out of the middle; an odd margin leaves the larger half at the bottom and right.
// An image that is smaller than the cut is an error.
func (m *Image) CenterCrop(h, w int) (*Image, error) {
	if h < 1 || w < 1 || h > m.H || w > m.W {
		return nil, fmt.Errorf("a crop of %dx%d (height x width) out of an image of %dx%d", h, w, m.H, m.W)
	}
	if h == m.H && w == m.W {
		return m, nil
	}
	out := New(w, h, m.C)
	top, left := (m.H-h)/2, (m.W-w)/2
	for y := range h {
		copy(out.Pix[y*w*m.C:][:w*m.C], m.Pix[((top+y)*m.W+left)*m.C:])
	}
	return out, nil
}
