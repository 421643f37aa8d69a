package imaging

import (
	"fmt"

	"qwb/calib/data/imaging/jpeg"
)

func decodeJPEG(src []byte) (*Image, error) {
	p, err := jpeg.Decode(src, maxPixels)
	if err != nil {
		return nil, fmt.Errorf("JPEG: %w", err)
	}
	return &Image{W: p.W, H: p.H, C: p.C, Pix: p.Pix}, nil
}
