package texts

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/weightstest"
)

func logitsOf(t *testing.T, m *checkpoint.Model, text []int) []float32 {
	t.Helper()
	e, err := decode.New(context.Background(), m, decode.Options{Weights: decode.Weights{Float: true}})
	require.NoError(t, err)
	logits, err := e.Forward(context.Background(), []decode.Sequence{{Cache: e.NewCache(), Tokens: text, Want: len(text)}})
	require.NoError(t, err)
	return logits
}

// TestScale: scaled channels compute the same, and lose less of what is held out; also with heads that share values, biases, gains less one
// and experts. A channel that is louder than others is where it counts.
func TestScale(t *testing.T) {
	shared := small
	shared.KVHeads = small.Heads / 2
	biased := small
	biased.Bias = true
	unit := small
	unit.Family, unit.UnitNorm, unit.GELU = checkpoint.Gemma, true, true
	untied := small
	untied.Tied = false
	w8a8 := weights.Encoding{Type: checkpoint.Packed, Scheme: checkpoint.SchemeOf("compressed-tensors", "w8a8"), Scale: "F32"}
	for _, c := range []struct {
		name   string
		config checkpoint.Config
		e      weights.Encoding
		smooth bool
	}{
		{"llama", small, weights.Encoding{Type: checkpoint.Groups, Group: 16}, false},
		{"shared values", shared, weights.Encoding{Type: checkpoint.GGQ4}, false},
		{"biases", biased, weights.Encoding{Type: checkpoint.GGQ41}, false},
		{"gains less one", unit, weights.Encoding{Type: checkpoint.Groups, Group: 16}, false},
		{"classifier", untied, weights.Encoding{Type: checkpoint.Groups, Group: 16}, false},
		{"experts", experts(2), weights.Encoding{Type: checkpoint.Groups, Group: 16}, false},
		{"w8a8", shared, w8a8, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Layers = 1
			m := weightstest.Model(t, c.config, 5)
			loud := map[checkpoint.Part]*checkpoint.Tensor{}
			for l := range m.Layers {
				for _, r := range []checkpoint.Role{checkpoint.AttentionNorm, checkpoint.FeedNorm} {
					loud[m.Tensor(r, l).Part] = m.Tensor(r, l).Changed(func(i int, v float64) float64 {
						if i == 3 {
							return 20
						}
						return v
					})
				}
			}
			m = m.With(loud)
			run := func(threads int) (map[checkpoint.Part]*checkpoint.Tensor, []Scaling) {
				engine, err := decode.New(context.Background(), m, decode.Options{Threads: threads, Weights: decode.Weights{Float: true}})
				require.NoError(t, err)
				tensors, chosen, err := Scale(context.Background(), Config{Model: m, Engine: engine, Bits: 4, Texts: ids()[:2], Threads: threads,
					Encoding: func(x *checkpoint.Tensor) weights.Encoding {
						e := c.e
						if x.Role.Float() {
							return weights.Float
						}
						if e.Type == checkpoint.Packed {
							e.Group = x.Cols
						}
						return e
					}}, c.smooth)
				require.NoError(t, err)
				return tensors, chosen
			}
			tensors, chosen := run(1)
			require.NotEmpty(t, tensors)
			var plain, scaled float64
			for _, x := range chosen {
				assert.LessOrEqual(t, x.Scaled, x.Plain, x.Part)
				plain, scaled = plain+x.Plain, scaled+x.Scaled
			}
			assert.Less(t, scaled, 0.95*plain)
			if c.name == "experts" {
				_, again := run(3)
				assert.Equal(t, chosen, again)
			}
			text := ids()[1]
			want, got := logitsOf(t, m, text), logitsOf(t, m.With(tensors), text)
			for i, v := range want {
				require.InDelta(t, v, got[i], 2e-4)
			}
		})
	}
}

// TestScaleHeads: inputs of heads that share values have the scale of the one.
func TestScaleHeads(t *testing.T) {
	x := &channels{heads: 2, width: 3}
	var got []int
	for r := range 6 {
		got = append(got, x.first(r))
	}
	assert.Equal(t, []int{0, 1, 2, 6, 7, 8}, got)
}
