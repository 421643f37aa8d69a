package imaging

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
)

func decodeJPEG(src []byte) (*Image, error) {
	if err := checkSize(jpeg.DecodeConfig(bytes.NewReader(src))); err != nil {
		return nil, fmt.Errorf("JPEG: %w", err)
	}
	m, err := jpeg.Decode(bytes.NewReader(src))
	if err != nil {
		return nil, fmt.Errorf("JPEG: %w", err)
	}
	w, h := m.Bounds().Dx(), m.Bounds().Dy()
	switch m := m.(type) {
	case *image.Gray:
		out := New(w, h, 1)
		copyRows(out.Pix, m.Pix, w, h, m.Stride, 1, []int{0})
		return out, nil
	case *image.YCbCr:
		hs, vs := 1, 1
		switch m.SubsampleRatio {
		case image.YCbCrSubsampleRatio422:
			hs = 2
		case image.YCbCrSubsampleRatio420:
			hs, vs = 2, 2
		case image.YCbCrSubsampleRatio440:
			vs = 2
		}
		return yccToRGB(w, h, plane{m.Y, m.YStride, 1, 1}, plane{m.Cb, m.CStride, hs, vs}, plane{m.Cr, m.CStride, hs, vs}), nil
	}
	return nil, fmt.Errorf("JPEG: %T", m)
}
