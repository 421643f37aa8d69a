package file

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The content is what was written, in whatever portions, before and after it was asked for.
func TestContent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Content
	require.Empty(t, h.Bytes())
	var want []byte
	for _, n := range []int{0, 1, 700, 5, Piece, 3*Piece + 17, 100, 2} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		k, err := h.Write(b)
		require.NoError(t, err)
		require.Equal(t, n, k)
		want = append(want, b...)
		clear(b) // it was copied
		if n == 100 {
			require.True(t, bytes.Equal(want, h.Bytes()))
		}
	}
	var to bytes.Buffer
	require.NoError(t, h.CopyTo(&to))
	require.True(t, bytes.Equal(want, to.Bytes()))
	require.True(t, bytes.Equal(want, h.Bytes()))
	require.EqualError(t, h.CopyTo(full{}), "full")
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }
