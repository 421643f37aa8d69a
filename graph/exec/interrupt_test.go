package exec_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/internal/graphtest"
)

// TestAnInterruptEndsNew: each of the two constants that are computed once for all runs is asked for.
func TestAnInterruptEndsNew(t *testing.T) {
	g := graphtest.Parse(t, "opset 13\ninput x: f32[2]\nconst a: f32[2] = [1, 2]\nb = Exp(a)\nc = Exp(b)\ny = Add(x, c)\noutput y")
	for n := range 2 {
		_, err := exec.New(g, exec.Options{Context: graphtest.NewEnding(n)})
		require.ErrorIs(t, err, context.Canceled)
	}
	_, err := exec.New(g, exec.Options{Context: context.Background()})
	require.NoError(t, err)
}
