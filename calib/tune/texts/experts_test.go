package texts

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/weightstest"
)

// experts is small with a mixture in its layers.
func experts(used int) checkpoint.Config {
	c := small
	c.Family, c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden = checkpoint.Qwen2MoE, 12, used, 16, 32
	return c
}

func running(t *testing.T, c checkpoint.Config) (*checkpoint.Model, *decode.Engine) {
	t.Helper()
	m := weightstest.Model(t, c, 5)
	e, err := decode.New(context.Background(), m, decode.Options{Weights: decode.Weights{Float: true}})
	require.NoError(t, err)
	return m, e
}

// TestExperts: what few tokens are given to is fitted to those, and what none is given to is named and has finite scales.
func TestExperts(t *testing.T) {
	m, e := running(t, experts(2))
	text := [][]int{{1, 5, 9}}
	imatrix, err := Importance(context.Background(), e, text)
	require.NoError(t, err)
	var without []checkpoint.Part
	for _, p := range m.Parts() {
		if p.Role.Float() || p.Role == checkpoint.Embedding {
			continue
		}
		energies, err := imatrix.Means(p, m.Of(p).Cols)
		require.NoError(t, err)
		if energies == nil {
			without = append(without, p)
		}
	}
	require.NotEmpty(t, without)
	require.Less(t, len(without), 3*12*m.Layers)
	at := slices.IndexFunc(imatrix.Entries, func(x checkpoint.InputSquares) bool { return x.Name == "blk.0.ffn_down_exps.weight" })
	rows := float32(0)
	for _, n := range imatrix.Entries[at].Counts {
		rows += n
	}
	assert.EqualValues(t, 2*len(text[0]), rows, "each token goes through two")

	encoding := func(t *checkpoint.Tensor) weights.Encoding {
		if t.Role.Float() {
			return weights.Float
		}
		return weights.Encoding{Type: checkpoint.Groups, Group: 16}
	}
	var unseen []checkpoint.Part
	tensors, losses, err := Fit(context.Background(), Config{Model: m, Engine: e, Bits: 4, Texts: text, Round: true, Threads: 1,
		Encoding: encoding, Unseen: func(parts []checkpoint.Part) { unseen = append(unseen, parts...) }})
	require.NoError(t, err)
	require.NotEmpty(t, unseen, "others than without: what is quantized in front changes the router's choice")
	assert.Len(t, losses, len(tensors)-1-len(unseen), "the embedding has none either")
	for p, x := range tensors {
		require.NoError(t, x.Finite(), "%s", p)
	}
	assert.Len(t, tensors, len(slices.DeleteFunc(m.Parts(), func(p checkpoint.Part) bool { return p.Role.Float() })))
	_, named, err := Weigh(context.Background(), m, imatrix, encoding, 4, 1)
	require.NoError(t, err)
	assert.Len(t, named, len(without)+1, "and the embedding")
}

// TestAllExperts: where every token goes through all experts, each of them reads what the one for all tokens reads.
func TestAllExperts(t *testing.T) {
	m, e := running(t, experts(12))
	imatrix, err := Importance(context.Background(), e, ids())
	require.NoError(t, err)
	want, err := imatrix.Means(checkpoint.Part{Role: checkpoint.SharedGate}, m.Dim)
	require.NoError(t, err)
	for x := range m.Experts {
		got, err := imatrix.Means(checkpoint.Part{Role: checkpoint.ExpertUp, Expert: x}, m.Dim)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}
