package calib_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// TestGridsAreRecovered: weights that were rounded before get the steps that they were rounded by, per channel or per tensor, also where a
// factor per channel was folded into them; all others keep their ranges.
func TestGridsAreRecovered(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	steps := []float32{0.013, 0.5, 7e-4, 1.0 / 3}
	rounded := func(i, _ int) float32 { return float32(rng.IntN(31)-15) * steps[i%4] }
	folded := func(i, c int) float32 { return rounded(i, c) * float32(1.1+0.3*float64(c)) }
	off := func(i, c int) float32 {
		if i == 8 {
			return 0.0131
		}
		return rounded(i, c)
	}
	for name, c := range map[string]struct {
		of                   func(i, channel int) float32
		scheme               string
		recovered, tolerance bool
	}{
		"per channel": {of: rounded, scheme: "int8-sym-channel", recovered: true},
		"asymmetric":  {of: rounded, scheme: "uint8-asym-channel", recovered: true},
		"folded":      {of: folded, scheme: "int8-sym-channel", recovered: true, tolerance: true},
		"one step for all": {of: func(int, int) float32 { return float32(rng.IntN(31)-15) * 0.013 },
			scheme: "int8-sym-tensor", recovered: true},
		"several per tensor":    {of: rounded, scheme: "int8-sym-tensor"},
		"powers of two":         {of: rounded, scheme: "int8-sym-channel-pow2"},
		"no grid":               {of: func(int, int) float32 { return float32(rng.NormFloat64()) }, scheme: "int8-sym-channel"},
		"one number off":        {of: off, scheme: "int8-sym-channel"},
		"more codes than three": {of: rounded, scheme: "int4-sym-channel"},
	} {
		t.Run(name, func(t *testing.T) {
			g := parse(t, "input x: f32[1,40]\nconst w: f32[40,4] = normal(1)\ny = MatMul(x, w)\noutput y: f32[1,4]")
			set := tqc.NewSet(g)
			sl := slotOf(t, g, set, "y", tqc.Input, 1)
			w := g.Const(sl.Value).F32()
			for i := range w {
				w[i] = c.of(i, i%4)
			}
			s, err := tqc.ParseScheme(c.scheme)
			require.NoError(t, err)
			cfg, err := s.Apply(tqc.Config{Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127}, Policy: tqc.Linear, Observer: tqc.ObserverMinMax})
			require.NoError(t, err)
			cfg.Axis, sl.Weight = 1, true
			require.NoError(t, set.Configure(sl.ID, cfg))
			out := render(t, g, set, run(t, g, nil, calib.Config{}), calib.RenderConfig{Threads: 1})
			p := set.Params(sl.ID)
			lost := 0.0
			for i, v := range w {
				k := i % 4 % len(p.Scale)
				codec := qmath.Codec{Format: cfg.Format, Scale: p.Scale[k], ZeroPoint: p.ZeroPoint[k]}
				d := float64(codec.Fake(v) - v)
				lost += d * d
			}
			if !c.recovered {
				require.Greater(t, lost, 1e-8)
				require.Empty(t, out.Warnings)
				return
			}
			if !c.tolerance {
				require.Zero(t, lost)
			}
			require.Less(t, lost, 1e-10)
			require.Len(t, out.Warnings, 1)
			require.Contains(t, out.Warnings[0].Text, "were rounded before")
		})
	}
}
