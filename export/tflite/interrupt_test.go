package tflite

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/exporttest"
	"qwb/internal/graphtest"
)

// TestAnInterruptEndsTheCheck: where the elements of a Slice come from is found by running it.
func TestAnInterruptEndsTheCheck(t *testing.T) {
	f := Format()
	in := exporttest.Input(t, &f, network, "tflite_int8", nil)
	in.Context = graphtest.NewEnding(0)
	require.ErrorIs(t, f.Check(in), context.Canceled)
	in.Context = nil
	require.NoError(t, f.Check(in))
}
