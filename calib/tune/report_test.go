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
