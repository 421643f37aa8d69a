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
	"qwb/quantizer/target"
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

// PRelu behind an operator with weights is computed in float before the one rounding, with the slope of its channel wherever that lies: in
// a convolution with and without groups, in one along one axis, and in products of matrices.
func TestPReluBehindProducts(t *testing.T) {
	for _, tg := range []target.Target{target.OpenVINO, target.TRTInt8} {
		g, set, feeds := lowertest.ConfiguredFor(t, `
opset 17
input x: f32[2,4,7,7]
input r: f32[2,5,4]
const w: f32[6,4,3,3] = normal(seed=1, std=0.3)
const d: f32[6,1,3,3] = normal(seed=2, std=0.5)
const s: f32[6,1,1] = normal(seed=3, std=0.4)
const l: f32[8,5,3] = normal(seed=4, std=0.3)
const a: f32[8,1] = normal(seed=5, std=0.4)
const m: f32[2,8] = normal(seed=6, std=0.3)
const b: f32[8] = normal(seed=7, std=0.4)
const n: f32[8,3] = normal(seed=8, std=0.3)
c: f32[2,6,5,5] = Conv(x, w) "conv"
p: f32[2,6,5,5] = PRelu(c, s) "prelu"
e: f32[2,6,3,3] = Conv(p, d) {group=6} "depthwise"
q: f32[2,6,3,3] = PRelu(e, s) "by channel"
z: f32[2,6,3,3] = Conv(q, d) {group=6, pads=[1,1,1,1]} "last"
f: f32[2,8,2] = Conv(r, l) "line"
h: f32[2,8,2] = PRelu(f, a) "of rows"
i: f32[2,8,8] = MatMul(h, m) "matrix"
j: f32[2,8,8] = PRelu(i, b) "of columns"
k: f32[2,8,3] = MatMul(j, n) "end"
output z, k
`, &tg)
		profile, err := tg.ProfileNamed("")
		require.NoError(t, err)
		p, err := lower.Compile(g, set, &tg, profile)
		require.NoError(t, err)
		functions := 0
		for i := range p.Steps {
			if op, ok := p.Steps[i].Op.(*lower.Linear); ok && op.Func != nil {
				functions++
			}
		}
		require.Equal(t, 4, functions, lower.Format(p))
		for _, b := range []program.Backend{program.Reference, cpu.Backend} {
			v := (&lowered{g, set, p, feeds}).verify(t, b)
			require.Empty(t, v.Static.Faults, lower.Format(p))
			require.True(t, v.Holds(), "%s: %+v\n%s", tg.Name, v.First, lower.Format(p))
		}
	}
}
