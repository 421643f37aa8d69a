package program_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/programtest"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// Integers of other widths, weights with zero points and scales that are powers of two obey the same rule.
func TestOtherSchemes(t *testing.T) {
	for name, change := range programtest.Schemes {
		for _, base := range []target.Target{target.ONNXRuntime, target.TRTInt8} {
			for network, text := range lowertest.Networks {
				profiles := []string{"onnx", base.Profile}
				if name == "powers of two" && base.Placement.Outputs() {
					profiles = append(profiles, "pow2-half-even")
				}
				for _, profile := range profiles {
					t.Run(name+"/"+base.Name+"/"+network+"/"+profile, func(t *testing.T) {
						tg := base
						change(&tg)
						g, set, feeds := lowertest.ConfiguredFor(t, text, &tg)
						e := programtest.CompiledFor(t, g, set, &tg, profile)
						hook, b := stepwise(t, e.Program(), set, 5e-3)
						_, err := e.Run(context.Background(), feeds, hook)
						require.NoError(t, err, lower.Format(e.Program()))
						require.Positive(t, b.compared)
					})
				}
			}
		}
	}
}

// Whatever the strategy puts on integers, steps obey the same rule: operators that bring float inputs to integers themselves, and float
// operators between integers. The random networks have both.
func TestStrategies(t *testing.T) {
	networks := map[string]string{}
	for name, text := range lowertest.Networks {
		networks[name] = text
	}
	for seed := range uint64(12) {
		networks[fmt.Sprint("random", seed)] = lowertest.Random(seed, 0)
	}
	compared := map[string]int{}
	for _, s := range dispatch.Strategies {
		for _, base := range []target.Target{target.ONNXRuntime, target.TRTInt8} {
			for network, text := range networks {
				t.Run(s.Name+"/"+base.Name+"/"+network, func(t *testing.T) {
					g, set, feeds := lowertest.ConfiguredBy(t, text, &base, s.Name)
					e := programtest.CompiledFor(t, g, set, &base, base.Profile)
					hook, b := stepwise(t, e.Program(), set, 5e-3)
					_, err := e.Run(context.Background(), feeds, hook)
					require.NoError(t, err, lower.Format(e.Program()))
					compared[s.Name] += b.compared
				})
			}
		}
	}
	require.Len(t, compared, len(dispatch.Strategies))
	for _, s := range []string{"pplnn", "pointwise"} {
		require.Less(t, compared[s], compared["conservative"], s)
	}
	for _, s := range []string{"aggressive", "allin", "perseus"} {
		require.Greater(t, compared[s], compared["conservative"], s)
	}
}
