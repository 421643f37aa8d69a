package all_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export"
	"qwb/export/all"
	"qwb/internal/exporttest"
	"qwb/internal/longtest"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// Whatever a format takes is read back as it was written: a right file is refused nowhere.
func TestWhatIsWrittenIsReadBack(t *testing.T) {
	longtest.Need(t, "all formats of all platforms")
	compared := 0
	for i, name := range slices.Sorted(maps.Keys(lowertest.Networks)) {
		text := lowertest.Networks[name]
		for j, platform := range target.Builtin().All {
			if (i+j)%4 != 0 { // files are many: every network meets every fourth platform, every platform every fourth network
				continue
			}
			whole := lowers(t, text, platform.Name)
			for _, f := range all.Formats() {
				if f.From == export.Checkpoint || !f.Takes(platform.Name) || f.From == export.Program && !whole {
					continue
				}
				t.Run(name+"/"+platform.Name+"/"+f.Name, func(t *testing.T) {
					if written(t, &f, text, platform.Name) {
						compared++
					}
				})
			}
		}
	}
	require.Greater(t, compared, 500)
}

// lowers reports whether all of a network has integers on a platform, as formats of programs want.
func lowers(t *testing.T, text, platform string) bool {
	in := exporttest.Input(t, &export.Format{From: export.Plan}, text, platform, nil)
	profile, err := in.Target.ProfileNamed("")
	require.NoError(t, err)
	_, err = lower.Compile(in.Model.Graph, in.Set, in.Target, profile)
	return err == nil
}

// written writes a network, where the format has a form for it, and compares the file with the plan.
func written(t *testing.T, f *export.Format, text, platform string) bool {
	in := exporttest.Input(t, f, text, platform, nil)
	in.Array = npy.Write
	if f.Check != nil && f.Check(in) != nil {
		return false
	}
	out := f.NewOutput(filepath.Join(t.TempDir(), "m"+f.Ext), nil)
	defer out.Discard()
	if _, err := f.Write(context.Background(), in, out); err != nil {
		return false
	}
	_, err := f.Equal(context.Background(), in, out)
	require.NoError(t, err)
	return true
}
