package kernels

import (
	"qwb/kernels/qmath"
	"qwb/kernels/ref"
)

// AddCodes and ToCodes are those of the specification.
type (
	AddCodes    = ref.AddCodes
	ToCodes     = ref.ToCodes
	Requantized = ref.Requantized
)

// CodesOf is how the kernels quantize to g; bytes are codes plus a bias. Ties go away from zero where those of g do, else to even. Whether
// kernels have it, Check says.
func CodesOf(g qmath.Grid, bias int32) ToCodes {
	return ToCodes{Factor: 1, Divisor: g.Scale, Away: g.Rounding == qmath.HalfAwayFromZero, Requantized: Requantized{
		Lo: float32(g.QMin - g.ZeroPoint), Hi: float32(g.QMax - g.ZeroPoint), Zero: g.ZeroPoint + bias}}
}

// codes8 is one call of an inner operation on bytes: rows of n, the first of which begin with the slices. Assembly reads it by
// offset; a test holds the offsets.
type codes8 struct {
	dst, a, b       []uint8
	real            []float32 // what is quantized, or dequantized to
	n, rows         int
	lda, ldd        int
	fa, fb, k       float32
	factor, divisor float32
	za, zb          int32
	lo, hi          float32
	zero            int32
}

// AddCodes is dst[i] = s.At(a[i], b[i]), for numbers that pass s.Check; dst may be one of the sources.
func (t *Table) AddCodes(dst, a, b []uint8, s *AddCodes) {
	op := OpAddCodes
	if s.Fused {
		op = OpAddFused
	}
	t.codes(op, codes8{dst: dst, a: a[:len(dst)], b: b[:len(dst)], n: len(dst), fa: s.FA, fb: s.FB, k: s.K, factor: s.Factor,
		divisor: s.Divisor, za: int32(s.ZA), zb: int32(s.ZB), lo: s.Lo, hi: s.Hi, zero: s.Zero})
}

// ToCodes is dst[i] = s.At(x[i]), for numbers that pass s.Check.
func (t *Table) ToCodes(dst []uint8, x []float32, s *ToCodes) {
	op := OpToCodes
	if s.Away {
		op = OpToCodesAway
	}
	t.codes(op, codes8{dst: dst, real: x[:len(dst)], n: len(dst), factor: s.Factor, divisor: s.Divisor, lo: s.Lo, hi: s.Hi, zero: s.Zero})
}

// FromCodes is dst[i] = float32(a[i]-zero) * scale.
func (t *Table) FromCodes(dst []float32, a []uint8, zero uint8, scale float32) {
	t.codes(OpFromCodes, codes8{real: dst, a: a[:len(dst)], n: len(dst), za: int32(zero), fa: scale})
}

// MaxCodes is dst[i*ldd+j] = max(dst[i*ldd+j], a[i*lda+j]) for rows i and columns j < n. dst must not overlap a.
func (t *Table) MaxCodes(dst []uint8, ldd int, a []uint8, lda, rows, n int) {
	checkMatrix("dst", len(dst), rows, n, ldd)
	checkMatrix("a", len(a), rows, n, lda)
	if rows > 0 {
		t.codes(OpMaxCodes, codes8{dst: dst, a: a, n: n, rows: rows, lda: lda, ldd: ldd})
	}
}

// codes calls the row of an operation with memory that is reused.
func (t *Table) codes(op Op, args codes8) {
	if args.n == 0 {
		return
	}
	c, ok := t.pools8.codes.Get().(*codes8)
	if !ok {
		c = new(codes8)
	}
	*c = args
	t.rows[op].codes(c)
	*c = codes8{}
	t.pools8.codes.Put(c)
}

// goCodesRows lists the plain Go rows.
var goCodesRows = []Row{
	{Name: "add-codes-go", Op: OpAddCodes, ISA: "go", codes: goAddCodes},
	{Name: "add-fused-go", Op: OpAddFused, ISA: "go", codes: goAddFused},
	{Name: "to-codes-go", Op: OpToCodes, ISA: "go", codes: goToCodes},
	{Name: "to-codes-away-go", Op: OpToCodesAway, ISA: "go", codes: goToCodesAway},
	{Name: "from-codes-go", Op: OpFromCodes, ISA: "go", codes: goFromCodes},
	{Name: "max-codes-go", Op: OpMaxCodes, ISA: "go", codes: goMaxCodes},
}

func (c *codes8) add(fused bool) AddCodes {
	return AddCodes{Fused: fused, ZA: uint8(c.za), ZB: uint8(c.zb), FA: c.fa, FB: c.fb, K: c.k, Factor: c.factor, Divisor: c.divisor,
		Requantized: Requantized{Lo: c.lo, Hi: c.hi, Zero: c.zero}}
}

func goAddCodes(c *codes8) { addCodes(c, c.add(false)) }
func goAddFused(c *codes8) { addCodes(c, c.add(true)) }

func addCodes(c *codes8, s AddCodes) {
	a, b := c.a[:c.n], c.b[:c.n]
	for i := range c.dst[:c.n] {
		c.dst[i] = s.At(a[i], b[i])
	}
}

func goToCodes(c *codes8)     { toCodes(c, false) }
func goToCodesAway(c *codes8) { toCodes(c, true) }

func toCodes(c *codes8, away bool) {
	s := ToCodes{Factor: c.factor, Divisor: c.divisor, Away: away, Requantized: Requantized{Lo: c.lo, Hi: c.hi, Zero: c.zero}}
	for i, x := range c.real[:c.n] {
		c.dst[i] = s.At(x)
	}
}

func goFromCodes(c *codes8) {
	dst := c.real[:c.n]
	for i, q := range c.a[:c.n] {
		dst[i] = float32(int32(q)-c.za) * c.fa
	}
}

func goMaxCodes(c *codes8) {
	for i := range c.rows {
		dst := c.dst[i*c.ldd:][:c.n]
		for j, q := range c.a[i*c.lda:][:c.n] {
			dst[j] = max(dst[j], q)
		}
	}
}
