package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/vectors"
)

func TestVerifyWritesVectorsAndPatterns(t *testing.T) {
	calibrated(t)
	done(t, "verify", "--samples", "1", "--dump", "all", "--patterns", "some")
	var all vectors.Program
	require.NoError(t, json.Unmarshal(read(t, filepath.Join("all", "program.json")), &all))
	var found vectors.Patterns
	require.NoError(t, json.Unmarshal(read(t, filepath.Join("some", "patterns.json")), &found))
	require.Equal(t, len(all.Steps), found.Steps)
	steps := len(found.Rest)
	for _, f := range found.Patterns {
		var part vectors.Program
		require.NoError(t, json.Unmarshal(read(t, filepath.Join("some", f.Folder, "program.json")), &part))
		require.Len(t, part.Steps, len(f.Ops))
		steps += f.Places * len(f.Ops)
	}
	require.Equal(t, found.Steps, steps)
}
