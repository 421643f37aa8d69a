package all_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/export/all"
)

// Every format says what users need to know, names are unique among plans and among checkpoints, and an option is the same thing
// wherever it occurs, for it is one flag.
func TestFormats(t *testing.T) {
	names := map[string]bool{}
	options := map[string]export.Option{}
	for _, f := range all.Formats() {
		require.NotEmpty(t, f.Doc, f.Name)
		require.NotNil(t, f.Write, f.Name)
		kind := "plan"
		if f.From == export.Checkpoint {
			kind = "checkpoint"
		}
		require.NotNil(t, f.Back, "%s: what is written of a %s is read back", f.Name, kind)
		require.False(t, names[kind+" "+f.Name], f.Name)
		names[kind+" "+f.Name] = true
		for _, o := range f.AllOptions() {
			require.NotEmpty(t, o.Doc, "%s --%s", f.Name, o.Name)
			first, seen := options[o.Name]
			if !seen {
				options[o.Name] = o
				continue
			}
			first.Choices, o.Choices = nil, nil // formats differ in them
			require.Equal(t, first, o, "%s --%s", f.Name, o.Name)
		}
		_, err := f.Resolve(nil)
		require.NoError(t, err, "the defaults of %s are values", f.Name)
	}
}
