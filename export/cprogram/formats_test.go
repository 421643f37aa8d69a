package cprogram_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/cprogram"
	"qwb/internal/longtest"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
)

// Random networks with weights of 2 to 8 bits and activations of 8 and 16, signed and unsigned, give the reference's integers in C: each
// pair under another profile, those of 16 bits with accumulators and biases of 64.
func TestFormats(t *testing.T) {
	compiler(t)
	profiles := inC()
	integers, programs, wide := 0, 0, 0
	for i, tg := range lowertest.Formats() {
		if !longtest.Wanted(t) && i%5 != 0 {
			continue
		}
		for k := range profiles {
			g, set, feeds := lowertest.ConfiguredFor(t, lowertest.Random(uint64(2000+i), 0), &tg)
			p, err := lower.Compile(g, set, &tg, profiles[(i+k)%len(profiles)])
			if err != nil {
				continue // this profile has no form for something in it
			}
			t.Run(tg.Name+"/"+p.Profile.Name, func(t *testing.T) { integers += compared(t, p, feeds, nil, strict) })
			var text strings.Builder
			_, err = cprogram.Write(&text, p, cprogram.Options{})
			require.NoError(t, err)
			packs := false
			for _, s := range p.Steps {
				if op, ok := s.Op.(*lower.Linear); ok && op.Wide {
					wide++
				}
				op, ok := s.Op.(*lower.Linear)
				packs = packs || ok && op.Weights != nil && op.Weights.Bits <= 4
			}
			require.True(t, p.Profile.Saturates || packs == strings.Contains(text.String(), ", two in a byte"), tg.Name)
			programs++
			break
		}
	}
	t.Logf("%d programs, %d integers, %d sums of 64 bits", programs, integers, wide)
	require.Positive(t, integers)
	require.Positive(t, wide)
}
