package imaging

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"

	"golang.org/x/image/webp"

	"qwb/calib/data/imaging/jpeg"
)

// Format names an image format that Decode reads.
type Format string

// The formats that Decode reads.
const (
	JPEG Format = "JPEG"
	PNG  Format = "PNG"
	WebP Format = "WebP"
)

// SniffLen is how many bytes Sniff needs.
const SniffLen = 12

// Sniff tells the format from the first bytes of a file, "" if it is none of those that Decode reads.
func Sniff(head []byte) Format {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return JPEG
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return PNG
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return WebP
	}
	return ""
}

// maxPixels bounds the size of a picture; Pillow calls 179 million pixels a decompression bomb.
const maxPixels = 1 << 27

// Decode reads a picture as grey or RGB, the latter as Pillow's convert("RGB") gives it: alpha is dropped, palettes are
// looked up, 16-bit samples keep their high byte (of grey ones too, which Pillow clips), CMYK is converted without a profile. A damaged
// file is an error; no part of it is returned.
func Decode(src []byte) (*Image, error) {
	switch Sniff(src) {
	case JPEG:
		return decodeJPEG(src)
	case PNG:
		if err := checkSize(png.DecodeConfig(bytes.NewReader(src))); err != nil {
			return nil, fmt.Errorf("PNG: %w", err)
		}
		m, err := png.Decode(bytes.NewReader(src))
		if err != nil {
			return nil, fmt.Errorf("PNG: %w", err)
		}
		return fromPNG(m)
	case WebP:
		err := checkSize(webp.DecodeConfig(bytes.NewReader(src)))
		if err == nil {
			err = checkFrames(src)
		}
		if err != nil {
			return nil, fmt.Errorf("WebP: %w", err)
		}
		m, err := webp.Decode(bytes.NewReader(src))
		if err != nil {
			return nil, fmt.Errorf("WebP: %w", err)
		}
		return fromWebP(m)
	}
	if len(src) == 0 {
		return nil, errors.New("the file is empty")
	}
	return nil, errors.New("neither JPEG, PNG nor WebP")
}

// Pixels is how many pixels a picture has by its header, 0 where that cannot be read: Decode says why.
func Pixels(src []byte) int64 {
	var c image.Config
	var err error
	switch Sniff(src) {
	case JPEG:
		return jpeg.Pixels(src)
	case PNG:
		c, err = png.DecodeConfig(bytes.NewReader(src))
	case WebP:
		c, err = webp.DecodeConfig(bytes.NewReader(src))
	}
	if err != nil {
		return 0
	}
	return int64(c.Width) * int64(c.Height)
}

func checkSize(c image.Config, err error) error {
	if err != nil {
		return err
	}
	if c.Width < 1 || c.Height < 1 || c.Width > maxPixels/c.Height {
		return fmt.Errorf("%dx%d pixels are out of bounds", c.Width, c.Height)
	}
	return nil
}
