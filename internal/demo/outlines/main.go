// Command outlines writes the outlines of the demo's glyphs, which are a fortieth of the fonts that they are from: Go's fonts, by Bigelow
// & Holmes, under the licence of golang.org/x/image.
//
//	go generate ./internal/demo
package main

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gobolditalic"
	"golang.org/x/image/font/gofont/goitalic"
	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"

	"qwb/internal/demo"
)

func main() {
	b, err := outlines()
	if err == nil {
		err = os.WriteFile("outlines.bin", b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "outlines:", err)
		os.Exit(1)
	}
}

// points are how many points a segment of a kind has: move, line, and curves of the second and third degree.
var points = [...]int{sfnt.SegmentOpMoveTo: 1, sfnt.SegmentOpLineTo: 1, sfnt.SegmentOpQuadTo: 2, sfnt.SegmentOpCubeTo: 3}

// outlines has, font by font and in each by the alphabet: the number of segments in 16 bits; of each a byte for its kind, and the
// coordinates of its points in 16 bits each, 64ths of a pixel where the font has 26 of them; little-endian.
func outlines() (b []byte, err error) {
	var buf sfnt.Buffer
	for i, ttf := range [][]byte{goregular.TTF, gobold.TTF, goitalic.TTF, gobolditalic.TTF, gomedium.TTF, gomono.TTF, gomonobold.TTF} {
		f, err := sfnt.Parse(ttf)
		if err != nil {
			return nil, fmt.Errorf("font %d: %w", i, err)
		}
		for _, r := range demo.Alphabet {
			idx, err := f.GlyphIndex(&buf, r)
			if err != nil {
				return nil, fmt.Errorf("glyph %q: %w", r, err)
			}
			segments, err := f.LoadGlyph(&buf, idx, 26*64, nil)
			if err != nil {
				return nil, fmt.Errorf("glyph %q: %w", r, err)
			}
			b = binary.LittleEndian.AppendUint16(b, uint16(len(segments)))
			for _, s := range segments {
				b = append(b, byte(s.Op))
				for _, p := range s.Args[:points[s.Op]] {
					b = binary.LittleEndian.AppendUint16(b, uint16(int16(p.X)))
					b = binary.LittleEndian.AppendUint16(b, uint16(int16(p.Y)))
				}
			}
		}
	}
	return b, nil
}
