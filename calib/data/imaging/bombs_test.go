package imaging

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Headers that claim as many pixels as their format can over a few bytes of data are refused before anything is allocated for pixels.
func TestDimensionBombs(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\xff\xff\x00\x00\xff\xff\x08\x02\x00\x00\x00")
	png = binary.BigEndian.AppendUint32(png, crc32.ChecksumIEEE(png[12:]))
	png = append(png, "\x00\x00\x00\x00IDAT\x35\xaf\x06\x1e"...)
	jpeg, err := os.ReadFile("jpeg/testdata/420.jpg")
	require.NoError(t, err)
	frame := bytes.Index(jpeg, []byte("\xff\xc0\x00\x11\x08"))
	require.Positive(t, frame)
	copy(jpeg[frame+5:], "\xff\xff\xff\xff") // a whole file, but for its size
	for what, src := range map[string][]byte{
		"PNG":  png,
		"JPEG": jpeg,
		// As large as the formats within WebP allow: 16384x16384 and 16383x16383.
		"WebP lossless": []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0e\x00\x00\x00\x2f\xff\xff\xff\x0f\x88\x88\x08\x00\x00\x00\x00\x00\x00"),
		"WebP lossy":    []byte("RIFF\x16\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00\x10\x00\x00\x9d\x01\x2a\xff\x3f\xff\x3f"),
		"WebP canvas":   []byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x3f\x9c\x00\x3f\x9c\x00"),
		// A small canvas around a frame as large as the formats allow.
		"WebP lossy in a canvas":    append(canvas(0x16), "VP8 \x0a\x00\x00\x00\x10\x00\x00\x9d\x01\x2a\xff\x3f\xff\x3f"...),
		"WebP lossless in a canvas": append(canvas(0x1a), "VP8L\x0e\x00\x00\x00\x2f\xff\xff\xff\x0f\x88\x88\x08\x00\x00\x00\x00\x00\x00"...),
	} {
		t.Run(what, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Decode(src)
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, "pixels are out of bounds")
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	}
}

// canvas is the start of an extended WebP file of 64x64 pixels whose next chunk takes so many bytes.
func canvas(chunk byte) []byte {
	return append([]byte{'R', 'I', 'F', 'F', 4 + 18 + chunk, 0, 0, 0}, "WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x3f\x00\x00\x3f\x00\x00"...)
}

// TestLimitsAreTheSame: the largest picture that is decoded has the same number of pixels in every format.
func TestLimitsAreTheSame(t *testing.T) {
	for _, c := range []struct{ w, h int }{{16000, 8000}, {16000, 8400}, {12000, 12000}} {
		require.Equal(t, c.w*c.h <= maxPixels, checkSize(image.Config{Width: c.w, Height: c.h}, nil) == nil)
		lossy := append(canvas(0x12), 'V', 'P', '8', ' ', 10, 0, 0, 0, 0x10, 0, 0, 0x9d, 1, 0x2a, byte(c.w), byte(c.w>>8), byte(c.h),
			byte(c.h>>8))
		require.Equal(t, c.w*c.h <= maxPixels, checkFrames(lossy) == nil)
	}
}
