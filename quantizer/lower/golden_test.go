package lower_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

var update = flag.Bool("update", false, "write the programs that the tests find as what they are to be")

// compile lowers a network of lowertest.
func compile(t testing.TB, text, platform, profile string) (*lower.Program, error) {
	t.Helper()
	g, set, _ := lowertest.Configured(t, text, platform)
	tg, err := target.Find(platform)
	require.NoError(t, err)
	p, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	return lower.Compile(g, set, tg, p)
}

// The text of every network's program, on every target under its own profile.
func TestPrograms(t *testing.T) {
	for name, text := range lowertest.Networks {
		for _, tg := range []*target.Target{&target.TRTInt8, &target.ONNXRuntime, &target.OpenVINO, &target.Pow2} {
			t.Run(name+"/"+tg.Name, func(t *testing.T) {
				p, err := compile(t, text, tg.Name, tg.Profile)
				require.NoError(t, err)
				file := filepath.Join("testdata", name+"."+tg.Name+".txt")
				if *update {
					require.NoError(t, os.WriteFile(file, []byte(lower.Format(p)), 0o644))
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Equal(t, string(want), lower.Format(p))
			})
		}
	}
}
