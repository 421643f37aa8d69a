package tqc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

func TestSchemesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]tqc.Scheme{
		"int8-sym-channel":          {Bits: 8, Channel: true},
		"uint8-asym-tensor":         {Bits: 8, Unsigned: true, Asymmetric: true},
		"int4-sym-g32":              {Bits: 4, Group: 32},
		"int16-sym-tensor":          {Bits: 16},
		"int8-sym-tensor-pow2":      {Bits: 8, PowerOf2: true},
		"uint2-sym-g1-pow2":         {Bits: 2, Unsigned: true, Group: 1, PowerOf2: true},
		"int32-sym-channel":         {Bits: 32, Channel: true},
		"uint16-asym-tensor-pow2":   {Bits: 16, Unsigned: true, Asymmetric: true, PowerOf2: true},
		"e4m3-sym-tensor":           {Type: qmath.FloatE4M3},
		"e5m2-sym-channel-pow2":     {Type: qmath.FloatE5M2, Channel: true, PowerOf2: true},
		"nf4-sym-g64":               {Type: qmath.BookNF4, Group: 64},
		"e2m1-sym-mx32":             {Type: qmath.FloatE2M1, Group: 32, Blocks: tqc.MX},
		"e4m3-sym-mx32ceil":         {Type: qmath.FloatE4M3, Group: 32, Blocks: tqc.MXCeil},
		"e2m1-sym-nv16":             {Type: qmath.FloatE2M1, Group: 16, Blocks: tqc.NV},
		"int8-sym-dynamic-token":    {Bits: 8, Token: true, Dynamic: true},
		"uint8-asym-dynamic-tensor": {Bits: 8, Unsigned: true, Asymmetric: true, Dynamic: true},
	} {
		s, err := tqc.ParseScheme(text)
		require.NoError(t, err)
		require.Equal(t, want, s)
		require.Equal(t, text, s.String())
		var back tqc.Scheme
		b, err := s.MarshalText()
		require.NoError(t, err)
		require.NoError(t, back.UnmarshalText(b))
		require.Equal(t, s, back)
	}
}

// An error says what there is.
func TestSchemesThatDoNotExist(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "FORMAT-sym|asym-GRANULARITY[-pow2]",
		"int8":                           "for example int8-sym-channel",
		"int8-sym-channel-pow2-x":        "for example int8-sym-channel",
		"int1-sym-tensor":                `no format "int1": int2 to int16, uint2 to uint16, int32 for a bias, e4m3, e5m2, e2m1, nf4`,
		"int17-sym-tensor":               "no format",
		"uint32-sym-tensor":              "no format",
		"int08-sym-tensor":               "no format",
		"int+8-sym-tensor":               "no format",
		"e4m3-asym-tensor":               `e4m3 is symmetric and has its own width`,
		"e3m4-sym-tensor":                `no format "e3m4"`,
		"nf4-sym-mx32":                   `nf4 has no mx blocks`,
		"int8-sym-nv16":                  `nv16 is for e2m1`,
		"e2m1-sym-mx32-pow2":             `mx blocks are symmetric and say themselves what scales are`,
		"int8-sym-dynamic-channel":       `dynamic-tensor or dynamic-token`,
		"int8-sym-dynamic":               `dynamic-tensor or dynamic-token`,
		"int8-symmetric-tensor":          `"symmetric" is neither sym nor asym`,
		"int8-sym-tokens":                `no granularity "tokens": tensor, channel, gN for groups of N elements, mx32`,
		"int8-sym-g0":                    `"g0" is no group`,
		"int8-sym-g-4":                   `"g" is no group`,
		"int8-sym-tensor-pow3":           `"pow3" at the end: only pow2`,
		"int8-sym-g99999999999999999999": "is no group",
	} {
		_, err := tqc.ParseScheme(text)
		require.ErrorContains(t, err, want, text)
	}
	for _, s := range []tqc.Scheme{{}, {Bits: 8, Channel: true, Group: 4}, {Bits: 8, Group: -1}, {Bits: 32, Unsigned: true}} {
		require.Error(t, s.Valid())
		_, err := s.Apply(u8)
		require.Error(t, err)
	}
}

func TestASchemeIsAppliedToAConfig(t *testing.T) {
	whole := s8
	whole.QMin = -128
	reduced := s8
	reduced.QMin, reduced.QMax = -64, 64
	half := u8
	half.QMax = 127
	fixed := u8
	fixed.Observer, fixed.FixedScale = tqc.ObserverFixed, 1.0/256
	for _, c := range []struct {
		base      tqc.Config
		scheme    string
		low, high int32
		policy    string
		observer  tqc.Observer
	}{
		{s8, "int8-sym-channel", -127, 127, "symmetric per-channel linear", s8.Observer},
		{whole, "int8-sym-channel", -128, 127, "symmetric per-channel linear", s8.Observer},
		{reduced, "int8-sym-tensor-pow2", -64, 64, "symmetric per-tensor linear power-of-2", s8.Observer},
		{s8, "int4-sym-g32", -7, 7, "symmetric per-group linear", s8.Observer},
		{whole, "int4-sym-g32", -8, 7, "symmetric per-group linear", s8.Observer},
		{u8, "int16-sym-tensor", -32768, 32767, "symmetric per-tensor linear", u8.Observer},
		{u8, "int8-sym-tensor", -128, 127, "symmetric per-tensor linear", u8.Observer},
		{half, "int8-sym-tensor", -127, 127, "symmetric per-tensor linear", u8.Observer},
		{u8, "uint4-asym-tensor", 0, 15, "asymmetric per-tensor linear", u8.Observer},
		{s8, "int8-asym-tensor", -128, 127, "asymmetric per-tensor linear", s8.Observer},
		{s8, "int32-sym-tensor", -1<<31 + 1, 1<<31 - 1, "symmetric per-tensor linear", s8.Observer},
		{fixed, "uint8-asym-tensor", 0, 255, "asymmetric per-tensor linear", tqc.ObserverFixed},
		{fixed, "int16-sym-tensor", -32768, 32767, "symmetric per-tensor linear", tqc.ObserverMinMax},
	} {
		s, err := tqc.ParseScheme(c.scheme)
		require.NoError(t, err)
		got, err := s.Apply(c.base)
		require.NoError(t, err)
		require.NoError(t, got.Validate())
		require.Equal(t, [2]int32{c.low, c.high}, [2]int32{got.QMin, got.QMax}, c.scheme)
		require.Equal(t, c.policy, got.Policy.String())
		require.Equal(t, c.observer, got.Observer)
		back, err := tqc.SchemeOf(got)
		require.NoError(t, err)
		require.Equal(t, s, back)
		again, err := s.Apply(got)
		require.NoError(t, err)
		require.Equal(t, got, again, "applied twice")
	}
}

func TestPoliciesWithoutAScheme(t *testing.T) {
	c := s8
	c.Policy = tqc.Linear | tqc.Symmetric | tqc.PerChannel | tqc.Dynamic
	_, err := tqc.SchemeOf(c)
	require.Error(t, err)
}

// Every scheme that is no integer's gives a valid config, and the config gives the scheme back.
func TestFloatSchemesGiveValidConfigs(t *testing.T) {
	for _, text := range []string{"e4m3-sym-tensor", "e5m2-sym-channel", "e2m1-sym-mx32", "e4m3-sym-mx32ceil", "e2m1-sym-nv16", "nf4-sym-g64",
		"int8-sym-dynamic-token", "uint8-asym-dynamic-tensor", "e4m3-sym-dynamic-token", "int8-sym-mx32"} {
		s, err := tqc.ParseScheme(text)
		require.NoError(t, err, text)
		for _, base := range []tqc.Config{u8, s8} {
			c, err := s.Apply(base)
			require.NoError(t, err)
			require.NoError(t, c.Validate(), text)
			back, err := tqc.SchemeOf(c)
			require.NoError(t, err)
			require.Equal(t, s, back)
			again, err := tqc.Scheme{Bits: 8}.Apply(c)
			require.NoError(t, err)
			require.NoError(t, again.Validate(), "and back to integers")
		}
	}
}
