// Package demo holds the data and the model of `qwb demo`: glyphs of free fonts as a poor camera sees them, and a small
// network trained on them by the program in the folder train.
//
// The images are dark, noisy and have hot pixels that are many times as bright as the glyph. A range taken from the extremes
// leaves a dark glyph a few steps of an 8-bit grid: the choice of observer shows in the accuracy.
package demo

import (
	"fmt"
	"image"
	"image/draw"
	"math"
	"math/rand/v2"

	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gobolditalic"
	"golang.org/x/image/font/gofont/goitalic"
	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"

	"qwb/kernels/elementary"
)

const (
	// Size is the side of an image in pixels.
	Size = 32
	// Alphabet lists the glyphs in the order of the classes. Characters that some font draws alike are left out.
	Alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
)

// Series tells pictures for different purposes apart: the same seed draws other ones in each.
type Series uint64

const (
	Training Series = iota
	HeldOut
	Calibration
	Evaluation
)

// Camera draws distorted glyphs. It is not safe for concurrent use.
type Camera struct {
	fonts []*sfnt.Font
	buf   sfnt.Buffer
	mask  *image.Alpha
}

// NewCamera loads the fonts.
func NewCamera() (*Camera, error) {
	c := &Camera{mask: image.NewAlpha(image.Rect(0, 0, Size, Size))}
	for i, ttf := range [][]byte{goregular.TTF, gobold.TTF, goitalic.TTF, gobolditalic.TTF, gomedium.TTF, gomono.TTF, gomonobold.TTF} {
		f, err := sfnt.Parse(ttf)
		if err != nil {
			return nil, fmt.Errorf("demo: font %d: %w", i, err)
		}
		c.fonts = append(c.fonts, f)
	}
	return c, nil
}

// Shot returns image number index of a series with this seed, Size*Size brightnesses row by row, and its class in
// [0, len(Alphabet)). Glyphs are between 0.012 and 0.16 brighter than the background near 0.02; hot pixels reach 3. The same
// series, seed and index always give the same image.
func (c *Camera) Shot(series Series, seed uint64, index int) ([]float32, int, error) {
	rng := rand.New(rand.NewPCG(seed, uint64(series)<<32|uint64(index)))
	class := rng.IntN(len(Alphabet))
	if err := c.drawGlyph(rng, rune(Alphabet[class])); err != nil {
		return nil, 0, err
	}
	return c.expose(rng), class, nil
}

// drawGlyph rasterizes one glyph, turned, sheared, scaled and moved at random, into c.mask as coverage 0..255.
func (c *Camera) drawGlyph(rng *rand.Rand, r rune) error {
	f := c.fonts[rng.IntN(len(c.fonts))]
	const ppem = 26 * 64 // 26.6 fixed point
	idx, err := f.GlyphIndex(&c.buf, r)
	if err != nil {
		return fmt.Errorf("demo: glyph %q: %w", r, err)
	}
	segments, err := f.LoadGlyph(&c.buf, idx, fixed.Int26_6(ppem), nil)
	if err != nil {
		return fmt.Errorf("demo: glyph %q: %w", r, err)
	}
	bounds := segments.Bounds()
	cx := float64(bounds.Min.X+bounds.Max.X) / 128
	cy := float64(bounds.Min.Y+bounds.Max.Y) / 128

	angle, shear := uniform(rng, -0.4, 0.4), uniform(rng, -0.3, 0.3)
	sx, sy := uniform(rng, 0.75, 1.15), uniform(rng, 0.75, 1.15)
	tx, ty := Size/2+uniform(rng, -3, 3), Size/2+uniform(rng, -3, 3)
	sin, cos := math.Sincos(angle)
	at := func(p fixed.Point26_6) (float32, float32) {
		x, y := (float64(p.X)/64-cx)*sx, (float64(p.Y)/64-cy)*sy
		x += shear * y
		return float32(cos*x - sin*y + tx), float32(sin*x + cos*y + ty)
	}
	z := vector.NewRasterizer(Size, Size)
	for _, s := range segments {
		x0, y0 := at(s.Args[0])
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			z.ClosePath()
			z.MoveTo(x0, y0)
		case sfnt.SegmentOpLineTo:
			z.LineTo(x0, y0)
		case sfnt.SegmentOpQuadTo:
			x1, y1 := at(s.Args[1])
			z.QuadTo(x0, y0, x1, y1)
		case sfnt.SegmentOpCubeTo:
			x1, y1 := at(s.Args[1])
			x2, y2 := at(s.Args[2])
			z.CubeTo(x0, y0, x1, y1, x2, y2)
		}
	}
	z.ClosePath()
	if rng.Float64() < 0.5 { // a scratch across the picture
		x0, y0, x1, y1 := uniform(rng, 0, Size), uniform(rng, 0, Size), uniform(rng, 0, Size), uniform(rng, 0, Size)
		nx, ny := 0.4*(y1-y0)/(1+math.Hypot(x1-x0, y1-y0)), -0.4*(x1-x0)/(1+math.Hypot(x1-x0, y1-y0))
		z.MoveTo(float32(x0+nx), float32(y0+ny))
		z.LineTo(float32(x1+nx), float32(y1+ny))
		z.LineTo(float32(x1-nx), float32(y1-ny))
		z.LineTo(float32(x0-nx), float32(y0-ny))
		z.ClosePath()
	}
	draw.Draw(c.mask, c.mask.Bounds(), image.Transparent, image.Point{}, draw.Src)
	z.Draw(c.mask, c.mask.Bounds(), image.Opaque, image.Point{})
	return nil
}

// expose turns coverage into a picture: little light, an uneven background, noise that grows with the signal, hot pixels.
func (c *Camera) expose(rng *rand.Rand) []float32 {
	img := make([]float32, Size*Size)
	light := elementary.Exp(uniform(rng, math.Log(0.012), math.Log(0.16)))
	base, gx, gy := uniform(rng, 0.004, 0.03), uniform(rng, -6e-4, 6e-4), uniform(rng, -6e-4, 6e-4)
	noise := uniform(rng, 0.002, 0.006)
	for y := range Size {
		for x := range Size {
			v := base + gx*float64(x-Size/2) + gy*float64(y-Size/2) + light*float64(c.mask.AlphaAt(x, y).A)/255
			img[y*Size+x] = float32(max(v+rng.NormFloat64()*(noise+0.02*v), 0))
		}
	}
	for n := rng.IntN(4); n > 0; n-- {
		img[rng.IntN(len(img))] = float32(uniform(rng, 0.5, 3))
	}
	return img
}

func uniform(rng *rand.Rand, lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
