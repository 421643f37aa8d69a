package qwb

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/export"
	"qwb/export/all"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// Rows of back ends are of operations that there are, one each; every operation has a definition and is derived a second time.
func TestRowsOfBackEnds(t *testing.T) {
	c := Catalog{Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}
	known := map[string][]string{}
	for _, o := range lower.Operators() {
		known[o.Name] = o.Ops
	}
	rows := map[string][]lower.Own{}
	for _, b := range c.Backends {
		rows[b.Name] = b.Own
	}
	for _, f := range c.Formats {
		if f.From == export.Program && f.Own != nil {
			rows[f.Name] = f.Own
		}
	}
	require.Subset(t, slices.Collect(maps.Keys(rows)), []string{"reference", "cpu", "c", "tflite", "espdl"})
	for name, list := range rows {
		var seen []string
		for _, o := range list {
			ops, ok := known[o.Operator]
			require.True(t, ok, "%s: %s", name, o.Operator)
			require.Subset(t, ops, o.Ops, "%s: %s", name, o.Operator)
			require.NotContains(t, seen, o.Operator, name)
			seen = append(seen, o.Operator)
		}
	}
	list := c.ListOperators()
	require.Greater(t, len(list), 50)
	for _, o := range list {
		require.True(t, o.Verified, "verify has no derivation of %s", o.Step)
		require.Equal(t, o.Definition == "reference", slices.Contains(o.Backends, "reference"), "%s has no definition, or two", o.Step)
		require.Len(t, append(slices.Clone(o.Backends), o.ByDefinition...), len(c.Backends))
		require.Contains(t, o.Formats, "vectors", "test vectors hold every operation")
	}
	require.Empty(t, new(Catalog).ListOperators()[0].Backends)
}
