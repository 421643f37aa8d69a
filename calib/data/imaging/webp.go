package imaging

import (
	"encoding/binary"
	"fmt"
	"image"
)

// checkFrames holds the sizes of the pictures inside a WebP file: an extended file states the size of its canvas as well, which is all
// that webp.DecodeConfig looks at.
func checkFrames(src []byte) error {
	const header = 8
	for rest := src[min(12, len(src)):]; len(rest) >= header; {
		name, size := string(rest[:4]), int64(binary.LittleEndian.Uint32(rest[4:]))
		data := rest[header:]
		var c image.Config
		switch {
		case name == "VP8 " && len(data) >= 10: // three bytes of tag, three of start code, two sizes of 14 bits
			c.Width = int(binary.LittleEndian.Uint16(data[6:]) & 0x3fff)
			c.Height = int(binary.LittleEndian.Uint16(data[8:]) & 0x3fff)
		case name == "VP8L" && len(data) >= 5: // a byte of signature, two sizes of 14 bits, less one
			bits := binary.LittleEndian.Uint32(data[1:])
			c.Width, c.Height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
		default:
			c.Width, c.Height = 1, 1
		}
		if err := checkSize(c, nil); err != nil {
			return err
		}
		next := size + size%2
		if next >= int64(len(data)) {
			return nil
		}
		rest = data[next:]
	}
	return nil
}

// fromWebP converts what x/image/webp decodes. Lossy pictures are YCbCr in video range with halved chroma; they are
// upsampled and converted as libwebp does by default (dsp/upsampling.c and dsp/yuv.h).
func fromWebP(m image.Image) (*Image, error) {
	switch m := m.(type) {
	case *image.NRGBA:
		return strided(m.Pix, m.Rect.Dx(), m.Rect.Dy(), m.Stride, 4, 1), nil
	case *image.YCbCr:
		return webpToRGB(m), nil
	case *image.NYCbCrA:
		return webpToRGB(&m.YCbCr), nil
	}
	return nil, fmt.Errorf("WebP: unexpected pixel type %T", m)
}

func webpToRGB(m *image.YCbCr) *Image {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	out := New(w, h, 3)
	chroma := func(y int) ([]uint8, []uint8) {
		y = min(max(y, 0), (h+1)/2-1)
		n := (w + 1) / 2
		return m.Cb[y*m.CStride:][:n], m.Cr[y*m.CStride:][:n]
	}
	for y := range h {
		// The chroma row that is nearer to this row of pixels, and the farther one on its other side.
		near, far := y/2, y/2-1
		if y%2 == 1 {
			far = y/2 + 1
		}
		u, v := chroma(near)
		fu, fv := chroma(far)
		webpRow(out.Pix[y*w*3:][:w*3], m.Y[y*m.YStride:][:w], u, v, fu, fv)
	}
	return out
}

// webpRow converts one row. Chroma is interpolated with weights 9, 3, 3, 1, in libwebp's order of roundings.
func webpRow(dst, luma, u, v, farU, farV []uint8) {
	edge := func(near, far []uint8, i int) int { return (3*int(near[i]) + int(far[i]) + 2) >> 2 }
	webpPixel(dst, luma[0], edge(u, farU, 0), edge(v, farV, 0))
	n := len(luma)
	for i := 1; i <= (n-1)/2; i++ {
		ul, ur := diagonals(u[i-1], u[i], farU[i-1], farU[i])
		vl, vr := diagonals(v[i-1], v[i], farV[i-1], farV[i])
		webpPixel(dst[(2*i-1)*3:], luma[2*i-1], ul, vl)
		webpPixel(dst[2*i*3:], luma[2*i], ur, vr)
	}
	if n%2 == 0 {
		webpPixel(dst[(n-1)*3:], luma[n-1], edge(u, farU, n/2-1), edge(v, farV, n/2-1))
	}
}

// diagonals interpolates the two positions between the chroma samples left and right of the near row.
func diagonals(left, right, farLeft, farRight uint8) (int, int) {
	l, r, fl, fr := int(left), int(right), int(farLeft), int(farRight)
	sum := l + r + fl + fr + 8
	return ((sum+2*(r+fl))>>3 + l) >> 1, ((sum+2*(l+fr))>>3 + r) >> 1
}

// webpPixel is VP8YuvToRgb.
func webpPixel(dst []uint8, y uint8, u, v int) {
	luma := int(y) * 19077 >> 8
	dst[0] = clip6(luma + v*26149>>8 - 14234)
	dst[1] = clip6(luma - u*6419>>8 - v*13320>>8 + 8708)
	dst[2] = clip6(luma + u*33050>>8 - 17685)
}

func clip6(v int) uint8 { return uint8(min(max(v>>6, 0), 255)) }
