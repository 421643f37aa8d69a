package decode_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// TestReplace: with all matrices replaced the model is the one that was quantized from the start, with one it is neither, and restored
// it is the float one again.
func TestReplace(t *testing.T) {
	ctx := context.Background()
	m, err := checkpoint.Open(llm(t) + "/stories260K.bin")
	require.NoError(t, err)
	defer m.Close()
	ids := []int{1, 403, 407, 261, 378, 400, 9, 17}
	logits := func(e *decode.Engine) []float32 {
		x, err := e.Forward(ctx, []decode.Sequence{{Cache: decode.NewCache(&e.Config), Tokens: ids, Want: len(ids)}})
		require.NoError(t, err)
		return append([]float32(nil), x...)
	}
	for _, w := range []decode.Weights{{Group: 4}, {Group: 4, Bits: 4, Float: true}} {
		float, err := decode.New(ctx, m, decode.Options{})
		require.NoError(t, err)
		whole, err := decode.New(ctx, m, decode.Options{Weights: w})
		require.NoError(t, err)
		plain, quantized := logits(float), logits(whole)
		matrices := slices.DeleteFunc(m.Parts(), func(p checkpoint.Part) bool { return p.Role.Vector() })
		for _, p := range matrices {
			restore, err := float.Replace(ctx, m, p, w)
			require.NoError(t, err)
			require.False(t, slices.Equal(plain, logits(float)), "%s", p)
			restore()
			require.True(t, slices.Equal(plain, logits(float)), "%s", p)
		}
		var restore []func()
		for _, p := range matrices {
			one, err := float.Replace(ctx, m, p, w)
			require.NoError(t, err)
			restore = append(restore, one)
		}
		require.True(t, slices.Equal(quantized, logits(float)))
		for _, one := range slices.Backward(restore) {
			one()
		}
		require.True(t, slices.Equal(plain, logits(float)))
		for _, c := range []struct {
			part checkpoint.Part
			w    decode.Weights
			want string
		}{
			{checkpoint.Part{Role: checkpoint.Query, Layer: 5}, w, "there is no matrix query of layer 5"},
			{checkpoint.Part{Role: checkpoint.FinalNorm, Layer: -1}, w, "there is no matrix final norm"},
			{checkpoint.Part{Role: checkpoint.Query, Layer: 0}, decode.Weights{Group: 4, Bits: 3}, "codes of 3 bits"},
			{checkpoint.Part{Role: checkpoint.Query, Layer: 0}, decode.Weights{Group: 7}, "groups of 7"},
		} {
			_, err := float.Replace(ctx, m, c.part, c.w)
			assert.ErrorContains(t, err, c.want)
		}
		require.True(t, slices.Equal(plain, logits(float)))
	}
}
