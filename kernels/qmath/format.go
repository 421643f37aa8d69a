package qmath

import "fmt"

// NumberType says how the numbers of a Format lie.
type NumberType uint8

const (
	Integers  NumberType = iota // evenly, QMin to QMax
	FloatE4M3                   // 8 bits, arXiv:2209.05433, ONNX's FLOAT8E4M3FN: up to 448
	FloatE5M2                   // 8 bits, the same paper: up to 57344
	FloatE2M1                   // 4 bits, OCP Microscaling Formats 1.0: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives
	BookNF4                     // 4 bits: the sixteen numbers of NormalFloat, arXiv:2305.14314, appendix E
)

// numberTypes is indexed by NumberType. Largest is the largest magnitude before the scale.
var numberTypes = [...]struct {
	name    string
	bits    int
	largest int32
	float   Minifloat
}{
	Integers:  {name: "integer"},
	FloatE4M3: {"e4m3", 8, 448, E4M3FN},
	FloatE5M2: {"e5m2", 8, 57344, E5M2},
	FloatE2M1: {"e2m1", 4, 6, E2M1},
	BookNF4:   {name: "nf4", bits: 4, largest: 1},
}

// NumberTypes lists those that are no integers.
func NumberTypes() []NumberType { return []NumberType{FloatE4M3, FloatE5M2, FloatE2M1, BookNF4} }

// String is the name: integer, e4m3, e5m2, e2m1, nf4.
func (t NumberType) String() string {
	if int(t) < len(numberTypes) {
		return numberTypes[t].name
	}
	return fmt.Sprintf("number type %d", uint8(t))
}

// MarshalText and UnmarshalText use the name.
func (t NumberType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

func (t *NumberType) UnmarshalText(b []byte) error {
	for i := range numberTypes {
		if numberTypes[i].name == string(b) {
			*t = NumberType(i)
			return nil
		}
	}
	return fmt.Errorf("unknown number type %q", b)
}

// Float reports whether the numbers are those of a floating-point format, and which.
func (t NumberType) Float() (Minifloat, bool) {
	return numberTypes[t].float, t == FloatE4M3 || t == FloatE5M2 || t == FloatE2M1
}

// Format says which numbers the codes of a tensor stand for, before scale and zero point. Formats are comparable.
type Format struct {
	Bits int `json:"bits"` // of a code: integers 2 to 32
	// QMin and QMax are the smallest and the largest number: of integers the codes in use, 448 for E4M3. A symmetric scale is the
	// largest magnitude divided by QMax in every format.
	QMin int32      `json:"qmin"`
	QMax int32      `json:"qmax"`
	Type NumberType `json:"format,omitempty"`
}

// IntegerFormat returns the format of all integers of a width.
func IntegerFormat(bits int, unsigned bool) Format {
	if unsigned {
		return Format{Bits: bits, QMax: int32(int64(1)<<bits - 1)}
	}
	return Format{Bits: bits, QMin: int32(int64(-1) << (bits - 1)), QMax: int32(int64(1)<<(bits-1) - 1)}
}

// FormatOf returns the format of a type that is no integer.
func FormatOf(t NumberType) Format {
	row := numberTypes[t]
	return Format{Bits: row.bits, QMin: -row.largest, QMax: row.largest, Type: t}
}

// Integer reports whether the codes are integers that lie evenly.
func (f Format) Integer() bool { return f.Type == Integers }

// FormatName is int8, uint4, e4m3, nf4.
func (f Format) FormatName() string {
	switch {
	case f.Type != Integers:
		return f.Type.String()
	case f.QMin < 0:
		return fmt.Sprintf("int%d", f.Bits)
	}
	return fmt.Sprintf("uint%d", f.Bits)
}

// CheckFormat reports the first thing that is wrong with f.
func (f Format) CheckFormat() error {
	switch {
	case int(f.Type) >= len(numberTypes):
		return fmt.Errorf("unknown %s", f.Type)
	case f.Type != Integers:
		if want := FormatOf(f.Type); f != want {
			return fmt.Errorf("%s has %d bits and numbers from %d to %d", f.Type, want.Bits, want.QMin, want.QMax)
		}
		return nil
	case f.Bits < 2 || f.Bits > 32:
		return fmt.Errorf("%d bits: only 2 to 32", f.Bits)
	case f.QMin >= f.QMax:
		return fmt.Errorf("integer range [%d, %d] is empty", f.QMin, f.QMax)
	case int64(f.QMax)-int64(f.QMin) >= 1<<f.Bits:
		return fmt.Errorf("integer range [%d, %d] does not fit into %d bits", f.QMin, f.QMax, f.Bits)
	}
	return nil
}

// Codec is what a format and one scale make of real numbers: real = number(code) * Scale, for integers
// (code - ZeroPoint) * Scale.
type Codec struct {
	Format
	Scale     float32 // > 0 and finite
	ZeroPoint int32   // 0 but for integers
	Rounding  Rounding
}

// Grid returns the grid of a codec of integers.
func (c Codec) Grid() Grid {
	return Grid{Scale: c.Scale, ZeroPoint: c.ZeroPoint, QMin: c.QMin, QMax: c.QMax, Rounding: c.Rounding}
}

// Quantize returns the code of x: for integers Grid.Quantize; for floats and code books that of the number nearest to the float32
// quotient x/Scale, saturating, as ONNX QuantizeLinear does (ties to even; in a code book to the smaller number). The codes are
// bit patterns: 0 to 2^Bits-1. NaN gives the zero point, the code of 0; callers report NaN before they quantize.
func (c Codec) Quantize(x float32) int32 {
	if c.Integer() {
		return c.Grid().Quantize(x)
	}
	v := x / c.Scale
	if v != v {
		v = 0
	}
	if f, ok := c.Type.Float(); ok {
		return int32(f.Encode(float64(v), true))
	}
	return nf4Code(v)
}

// QuantizeSlice writes Quantize(src[i]) to dst[i]. len(dst) must be at least len(src).
func (c Codec) QuantizeSlice(dst []int32, src []float32) {
	if c.Integer() {
		c.Grid().QuantizeSlice(dst, src)
		return
	}
	for i, x := range src {
		dst[i] = c.Quantize(x)
	}
}

// Dequantize returns the real number of a code, in float32.
func (c Codec) Dequantize(code int32) float32 {
	if c.Integer() {
		return c.Grid().Dequantize(code)
	}
	return float32(c.number(code) * c.Scale)
}

// DequantizeSlice writes Dequantize(src[i]) to dst[i]. len(dst) must be at least len(src).
func (c Codec) DequantizeSlice(dst []float32, src []int32) {
	if c.Integer() {
		g := c.Grid()
		for i, q := range src {
			dst[i] = g.Dequantize(q)
		}
		return
	}
	for i, q := range src {
		dst[i] = c.Dequantize(q)
	}
}

// number is what a code stands for before the scale.
func (c Codec) number(code int32) float32 {
	if f, ok := c.Type.Float(); ok {
		return f.Decode(uint16(code))
	}
	return nf4[code&15]
}

// Fake returns Dequantize(Quantize(x)).
func (c Codec) Fake(x float32) float32 { return c.Dequantize(c.Quantize(x)) }

// FakeSlice writes Fake(src[i]) to dst[i]; dst may be src. len(dst) must be at least len(src).
func (c Codec) FakeSlice(dst, src []float32) {
	if c.Integer() {
		c.Grid().FakeSlice(dst, src)
		return
	}
	if _, float := c.Type.Float(); float {
		rounders[c.Type].fake(dst, src, c.Scale)
		return
	}
	for i, x := range src {
		dst[i] = c.Fake(x)
	}
}

// ClipSlice writes src[i], limited to what the numbers reach, to dst[i]; dst may be src. NaN stays.
func (c Codec) ClipSlice(dst, src []float32) {
	lo, hi := c.Limits()
	for i, x := range src {
		dst[i] = min(max(x, lo), hi)
	}
}

// Limits returns the smallest and the largest real number.
func (c Codec) Limits() (lo, hi float32) {
	if c.Integer() {
		g := c.Grid()
		return g.Dequantize(g.QMin), g.Dequantize(g.QMax)
	}
	return float32(float32(c.QMin) * c.Scale), float32(float32(c.QMax) * c.Scale)
}

// nf4 are the numbers of NormalFloat4: averages of neighbouring quantiles of the standard normal distribution, eight above zero and seven
// below, and zero, divided by the largest.
var nf4 = [16]float32{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
	-0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434,
	0.5626170039176941, 0.7229568362236023, 1}

// Book returns the sixteen numbers of NF4 in the order of their codes.
func Book() []float32 { return append([]float32(nil), nf4[:]...) }
