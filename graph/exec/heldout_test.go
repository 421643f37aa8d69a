package exec

import (
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Exactly half of the samples are held out, whatever their order; none that HeldOut keeps out of sums fits while one of the others is held
// out.
func TestHalvesAreExact(t *testing.T) {
	for n := range 70 {
		var hashes [][32]byte
		out := 0
		for i := range n {
			hashes = append(hashes, sha256.Sum256([]byte{byte(i), 7}))
			if HeldOut(hashes[i]) {
				out++
			}
		}
		h := NewHalves(append(hashes, hashes...))
		held, bit := 0, 0
		for _, hash := range hashes {
			if h[hash] {
				held++
				if HeldOut(hash) {
					bit++
				}
			}
		}
		require.Equal(t, (n+1)/2, held)
		require.Equal(t, min(out, held), bit)
		slices.Reverse(hashes)
		require.Equal(t, h, NewHalves(hashes))
	}
}
