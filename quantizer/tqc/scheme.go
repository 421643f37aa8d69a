package tqc

import (
	"fmt"
	"strconv"
	"strings"

	"qwb/kernels/qmath"
)

// Scheme is the part of a Config that people choose and write: which numbers, with or without a zero point, how many scales.
// Its text form is FORMAT-sym|asym-GRANULARITY[-pow2], for example int8-sym-channel, uint8-asym-tensor, int4-sym-g32,
// e4m3-sym-tensor, e2m1-sym-mx32, int8-sym-dynamic-token, int8-sym-tensor-pow2. What a text leaves open (whether -128 is used, the
// observer, the rounding) a Config brings along: see Apply. Schemes are comparable.
type Scheme struct {
	Type       qmath.NumberType // integers unless said
	Bits       int              // 2 to 16; 32 is for biases. Other types have theirs: 0 stands for it
	Unsigned   bool             // uint8 and relatives
	Asymmetric bool             // with a zero point; integers only
	// Channel: one scale per channel; Group: one per so many elements along the axis that is summed, stored as Blocks says, of activations
	// at run time (Config.OfActivation); Token: one per row of the last axis, at run time; none of them: one per tensor.
	Channel  bool
	Group    int
	Blocks   BlockScales
	Token    bool
	Dynamic  bool // the scale is computed at run time
	PowerOf2 bool // scales are powers of two
}

// schemeWords says what a text may consist of, for error messages.
const (
	schemeForm    = "FORMAT-sym|asym-GRANULARITY[-pow2]"
	schemeFormats = "int2 to int16, uint2 to uint16, int32 for a bias, e4m3, e5m2, e2m1, nf4"
	schemeGrains  = "tensor, channel, gN for groups of N elements, mx32, mx32ceil, nv16, dynamic-tensor or dynamic-token"
)

// ParseScheme reads the text form. token alone means dynamic-token: scales of tokens can only be computed at run time.
func ParseScheme(text string) (Scheme, error) {
	fail := func(format string, a ...any) (Scheme, error) {
		return Scheme{}, fmt.Errorf("scheme %q: %s", text, fmt.Sprintf(format, a...))
	}
	words := strings.Split(text, "-")
	if len(words) > 2 && words[2] == "dynamic" {
		words = append(words[:2], words[3:]...)
		if len(words) < 3 || words[2] != "tensor" && words[2] != "token" {
			return fail("dynamic-tensor or dynamic-token")
		}
		words[2] = "dynamic-" + words[2]
	}
	if len(words) < 3 || len(words) > 4 {
		return fail("schemes are written %s, for example int8-sym-channel", schemeForm)
	}
	var s Scheme
	if !s.readFormat(words[0]) {
		return fail("there is no format %q: %s", words[0], schemeFormats)
	}
	switch words[1] {
	case "sym":
	case "asym":
		s.Asymmetric = true
	default:
		return fail("%q is neither sym nor asym", words[1])
	}
	if err := s.readGranularity(words[2]); err != nil {
		return fail("%v", err)
	}
	if len(words) == 4 {
		if words[3] != "pow2" {
			return fail("%q at the end: only pow2 may stand there", words[3])
		}
		s.PowerOf2 = true
	}
	if err := s.Valid(); err != nil {
		return fail("%v", err)
	}
	return s, nil
}

// readFormat reads the first word of a text.
func (s *Scheme) readFormat(word string) bool {
	for _, t := range qmath.NumberTypes() {
		if t.String() == word {
			s.Type = t
			return true
		}
	}
	digits, signed := strings.CutPrefix(word, "int")
	if !signed {
		digits, s.Unsigned = strings.CutPrefix(word, "uint")
	}
	bits, err := number(digits)
	s.Bits = bits
	return (signed || s.Unsigned) && err == nil && validBits(bits, s.Unsigned)
}

// readGranularity reads the third.
func (s *Scheme) readGranularity(word string) (err error) {
	for i, b := range blockScales {
		if b.word != "" && b.word == word {
			s.Blocks, s.Group = BlockScales(i), b.size
			return nil
		}
	}
	group, grouped := strings.CutPrefix(word, "g")
	switch {
	case word == "tensor":
	case word == "channel":
		s.Channel = true
	case word == "dynamic-tensor":
		s.Dynamic = true
	case word == "token", word == "dynamic-token":
		s.Dynamic, s.Token = true, true
	case grouped:
		if s.Group, err = number(group); err != nil {
			return fmt.Errorf("%q is no group: %s", word, schemeGrains)
		}
	default:
		return fmt.Errorf("there is no granularity %q: %s", word, schemeGrains)
	}
	return nil
}

// number reads a positive number as String writes it: no sign, no leading zero.
func number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 || strconv.Itoa(n) != s {
		return 0, fmt.Errorf("%q is no positive number", s)
	}
	return n, nil
}

func validBits(bits int, unsigned bool) bool {
	return bits >= 2 && bits <= 16 || bits == 32 && !unsigned
}

// Valid reports the first thing that no text could say.
func (s Scheme) Valid() error {
	grains := 0
	for _, is := range []bool{s.Channel, s.Group != 0, s.Token} {
		if is {
			grains++
		}
	}
	switch {
	case s.Type == qmath.Integers && !validBits(s.Bits, s.Unsigned):
		return fmt.Errorf("scheme of %d bits: %s", s.Bits, schemeFormats)
	case s.Type != qmath.Integers && (s.Bits != 0 || s.Unsigned || s.Asymmetric):
		return fmt.Errorf("%s is symmetric and has its own width", s.Type)
	case s.Group < 0 || grains > 1 || s.Token && !s.Dynamic || s.Dynamic && !s.Token && grains > 0:
		return fmt.Errorf("scheme with groups of %d: %s", s.Group, schemeGrains)
	case s.Blocks != FreeScales && s.Group != blockScales[s.Blocks].size:
		return fmt.Errorf("%s blocks are groups of %d", s.Blocks, blockScales[s.Blocks].size)
	case s.Blocks != FreeScales && (s.Asymmetric || s.Unsigned || s.PowerOf2):
		return fmt.Errorf("%s blocks are symmetric and say themselves what scales are", s.Blocks)
	case s.Blocks == NV && s.Type != qmath.FloatE2M1:
		return fmt.Errorf("nv16 is for e2m1")
	case (s.Blocks == MX || s.Blocks == MXCeil) && s.Type == qmath.BookNF4:
		return fmt.Errorf("nf4 has no %s blocks", s.Blocks)
	}
	return nil
}

// AtRunTime reports whether scales of activations under s are computed at run time.
func (s Scheme) AtRunTime() bool { return s.Dynamic || s.Group > 0 }

// Format names the numbers: int8, uint8, int4, e4m3.
func (s Scheme) Format() string {
	if s.Type != qmath.Integers {
		return s.Type.String()
	}
	name := "int" + strconv.Itoa(s.Bits)
	if s.Unsigned {
		return "u" + name
	}
	return name
}

// String is the text form. ParseScheme reads it back.
func (s Scheme) String() string {
	words := []string{s.Format(), "sym", "tensor"}
	if s.Asymmetric {
		words[1] = "asym"
	}
	switch {
	case s.Channel:
		words[2] = "channel"
	case s.Blocks != FreeScales:
		words[2] = blockScales[s.Blocks].word
	case s.Group != 0:
		words[2] = "g" + strconv.Itoa(s.Group)
	case s.Token:
		words[2] = "dynamic-token"
	case s.Dynamic:
		words[2] = "dynamic-tensor"
	}
	if s.PowerOf2 {
		words = append(words, "pow2")
	}
	return strings.Join(words, "-")
}

// MarshalText and UnmarshalText use the text form.
func (s Scheme) MarshalText() ([]byte, error) { return []byte(s.String()), s.Valid() }

func (s *Scheme) UnmarshalText(b []byte) (err error) {
	*s, err = ParseScheme(string(b))
	return err
}

// SchemeOf returns the scheme that c keeps.
func SchemeOf(c Config) (Scheme, error) {
	s := Scheme{Type: c.Type, Asymmetric: c.Policy.Has(Asymmetric), Channel: c.Policy.Has(PerChannel), Token: c.Policy.Has(PerToken),
		Dynamic: c.Policy.Has(Dynamic) && !c.Policy.Has(PerGroup), PowerOf2: c.Policy.Has(PowerOf2) && c.Blocks == FreeScales, Blocks: c.Blocks}
	if c.Integer() {
		s.Bits, s.Unsigned = c.Bits, !c.Signed()
	}
	if c.Policy.Has(PerGroup) {
		s.Group = c.GroupSize
	}
	return s, s.Valid()
}

// Apply returns c under the scheme. Observer, rounding and axis stay. The range of integers stays where the format is that of c;
// otherwise it is the whole range, but for the lowest integer of a symmetric signed grid, which is left out unless c has all
// integers of its own format: what clips where its type ends (QuantizeLinear) clips there in any format. A divisor or a fixed scale that
// was made for other numbers goes; minmax then takes the place of fixed.
func (s Scheme) Apply(c Config) (Config, error) {
	if err := s.Valid(); err != nil {
		return Config{}, err
	}
	old := c
	c.Policy, c.Blocks, c.GroupSize = s.policy(), s.Blocks, s.Group
	if !c.Policy.Has(PerChannel) && !c.Policy.Has(PerGroup) {
		c.Axis = 0
	}
	if s.Type == old.Type && s.Bits == old.Bits && s.Unsigned == !old.Signed() && s.Asymmetric == old.Policy.Has(Asymmetric) {
		return c, nil
	}
	if s.Type != qmath.Integers {
		c.Format = qmath.FormatOf(s.Type)
	} else if c.Format = qmath.IntegerFormat(s.Bits, s.Unsigned); !s.Unsigned && !s.Asymmetric && !old.whole() {
		c.QMin++
	}
	c.Divisor = 0
	if c.FixedScale, c.FixedZeroPoint, c.FinestScale = 0, 0, 0; c.Observer == ObserverFixed {
		c.Observer = ObserverMinMax
	}
	return c, nil
}

// whole reports whether c has all numbers of its format.
func (c Config) whole() bool {
	return !c.Integer() || c.Bits != 0 && c.Format == qmath.IntegerFormat(c.Bits, !c.Signed())
}

func (s Scheme) policy() Policy {
	p := Symmetric
	if s.Asymmetric {
		p = Asymmetric
	}
	switch {
	case s.Channel:
		p |= PerChannel
	case s.Group != 0:
		p |= PerGroup
	case s.Token:
		p |= PerToken
	default:
		p |= PerTensor
	}
	if s.Dynamic {
		p |= Dynamic
	}
	if s.PowerOf2 || s.Blocks == MX || s.Blocks == MXCeil {
		p |= PowerOf2
	}
	if s.Type != qmath.Integers {
		return p | Floating
	}
	return p | Linear
}
