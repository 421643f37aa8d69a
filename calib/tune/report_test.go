package tune

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
)

// Outputs that are not finite give changes that are no numbers: the best trial is another one, and the report can be written.
func TestChangesThatAreNoNumbers(t *testing.T) {
	nan, fine := analysis.Estimate{Mean: math.NaN(), Error: math.NaN(), N: 40}, analysis.Estimate{Mean: -0.5, Error: 0.1, N: 40}
	require.True(t, better(fine, nan))
	require.False(t, better(nan, fine))
	require.False(t, better(nan, nan))
	require.True(t, better(analysis.Estimate{Mean: -1}, fine))
	for _, e := range []analysis.Estimate{nan, {Mean: math.Inf(1), Error: math.NaN()}} {
		s := Step{By: "a"}
		s.measured(e)
		require.Zero(t, s.Change)
		require.Nil(t, s.ChangeError)
		_, err := json.Marshal(s)
		require.NoError(t, err)
	}
	s := Step{}
	s.measured(fine)
	require.Equal(t, -0.5, s.Change)
	require.NotNil(t, s.ChangeError)
}

// What a tuned network costs is said as people say it: nothing, a few percent more, or times as much.
func TestWordsOfCosts(t *testing.T) {
	model := Size{1000, 1000}
	require.Empty(t, Size{1000, 1000}.Words(model))
	require.Equal(t, "no more work and 4 % more bytes than the model", Size{1000, 1040}.Words(model))
	require.Equal(t, "0.2 % more work and no more bytes than the model", Size{1002, 1000}.Words(model))
	require.Equal(t, "2.1 times the work of the model, and no more bytes", Size{2100, 1000}.Words(model))
	require.Equal(t, "2.33 times the bytes of the model, and no more work", Size{1000, 2333}.Words(model))
	require.Equal(t, "2.1 times the work and 1.04 times the bytes of the model", Size{2100, 1040}.Words(model))
}
