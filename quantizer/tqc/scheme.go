package tqc

import (
	"fmt"
	"strconv"
	"strings"
)

// Scheme is the part of a Config that people choose and write: which integers, with or without a zero point, how many scales.
// Its text form is FORMAT-sym|asym-GRANULARITY[-pow2], for example int8-sym-channel, uint8-asym-tensor, int4-sym-g32,
// int8-sym-tensor-pow2. What a text leaves open (whether -128 is used, the observer, the rounding) a Config brings along: see
// Apply. Schemes are comparable.
type Scheme struct {
	Bits       int  // 2 to 16; 32 is for biases
	Unsigned   bool // uint8 and relatives
	Asymmetric bool // with a zero point
	// Channel: one scale per channel; Group: one per so many elements along the axis that is summed; neither: one per tensor.
	Channel  bool
	Group    int
	PowerOf2 bool // scales are powers of two
}

// schemeWords says what a text may consist of, for error messages.
const (
	schemeForm    = "FORMAT-sym|asym-GRANULARITY[-pow2]"
	schemeFormats = "int2 to int16, uint2 to uint16, int32 for a bias"
	schemeGrains  = "tensor, channel, or gN for groups of N elements"
)

// ParseScheme reads the text form.
func ParseScheme(text string) (Scheme, error) {
	fail := func(format string, a ...any) (Scheme, error) {
		return Scheme{}, fmt.Errorf("scheme %q: %s", text, fmt.Sprintf(format, a...))
	}
	words := strings.Split(text, "-")
	if len(words) < 3 || len(words) > 4 {
		return fail("schemes are written %s, for example int8-sym-channel", schemeForm)
	}
	var s Scheme
	digits, signed := strings.CutPrefix(words[0], "int")
	if !signed {
		digits, s.Unsigned = strings.CutPrefix(words[0], "uint")
	}
	bits, err := number(digits)
	if !signed && !s.Unsigned || err != nil || !validBits(bits, s.Unsigned) {
		return fail("there is no format %q: %s", words[0], schemeFormats)
	}
	s.Bits = bits
	switch words[1] {
	case "sym":
	case "asym":
		s.Asymmetric = true
	default:
		return fail("%q is neither sym nor asym", words[1])
	}
	group, grouped := strings.CutPrefix(words[2], "g")
	switch {
	case words[2] == "tensor":
	case words[2] == "channel":
		s.Channel = true
	case grouped:
		if s.Group, err = number(group); err != nil {
			return fail("%q is no group: %s", words[2], schemeGrains)
		}
	default:
		return fail("there is no granularity %q: %s", words[2], schemeGrains)
	}
	if len(words) == 4 {
		if words[3] != "pow2" {
			return fail("%q at the end: only pow2 may stand there", words[3])
		}
		s.PowerOf2 = true
	}
	return s, nil
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
	switch {
	case !validBits(s.Bits, s.Unsigned):
		return fmt.Errorf("scheme of %d bits: %s", s.Bits, schemeFormats)
	case s.Group < 0 || s.Channel && s.Group != 0:
		return fmt.Errorf("scheme with groups of %d: %s", s.Group, schemeGrains)
	}
	return nil
}

// Format names the integers: int8, uint8, int4.
func (s Scheme) Format() string {
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
	if s.Channel {
		words[2] = "channel"
	} else if s.Group != 0 {
		words[2] = "g" + strconv.Itoa(s.Group)
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

// SchemeOf returns the scheme that c keeps. Floating and dynamic policies have none.
func SchemeOf(c Config) (Scheme, error) {
	if !c.Policy.Has(Linear) || c.Policy.Has(Dynamic) {
		return Scheme{}, fmt.Errorf("there is no scheme for the policy %q", c.Policy)
	}
	s := Scheme{Bits: c.Bits, Unsigned: !c.Signed(), Asymmetric: c.Policy.Has(Asymmetric), Channel: c.Policy.Has(PerChannel),
		PowerOf2: c.Policy.Has(PowerOf2)}
	if c.Policy.Has(PerGroup) {
		s.Group = c.GroupSize
	}
	return s, s.Valid()
}

// Apply returns c under the scheme. Observer, rounding and axis stay. The range of integers stays where the format is that of c;
// otherwise it is the whole range, but for the lowest integer of a symmetric signed grid, which is left out unless c has all
// integers of its own format: what clips where its type ends (QuantizeLinear) clips there in any format. A divisor or a fixed scale that was made for other integers goes; minmax then takes the place of fixed.
func (s Scheme) Apply(c Config) (Config, error) {
	if err := s.Valid(); err != nil {
		return Config{}, err
	}
	old := c
	c.Policy = Linear | s.policy()
	c.GroupSize = s.Group
	if c.Policy.Has(PerTensor) {
		c.Axis = 0
	}
	if s.Bits == old.Bits && s.Unsigned == !old.Signed() && s.Asymmetric == old.Policy.Has(Asymmetric) {
		return c, nil
	}
	low, high := int64(0), int64(1)<<s.Bits-1
	if !s.Unsigned {
		low, high = -1<<(s.Bits-1), 1<<(s.Bits-1)-1
		if !s.Asymmetric && !old.whole() {
			low++
		}
	}
	c.Bits, c.QMin, c.QMax = s.Bits, int32(low), int32(high)
	c.Divisor = 0
	if c.FixedScale, c.FixedZeroPoint = 0, 0; c.Observer == ObserverFixed {
		c.Observer = ObserverMinMax
	}
	return c, nil
}

// whole reports whether c has all integers of its format.
func (c Config) whole() bool {
	if c.Bits == 0 {
		return false
	}
	if c.Signed() {
		return int64(c.QMin) == -1<<(c.Bits-1) && int64(c.QMax) == 1<<(c.Bits-1)-1
	}
	return c.QMin == 0 && int64(c.QMax) == 1<<c.Bits-1
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
	default:
		p |= PerTensor
	}
	if s.PowerOf2 {
		p |= PowerOf2
	}
	return p
}
