package verify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// Random networks with weights of 2 to 8 bits and activations of 8 and 16 hold, and so do the other integers of every network with them.
// Steps with integers of 16 bits are named as computed by the reference.
func TestFormatsHold(t *testing.T) {
	held, wide := 0, 0
	for i, tg := range lowertest.Formats() {
		for k, pr := range qmath.Profiles() {
			if (i+k)%4 != 0 || pr.Name == "ncnn" { // it knows no zero points, and no -128
				continue
			}
			g, set, feeds := lowertest.ConfiguredFor(t, lowertest.Random(uint64(1000+i+31*k), 0), &tg)
			p, err := lower.Compile(g, set, &tg, pr)
			if err != nil {
				continue // this profile has no form for something in it
			}
			t.Run(tg.Name+"/"+pr.Name, func(t *testing.T) {
				l := &lowered{g, set, p, feeds}
				for _, b := range []program.Backend{program.Reference, cpu.Backend} {
					v := l.verify(t, b)
					require.Empty(t, v.Static.Faults, lower.Format(p))
					require.True(t, v.Holds(), "%+v\n%s", v.First, lower.Format(p))
					require.NotEqual(t, analysis.VerdictPartial, v.Verdict)
					if b.Name == "cpu" && tg.Activation.Bits == 16 {
						require.NotEmpty(t, v.Placed.OnHost)
						require.Equal(t, tg.Activation.FormatName()+" activations", v.Placed.OnHost[0].Reason)
						wide++
					}
				}
				held++
			})
		}
	}
	t.Logf("%d programs, %d of 16 bits", held, wide)
	require.Greater(t, held, 50)
	require.Greater(t, wide, 20)
}

// PRelu holds on codes of 8 and 16 bits, with slopes of either sign, by channel and for all.
func TestPReluOfAllWidths(t *testing.T) {
	held := 0
	for _, tg := range lowertest.Formats() {
		for _, pr := range qmath.Profiles() {
			g, set, feeds := lowertest.ConfiguredFor(t, `
input x: f32[2,4,7,7]
const w: f32[6,4,3,3] = normal(seed=1, std=0.3)
const s: f32[6,1,1] = normal(seed=2, std=0.4)
const one: f32[1] = [0.25]
c: f32[2,6,5,5] = Conv(x, w) "conv"
p: f32[2,6,5,5] = PRelu(c, s) "prelu"
q: f32[2,6,5,5] = PRelu(p, one) "second"
output q
`, &tg)
			p, err := lower.Compile(g, set, &tg, pr)
			if err != nil || pr.Name == "ncnn" {
				continue
			}
			v := (&lowered{g, set, p, feeds}).verify(t, cpu.Backend)
			require.Empty(t, v.Static.Faults, lower.Format(p))
			require.True(t, v.Holds(), "%s %s: %+v\n%s", tg.Name, pr.Name, v.First, lower.Format(p))
			held++
		}
	}
	require.Greater(t, held, 100)
}
