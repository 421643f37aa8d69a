package all_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export"
	"qwb/export/all"
	"qwb/internal/exporttest"
	"qwb/internal/graphtest"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// TestAnInterruptEndsWriting: whatever a format writes of a plan, writing and reading back are ended wherever they ask.
func TestAnInterruptEndsWriting(t *testing.T) {
	tried := 0
	for _, f := range all.Formats() {
		if f.From == export.Checkpoint {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			for _, platform := range target.Builtin().All {
				if !f.Takes(platform.Name) || f.From == export.Program && !lowers(t, lowertest.Networks["linear"], platform.Name) {
					continue
				}
				if interrupted(t, &f, platform.Name) {
					tried++
					return
				}
			}
		})
	}
	require.Greater(t, tried, 15)
}

func interrupted(t *testing.T, f *export.Format, platform string) bool {
	in := exporttest.Input(t, f, lowertest.Networks["linear"], platform, nil)
	in.Array = npy.Write
	if f.Check != nil && f.Check(in) != nil {
		return false
	}
	out := f.NewOutput(filepath.Join(t.TempDir(), "m"+f.Ext), nil)
	defer func() { out.Discard() }()
	if _, err := f.Write(t.Context(), in, out); err != nil || len(out.Written()) == 0 {
		return false
	}
	asked := ended(t, func(c *graphtest.Ending) error {
		out.Discard()
		out = f.NewOutput(filepath.Join(t.TempDir(), "m"+f.Ext), nil).In(c)
		_, err := f.Write(c, in, out)
		return err
	})
	require.Positive(t, asked)
	if f.Back == nil {
		return true
	}
	compared := 0
	asked = ended(t, func(c *graphtest.Ending) error {
		b, err := f.Equal(c, in, out)
		if err == nil {
			compared = int(b.Compared)
		}
		return err
	})
	require.GreaterOrEqual(t, asked, min(compared, 3))
	return true
}

// ended runs f under contexts that end ever later, until it succeeds, and returns about how often it asked.
func ended(t *testing.T, f func(c *graphtest.Ending) error) int {
	for n := 0; ; n += 1 + n/4 {
		require.Less(t, n, 10000)
		err := f(graphtest.NewEnding(n))
		if err == nil {
			return n
		}
		require.ErrorIs(t, err, context.Canceled, "after %d questions", n)
	}
}
