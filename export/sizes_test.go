package export_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/internal/graphtest"
	"qwb/quantizer/lower"
)

// The first axis has the size that its symbol was given, else the batch, else 1; not two at once.
func TestBoundSizes(t *testing.T) {
	f := export.Format{Name: "sized", From: export.Program, Options: []export.Option{export.Batch, export.OpenSizes}}
	g := graphtest.Parse(t, "input x: f32[N,3,H]\ninput k: f32[4]\ny: f32[N,3,H] = Relu(x)\nz = Relu(k)\noutput y, z")
	for _, c := range []struct {
		given map[string]string
		want  map[string]int64
		fails string
	}{
		{nil, map[string]int64{"N": 1}, ""},
		{map[string]string{"batch": "4", "size": "H=5"}, map[string]int64{"N": 4, "H": 5}, ""},
		{map[string]string{"size": "N=8,H=5"}, map[string]int64{"N": 8, "H": 5}, ""},
		{map[string]string{"size": "N=8", "batch": "1"}, nil, `export: --size N=8 and --batch 1: both are the first axis of input "x"`},
	} {
		options, err := f.Resolve(c.given)
		require.NoError(t, err)
		before := len(options.Sizes("size"))
		got, err := export.BoundSizes(&export.Input{Program: &lower.Program{Graph: g}, Options: options})
		require.Len(t, options.Sizes("size"), before, "options are not changed")
		if c.fails != "" {
			require.EqualError(t, err, c.fails)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, text := range []string{"0", "x", ""} {
		_, err := f.Resolve(map[string]string{"batch": text})
		require.Error(t, err, "--batch %q", text)
	}
}
