package tqc

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/kernels/qmath"
)

// Policy is a set of properties of a quantization scheme. The first eight bits are PPQ's, with PPQ's values.
type Policy uint16

const (
	PerTensor  Policy = 0x001
	PerChannel Policy = 0x002
	Linear     Policy = 0x004
	Floating   Policy = 0x008
	Symmetric  Policy = 0x010
	Asymmetric Policy = 0x020
	PowerOf2   Policy = 0x040
	Dynamic    Policy = 0x080 // scales are computed at run time, from the tensor's own numbers
	PerGroup   Policy = 0x100
	PerToken   Policy = 0x200 // one scale per row of the last axis, Dynamic
)

var policyNames = []struct {
	bit  Policy
	name string
}{
	{Symmetric, "symmetric"}, {Asymmetric, "asymmetric"}, {PerTensor, "per-tensor"}, {PerChannel, "per-channel"},
	{PerGroup, "per-group"}, {PerToken, "per-token"}, {Linear, "linear"}, {Floating, "floating"}, {PowerOf2, "power-of-2"},
	{Dynamic, "dynamic"},
}

// Has reports whether all properties of q are set in p.
func (p Policy) Has(q Policy) bool { return p&q == q }

// String lists the properties, for example "symmetric per-channel linear".
func (p Policy) String() string {
	var parts []string
	for _, n := range policyNames {
		if p.Has(n.bit) {
			parts = append(parts, n.name)
		}
	}
	return strings.Join(parts, " ")
}

// MarshalText and UnmarshalText use the form of String.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func (p *Policy) UnmarshalText(b []byte) error {
	*p = 0
next:
	for _, word := range strings.Fields(string(b)) {
		for _, n := range policyNames {
			if n.name == word {
				*p |= n.bit
				continue next
			}
		}
		return fmt.Errorf("unknown quantization property %q", word)
	}
	return p.Valid()
}

// Valid reports whether p can be: PPQ's eighteen combinations, and beyond them groups, tokens and floats with free scales. Floating stands
// for all numbers that do not lie evenly, code books too.
func (p Policy) Valid() error {
	one := func(a, b Policy) bool { return p.Has(a) != p.Has(b) }
	gran := 0
	for _, q := range []Policy{PerTensor, PerChannel, PerGroup, PerToken} {
		if p.Has(q) {
			gran++
		}
	}
	switch {
	case gran != 1:
		return fmt.Errorf("policy %q: exactly one of per-tensor, per-channel, per-group, per-token", p)
	case !one(Symmetric, Asymmetric):
		return fmt.Errorf("policy %q: exactly one of symmetric, asymmetric", p)
	case !one(Linear, Floating):
		return fmt.Errorf("policy %q: exactly one of linear, floating", p)
	case p.Has(Floating) && !p.Has(Symmetric):
		return fmt.Errorf("policy %q: floating is symmetric", p)
	case p.Has(PerToken) && !p.Has(Dynamic):
		return fmt.Errorf("policy %q: per-token is dynamic", p)
	}
	return nil
}

// Observer names a calibration method. observers.All has one entry for each but None, Auto and Fixed. Methods that a program brings along
// have a slash in their name, "acme/three-sigma", so that a plan can name one wherever it is read.
type Observer string

const (
	ObserverNone       Observer = "" // this slot is never observed: it borrows its scale
	ObserverMinMax     Observer = "minmax"
	ObserverPercentile Observer = "percentile"
	ObserverKL         Observer = "kl"
	ObserverMSE        Observer = "mse"
	ObserverRobust     Observer = "robust"
	ObserverIsotone    Observer = "isotone"
	ObserverAuto       Observer = "auto"  // chosen per tensor by error at the consumer's output
	ObserverFixed      Observer = "fixed" // the target prescribes scale and zero point
)

// Valid reports an error for a text that is not one of the constants above, with a parameter in parentheses where the method takes
// one: percentile(0.999).
func (o Observer) Valid() error {
	switch o {
	case ObserverNone, ObserverAuto, ObserverFixed:
		return nil
	}
	_, _, err := o.Split()
	return err
}

// Split returns the method of an observer and its parameter, 0 where none is given: "percentile(0.999)" is percentile and 0.999.
func (o Observer) Split() (method Observer, parameter float64, err error) {
	name, rest, given := strings.Cut(string(o), "(")
	method = Observer(name)
	if !slices.Contains(Observers, method) && !method.Own() {
		return o, 0, fmt.Errorf("unknown observer %q", string(o))
	}
	if !given {
		return method, 0, nil
	}
	number, closed := strings.CutSuffix(rest, ")")
	parameter, err = strconv.ParseFloat(number, 64)
	takes := parameters[method]
	if method.Own() {
		takes = anyNumber
	}
	if !closed || err != nil || takes == nil {
		return o, 0, fmt.Errorf("unknown observer %q: a number in parentheses is for %s and %s", string(o), ObserverPercentile, ObserverRobust)
	} else if err := takes(parameter); err != nil {
		return o, 0, fmt.Errorf("observer %q: %w", string(o), err)
	}
	return method, parameter, nil
}

// Own reports whether o, without a parameter, is the name of a method that a program brings along: two words of small letters, digits, -
// and _ with a slash between them. Only that program can calibrate by it.
func (o Observer) Own() bool {
	vendor, name, found := strings.Cut(string(o), "/")
	return found && ownWord(vendor) && ownWord(name)
}

func ownWord(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == "" // letters, all of them, are trimmed
}

// anyNumber is for methods that check their parameter themselves.
func anyNumber(x float64) error {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("parameter %g", x)
	}
	return nil
}

// parameters holds the methods that take a parameter, with what its values are.
var parameters = map[Observer]func(float64) error{
	ObserverPercentile: func(q float64) error {
		if !(q > 0 && q <= 1) {
			return fmt.Errorf("percentile %g: only above 0 and up to 1", q)
		}
		return nil
	},
	ObserverRobust: func(k float64) error {
		if !(k > 1) || math.IsInf(k, 0) {
			return fmt.Errorf("robust %g: only above 1", k)
		}
		return nil
	},
}

// Observers lists the methods that turn statistics into a range.
var Observers = []Observer{ObserverMinMax, ObserverPercentile, ObserverKL, ObserverMSE, ObserverRobust, ObserverIsotone}

// Config is the policy of one slot. It does not change after the slot was configured; two slots with equal Configs are
// quantized by the same scheme.
type Config struct {
	Policy Policy `json:"policy"`
	qmath.Format
	// Blocks says how the scales of groups are stored.
	Blocks    BlockScales    `json:"blocks,omitempty"`
	Rounding  qmath.Rounding `json:"rounding"`
	Axis      int            `json:"axis,omitempty"` // per-channel and per-group: the axis along which scales vary
	GroupSize int            `json:"group_size,omitempty"`
	Observer  Observer       `json:"observer,omitempty"`
	Divisor   float64        `json:"divisor,omitempty"` // symmetric: what absmax is divided by, 0 means QMax
	// FixedScale and FixedZeroPoint are what the target prescribes where Observer is ObserverFixed.
	FixedScale     float32 `json:"fixed_scale,omitempty"`
	FixedZeroPoint int32   `json:"fixed_zero_point,omitempty"`
	// FinestScale, where not 0: FixedScale is the largest scale, and FinestScale the smallest; see Whole.
	FinestScale float32 `json:"finest_scale,omitempty"`
}

// Whole returns the prescribed scale for numbers up to hi: FixedScale, or, where it may be finer, 1/n for the largest whole n with which hi
// is still a code, FinestScale or more. A float32 division of 1 by it is n or a little more, never less.
func (c Config) Whole(hi float64) float32 {
	if c.FinestScale == 0 {
		return c.FixedScale
	}
	n := qmath.Down.Round(1 / float64(c.FinestScale))
	if codes := float64(c.QMax) - float64(c.FixedZeroPoint); hi > 0 {
		n = max(qmath.Down.Round(1/float64(c.FixedScale)), min(n, qmath.Down.Round(codes/hi)))
	}
	s := float32(1 / n)
	for 1/s < float32(n) {
		s = math.Nextafter32(s, 0)
	}
	return s
}

// Validate reports the first thing that is wrong with c.
func (c Config) Validate() error {
	if err := c.Policy.Valid(); err != nil {
		return err
	}
	if err := c.Format.CheckFormat(); err != nil {
		return err
	}
	if err := c.Blocks.check(c); err != nil {
		return err
	}
	switch {
	case c.Integer() == c.Policy.Has(Floating):
		return fmt.Errorf("policy %q for numbers of %s", c.Policy, c.FormatName())
	case c.Policy.Has(PerChannel | Dynamic):
		return fmt.Errorf("policy %q: scales per channel are not computed at run time", c.Policy)
	case c.Policy.Has(PerGroup) && c.GroupSize <= 0:
		return fmt.Errorf("per-group without a group size")
	case int(c.Rounding) > int(qmath.Down):
		return fmt.Errorf("unknown %s", c.Rounding)
	case !(c.Divisor >= 0) || math.IsInf(c.Divisor, 0):
		return fmt.Errorf("divisor %g", c.Divisor)
	case c.Observer == ObserverFixed && !qmath.Representable(c.FixedScale):
		return fmt.Errorf("fixed scale %g", c.FixedScale)
	case c.FinestScale != 0 && !(c.Observer == ObserverFixed && c.FinestScale > 0 && c.FinestScale <= c.FixedScale):
		return fmt.Errorf("finest scale %g beside the fixed scale %g", c.FinestScale, c.FixedScale)
	case c.Observer == ObserverFixed && (c.FixedZeroPoint < c.QMin || c.FixedZeroPoint > c.QMax):
		return fmt.Errorf("fixed zero point %d outside [%d, %d]", c.FixedZeroPoint, c.QMin, c.QMax)
	}
	return c.Observer.Valid()
}

// Scheme is the part of c that turns a range into scale and zero point. Under NV blocks at run time that is the float32 of the tensor.
func (c Config) Scheme() qmath.Scheme {
	s := qmath.Scheme{Symmetric: c.Policy.Has(Symmetric), PowerOfTwo: c.Policy.Has(PowerOf2), QMin: c.QMin, QMax: c.QMax,
		Divisor: c.Divisor, Rounding: qmath.HalfEven}
	if c.Blocks == NV {
		s.Divisor = qmath.NVLargest
	}
	return s
}

// RunTime reports whether scales are computed at run time, from the tensor's own numbers.
func (c Config) RunTime() bool { return c.Policy.Has(Dynamic) }

// NeedsScale reports whether a scale has to be found before run time: always, but for scales that are computed at run time. Of these NV
// blocks need one: the float32 of the tensor.
func (c Config) NeedsScale() bool { return !c.RunTime() || c.Blocks == NV }

// OfActivation is c for a tensor that is computed: scales of groups are then found at run time.
func (c Config) OfActivation() Config {
	if c.Policy.Has(PerGroup) {
		c.Policy |= Dynamic
	}
	return c
}

// Signed reports whether the numbers have a sign.
func (c Config) Signed() bool { return c.QMin < 0 }

// SameScheme reports whether two slots of one tensor may share scale and zero point and need no requantization between
// them: everything but how the scale is found is equal.
func (c Config) SameScheme(o Config) bool {
	c.Observer, c.FixedScale, c.FixedZeroPoint, c.FinestScale = o.Observer, o.FixedScale, o.FixedZeroPoint, o.FinestScale
	return c == o
}
