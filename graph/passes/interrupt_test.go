package passes

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
)

// TestAnInterruptEndsNormalization: between passes and at every constant that is computed; what is left then is a graph that runs.
func TestAnInterruptEndsNormalization(t *testing.T) {
	for n := 0; ; n++ {
		require.Less(t, n, 1000)
		g := parseGraph(t, "opset 13\ninput x: f32[2]\nconst a: f32[2] = [1, 2]\nb = Exp(a)\nc = Exp(b)\ny = Add(x, c)\noutput y")
		ctx := graphtest.NewEnding(n)
		_, err := Run(ctx, g, Normalize)
		if err == nil {
			require.Greater(t, n, len(Normalize)+2, "it is asked before every pass and while constants are computed")
			requireOps(t, g, "Add")
			break
		}
		require.True(t, errors.Is(err, context.Canceled), err)
		_, err = g.Order()
		require.NoError(t, err)
	}
}
