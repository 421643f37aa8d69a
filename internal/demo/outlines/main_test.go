package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutlinesAreThoseOfTheFonts: the file beside the demo is what go generate makes of the fonts.
func TestOutlinesAreThoseOfTheFonts(t *testing.T) {
	want, err := outlines()
	require.NoError(t, err)
	got, err := os.ReadFile("../outlines.bin")
	require.NoError(t, err)
	require.Equal(t, want, got)
}
