// Package demo holds the data and the model of `qwb demo`: glyphs of free fonts as a poor camera sees them, and a small
// network trained on them by the program in the folder train.
//
// The images are dark, noisy and have hot pixels that are many times as bright as the glyph. A range taken from the extremes
// leaves a dark glyph a few steps of an 8-bit grid: the choice of observer shows in the accuracy.
package demo

import (
	_ "embed"
	"encoding/binary"
	"image"
	"image/draw"
	"math"
	"math/rand/v2"

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

// outlines are those of the glyphs in seven fonts, as the program in the folder outlines writes them.
//
//go:generate go run ./outlines
//go:embed outlines.bin
var outlines []byte

// fonts is how many fonts there are.
const fonts = 7

// segment is a part of an outline: move, line, or a curve of the second or third degree, with so many points in 64ths of a pixel.
type segment struct {
	op byte
	at [3][2]int
}

// loaded are the outlines, font by font, in each by the alphabet.
func loaded() [][]segment {
	list, rest := make([][]segment, fonts*len(Alphabet)), outlines
	number := func() int {
		n := int16(binary.LittleEndian.Uint16(rest))
		rest = rest[2:]
		return int(n)
	}
	for i := range list {
		list[i] = make([]segment, number())
		for k := range list[i] {
			s := &list[i][k]
			s.op, rest = rest[0], rest[1:]
			for p := range max(1, int(s.op)) { // 1 where it moves or is a line
				s.at[p] = [2]int{number(), number()}
			}
		}
	}
	return list
}

// middle is that of the box around all points.
func middle(list []segment) (x, y float64) {
	lo, hi := list[0].at[0], list[0].at[0]
	for _, s := range list {
		for _, p := range s.at[:max(1, int(s.op))] {
			for axis := range 2 {
				lo[axis], hi[axis] = min(lo[axis], p[axis]), max(hi[axis], p[axis])
			}
		}
	}
	return float64(lo[0]+hi[0]) / 128, float64(lo[1]+hi[1]) / 128
}

// Camera draws distorted glyphs. It is not safe for concurrent use.
type Camera struct {
	glyphs [][]segment // of all fonts, in each by the alphabet
	mask   *image.Alpha
}

// NewCamera loads the glyphs.
func NewCamera() *Camera {
	return &Camera{glyphs: loaded(), mask: image.NewAlpha(image.Rect(0, 0, Size, Size))}
}

// Shot returns image number index of a series with this seed, Size*Size brightnesses row by row, and its class in
// [0, len(Alphabet)). Glyphs are between 0.012 and 0.16 brighter than the background near 0.02; hot pixels reach 3. The same
// series, seed and index always give the same image.
func (c *Camera) Shot(series Series, seed uint64, index int) ([]float32, int) {
	rng := rand.New(rand.NewPCG(seed, uint64(series)<<32|uint64(index)))
	class := rng.IntN(len(Alphabet))
	c.drawGlyph(rng, class)
	return c.expose(rng), class
}

// drawGlyph rasterizes one glyph, turned, sheared, scaled and moved at random, into c.mask as coverage 0..255.
func (c *Camera) drawGlyph(rng *rand.Rand, class int) {
	segments := c.glyphs[rng.IntN(fonts)*len(Alphabet)+class]
	cx, cy := middle(segments)

	angle, shear := uniform(rng, -0.4, 0.4), uniform(rng, -0.3, 0.3)
	sx, sy := uniform(rng, 0.75, 1.15), uniform(rng, 0.75, 1.15)
	tx, ty := Size/2+uniform(rng, -3, 3), Size/2+uniform(rng, -3, 3)
	sin, cos := math.Sincos(angle)
	at := func(p [2]int) (float32, float32) {
		x, y := (float64(p[0])/64-cx)*sx, (float64(p[1])/64-cy)*sy
		x += shear * y
		return float32(cos*x - sin*y + tx), float32(sin*x + cos*y + ty)
	}
	z := vector.NewRasterizer(Size, Size)
	for _, s := range segments {
		x0, y0 := at(s.at[0])
		x1, y1 := at(s.at[1])
		x2, y2 := at(s.at[2])
		switch s.op {
		case 0:
			z.ClosePath()
			z.MoveTo(x0, y0)
		case 1:
			z.LineTo(x0, y0)
		case 2:
			z.QuadTo(x0, y0, x1, y1)
		default:
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
