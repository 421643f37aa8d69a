package analysis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSignTest(t *testing.T) {
	require.EqualValues(t, 1, SignTest(0, 0))
	require.EqualValues(t, 1, SignTest(0, 9))
	require.InDelta(t, 1.0/1024, SignTest(10, 0), 1e-15)
	require.InDelta(t, 11.0/1024, SignTest(9, 1), 1e-14)
	require.InDelta(t, 0.5, SignTest(4, 3), 1e-14)
	require.InDelta(t, 0.0128, BinomialTail(10, 4, 0.1), 1e-4) // tables of the binomial distribution
	require.InDelta(t, 1, BinomialTail(5, 0, 0.3), 0)
}
