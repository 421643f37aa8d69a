package qmath

// BlockForm is what the numbers of a type of ggml's blocks stand for. Elements are in groups; code q of group g is
//
//	(D * Scales[g]) * value(q) - M * Mins[g]
//
// in float32, with D and M stored in half precision and the factors of groups as small integers.
type BlockForm struct {
	Elements, Group int
	Levels          int       // codes are 0 to Levels-1
	Zero            int       // value(q) = q - Zero, where there is no Table
	Table           []float32 // value(q), rising
	Lo, Hi          int       // of Scales; both 1: they are not stored
	MaxMin          int       // Mins are 0 to MaxMin; 0 where M is not stored; -1: Mins are -1, M is what is added

	plain func(f *BlockForm, b *Block, x []float32) // ggml's own quantizer
	tries tries
}

// Block is the content of one block; of the arrays as much counts as the form has.
type Block struct {
	D, M         float32
	Scales, Mins [16]int8
	Codes        [256]uint8
}

// Groups is how many groups a block has.
func (f *BlockForm) Groups() int { return f.Elements / f.Group }

// Reset makes b a block of factors that are not stored, everything else being 0.
func (f *BlockForm) Reset(b *Block) {
	*b = Block{}
	if f.Hi == 1 {
		b.Scales[0] = 1
	}
	if f.MaxMin < 0 {
		b.Mins[0] = -1
	}
}

// Value is what a code is multiplied by the scale of its group to.
func (f *BlockForm) Value(code uint8) float32 {
	if f.Table != nil {
		return f.Table[code]
	}
	return float32(int(code) - f.Zero)
}

// Factors are the scale and the minimum of a group.
func (b *Block) Factors(group int) (scale, least float32) {
	return float32(b.D * float32(b.Scales[group])), float32(b.M * float32(b.Mins[group]))
}

// Dequantize writes the elements of a block.
func (f *BlockForm) Dequantize(y []float32, b *Block) {
	for g := range f.Groups() {
		scale, least := b.Factors(g)
		codes, y := b.Codes[g*f.Group:][:f.Group], y[g*f.Group:][:f.Group]
		if f.Table != nil {
			for i, q := range codes {
				y[i] = float32(scale*f.Table[q]) - least
			}
			continue
		}
		for i, q := range codes {
			y[i] = float32(scale*float32(int(q)-f.Zero)) - least
		}
	}
}

// Quantize makes a block of f.Elements elements, as ggml's own quantizer does without an importance matrix and without fused multiply-add.
// It reports whether all elements are finite and D and M can be stored.
func (f *BlockForm) Quantize(b *Block, x []float32) bool {
	f.Reset(b)
	if l := largest(x); !(l < 0x1p60) { // no D is so large, and squares stay finite
		return false
	}
	f.plain(f, b, x)
	b.D, b.M = FP16.Round(b.D), FP16.Round(b.M)
	return b.D-b.D == 0 && b.M-b.M == 0
}

// Nearest is the code whose number is nearest to x in a group, for |x| no more than some thousand scales; of two equally near ones in a
// table the upper, otherwise the even one.
func (f *BlockForm) Nearest(x, scale, least float32) uint8 {
	if f.Table != nil {
		return f.place((x + least) / scale)
	}
	return uint8(clampInt(nearestEven((x+least)/scale), -f.Zero, f.Levels-1-f.Zero) + f.Zero)
}

// place is where in the table the number nearest to v stands. The middles between numbers of the table are whole or halves.
func (f *BlockForm) place(v float32) uint8 {
	t := f.Table
	if !(v > t[0]) {
		return 0
	}
	if v >= t[len(t)-1] {
		return uint8(len(t) - 1)
	}
	twice := 2 * v
	k := int(twice)
	if float32(k) > twice {
		k--
	}
	return iq4Places[k-2*int(t[0])]
}

func clampInt(v int32, lo, hi int) int { return min(max(int(v), lo), hi) }

// iq4 is what the codes of IQ4_NL and IQ4_XS stand for.
var iq4 = []float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// iq4Places has the place of the nearest number for every half from the lowest to the highest.
var iq4Places = func() (places [481]uint8) {
	code := 0
	for i := range places {
		v := iq4[0] + float32(i)/2
		for code+1 < len(iq4) && v-iq4[code] >= iq4[code+1]-v {
			code++
		}
		places[i] = uint8(code)
	}
	return places
}()

// The forms of blocks, by their names in ggml.
var (
	FormQ41 = BlockForm{Elements: 32, Group: 32, Levels: 16, Lo: 1, Hi: 1, MaxMin: -1, plain: plainSpan}
	FormQ50 = BlockForm{Elements: 32, Group: 32, Levels: 32, Zero: 16, Lo: 1, Hi: 1, plain: plainLargest}
	FormQ51 = BlockForm{Elements: 32, Group: 32, Levels: 32, Lo: 1, Hi: 1, MaxMin: -1, plain: plainSpan}

	FormQ2K = BlockForm{Elements: 256, Group: 16, Levels: 4, Hi: 15, MaxMin: 15, plain: plainMinima, tries: tries{-0.5, 15, true}}
	FormQ4K = BlockForm{Elements: 256, Group: 32, Levels: 16, Hi: 63, MaxMin: 63, plain: plainMinima, tries: tries{-1, 20, false}}
	FormQ5K = BlockForm{Elements: 256, Group: 32, Levels: 32, Hi: 63, MaxMin: 63, plain: plainMinima, tries: tries{-0.5, 15, false}}
	FormQ3K = BlockForm{Elements: 256, Group: 16, Levels: 8, Zero: 4, Lo: -32, Hi: 31, plain: plainThirds}
	FormQ6K = BlockForm{Elements: 256, Group: 16, Levels: 64, Zero: 32, Lo: -128, Hi: 127, plain: plainSixths}

	FormIQ4NL = BlockForm{Elements: 32, Group: 32, Levels: 16, Table: iq4, Lo: 1, Hi: 1, plain: plainTable}
	FormIQ4XS = BlockForm{Elements: 256, Group: 32, Levels: 16, Table: iq4, Lo: -32, Hi: 31, plain: plainTable}
)
