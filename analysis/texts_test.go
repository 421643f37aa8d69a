package analysis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Schemes that differ have texts that differ.
func TestTextsTellSchemesApart(t *testing.T) {
	base := tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.IntegerFormat(8, false), Axis: 1}
	policies, schemes := map[string]bool{}, map[string]bool{}
	list := []string{"int8-sym-channel", "int4-sym-g32", "int4-sym-g128", "int2-sym-g32", "e4m3-sym-g32", "e2m1-sym-g32", "e2m1-sym-g16",
		"e2m1-sym-mx32",
		"e2m1-sym-mx32ceil", "e2m1-sym-nv16", "nf4-sym-g64", "uint16-asym-tensor", "int8-sym-dynamic-token", "int8-sym-tensor-pow2"}
	for _, text := range list {
		s, err := tqc.ParseScheme(text)
		require.NoError(t, err)
		c, err := s.Apply(base)
		require.NoError(t, err)
		policies[policyText(c)], schemes[schemeText(&c)] = true, true
		require.Contains(t, policyText(c), text)
	}
	require.Len(t, policies, len(list), "%v", policies)
	require.Len(t, schemes, len(list), "%v", schemes)
	away := base
	away.Rounding, away.Divisor = qmath.HalfAwayFromZero, 63
	require.Equal(t, "int8-sym-tensor -128..127", policyText(base))
	require.Equal(t, "int8-sym-tensor -128..127 divisor 63 rounding half-away-from-zero", policyText(away))
}
