package kernels

import (
	"math"

	"qwb/kernels/cpu"
)

// PeakKind is what a Peak does.
type PeakKind uint8

const (
	PeakFloat   PeakKind = iota // float32 multiply and add
	PeakInteger                 // u8 x s8 multiply, add to int32
	PeakRead                    // read memory
	PeakPairs                   // s16 x s16 multiply, add pairs to int32
)

func (k PeakKind) String() string { return [...]string{"float", "integer", "read", "pairs"}[k] }

// Peak is a loop that does one thing only, as fast as an instruction set can, for rows to be measured against. Arithmetic
// peaks work in registers. The plain Go ones (ISA "go") say what Go without assembly does, not what the processor could.
type Peak struct {
	Name string // instruction-isa, for example "fma-avx512"
	Kind PeakKind
	ISA  string
	Ops  int // operations of one iteration, a multiply-add being two; 0 for PeakRead

	runs func(cpu.Features) bool
	tile func(*tile)
}

// Peaks lists the peaks of this build, best first within each kind, plain Go last. As with Rows, the running processor may lack
// what one needs.
func Peaks() []Peak { return append(vectorPeaks(), goPeaks...) }

var goPeaks = []Peak{
	{Name: "multiply-add-go", Kind: PeakFloat, ISA: "go", Ops: 24, tile: goFloatPeak},
	{Name: "multiply-add-int-go", Kind: PeakInteger, ISA: "go", Ops: 16, tile: goIntegerPeak},
	{Name: "multiply-add-pairs-go", Kind: PeakPairs, ISA: "go", Ops: 16, tile: goIntegerPeak},
	{Name: "read-go", Kind: PeakRead, ISA: "go", tile: goRead},
}

// BestPeak returns the fastest peak of a kind that a processor with features f executes.
func BestPeak(f cpu.Features, k PeakKind) Peak {
	for _, p := range Peaks() {
		if p.Kind == k && p.Runs(f) {
			return p
		}
	}
	return Peak{} // not reached: plain Go runs everywhere
}

// Runs reports whether a processor with features f can execute the loop.
func (p Peak) Runs(f cpu.Features) bool { return p.runs == nil || p.runs(f) }

// Compute runs an arithmetic loop for a number of iterations, at least one.
func (p Peak) Compute(iterations int) {
	// Ordinary numbers of either sign, in which no bits repeat: as float32 between 0.25 and 1, as bytes anything.
	var operands [32]float32
	x := uint32(1)
	for i := range operands {
		x = x*1664525 + 1013904223
		operands[i] = math.Float32frombits(x&0x807fffff | (0x3e800000 + x>>9&0x00800000))
	}
	p.tile(&tile{a: operands[:], cols: max(iterations, 1), rows: 1, lo: 0.5, hi: 0.25})
}

// readBlock is how many elements the reading loops take at a time.
const readBlock = 128

// Read reads the elements of s, but for up to 127 at its end, and does nothing with them.
func (p Peak) Read(s []float32) {
	if n := len(s) / readBlock * readBlock; n > 0 {
		p.tile(&tile{a: s[:n], cols: n, rows: 1})
	}
}

func goFloatPeak(t *tile) {
	var a, b, c, d, e, f, g, h, i, j, k, l float32
	x, y := t.lo, t.hi
	for range t.cols {
		a = a*x + y
		b = b*x + y
		c = c*x + y
		d = d*x + y
		e = e*x + y
		f = f*x + y
		g = g*x + y
		h = h*x + y
		i = i*x + y
		j = j*x + y
		k = k*x + y
		l = l*x + y
	}
	t.lo = a + b + c + d + e + f + g + h + i + j + k + l
}

func goIntegerPeak(t *tile) {
	var a, b, c, d, e, f, g, h int32
	x, y := int32(t.rows), int32(t.load)
	for range t.cols {
		a = a*x + y
		b = b*x + y
		c = c*x + y
		d = d*x + y
		e = e*x + y
		f = f*x + y
		g = g*x + y
		h = h*x + y
	}
	t.load = int(a + b + c + d + e + f + g + h)
}

func goRead(t *tile) {
	var a, b, c, d float32
	s := t.a
	for ; len(s) >= 4; s = s[4:] {
		a += s[0]
		b += s[1]
		c += s[2]
		d += s[3]
	}
	t.lo = a + b + c + d
}
