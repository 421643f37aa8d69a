package observers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

func TestMoved(t *testing.T) {
	of := func(st *State, v ...float32) *State {
		_, err := st.Observe(tensor.FromF32(v, len(v)), -1)
		require.NoError(t, err)
		return st
	}
	a := of(New(), 1, 2, 3, -4, 0)
	require.Zero(t, a.Moved(of(New(), 0, -4, 3, 2, 1)))
	require.EqualValues(t, 2, a.Moved(of(New(), 1, 2, 3.5, 4, 0)))
	require.EqualValues(t, 2, of(New(), 1, 2, 3.5, 4, 0).Moved(a))
	require.Zero(t, of(New(), 1e-3, 5).Moved(of(New(), 1.0000001e-3, 5)), "in one bin")
	// 1e9 folds 1e-3 with 2e-3, on both sides.
	require.EqualValues(t, 1, of(New(), 1e-3, 2e-3, 1e9).Moved(of(New(), 1e-3, 2e-3, 1e3)))
	require.Zero(t, a.Moved(of(NewMinMax(), 7)))
}
