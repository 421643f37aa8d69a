package texts

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/weightstest"
)

// Matrices are the same, bit for bit, where the engine has one layer in memory, a few rows are fitted at once and inputs lie in files; and
// where a run was interrupted behind any matrix and another one went on.
func TestFitLayerByLayer(t *testing.T) {
	ctx := context.Background()
	packed := weights.Encoding{Type: checkpoint.Packed, Group: 16, Scheme: &checkpoint.Schemes[1], Scale: "F16"}
	untied := small
	untied.Tied = false
	mixture := experts(2)
	mixture.Experts = 3
	for _, c := range []struct {
		shape    checkpoint.Config
		encoding weights.Encoding
		follow   bool
	}{{small, weights.Encoding{Type: checkpoint.GGQ4}, true}, {untied, packed, false},
		{mixture, weights.Encoding{Type: checkpoint.Groups, Group: 16}, true}} {
		m := weightstest.Model(t, c.shape, 3)
		run := func(strip, held int, o decode.Options, edit func(c *Config)) (map[checkpoint.Part]*checkpoint.Tensor, []Loss, error) {
			o.Threads, o.Weights = 1, decode.Weights{Float: true}
			engine := func() *decode.Engine {
				e, err := decode.New(ctx, m, o)
				require.NoError(t, err)
				return e
			}
			cfg := Config{Model: m, Engine: engine(), Bits: 4, Texts: ids()[:2], Round: true, Threads: 1,
				Encoding: func(t *checkpoint.Tensor) weights.Encoding {
					if t.Role.Float() {
						return weights.Float
					}
					return c.encoding
				}}
			if c.follow {
				cfg.Float = engine()
			}
			if edit != nil {
				edit(&cfg)
			}
			return fit(ctx, cfg, strip, held)
		}
		bytes := func(done map[checkpoint.Part]*checkpoint.Tensor) map[checkpoint.Part]string {
			out := map[checkpoint.Part]string{}
			for p, t := range done {
				out[p] = string(t.AppendKept(nil))
			}
			return out
		}
		want, losses, err := run(strip, heldBytes, decode.Options{}, nil)
		require.NoError(t, err)
		got, again, err := run(300, 100, decode.Options{Layered: true}, nil)
		require.NoError(t, err)
		assert.Equal(t, bytes(want), bytes(got))
		assert.Equal(t, losses, again)

		stopped := errors.New("stopped")
		for _, after := range []int{len(want) / 2} {
			var kept []*checkpoint.Tensor
			var lost []Loss
			_, _, err := run(strip, heldBytes, decode.Options{Layered: true}, func(c *Config) {
				c.Keep = func(x *checkpoint.Tensor, l []Loss) error {
					if len(kept) == after {
						return stopped
					}
					x, err := checkpoint.ParseKept(x.AppendKept(nil))
					require.NoError(t, err)
					kept, lost = append(kept, x), l
					return nil
				}
			})
			require.ErrorIs(t, err, stopped)
			done := 0
			got, again, err := run(strip, heldBytes, decode.Options{Layered: true}, func(c *Config) {
				c.Kept, c.Lost = kept, lost[:len(lost):len(lost)]
				c.Keep = func(*checkpoint.Tensor, []Loss) error { done++; return nil }
			})
			require.NoError(t, err)
			assert.Equal(t, bytes(want), bytes(got), "after %d", after)
			assert.Equal(t, losses, again)
			assert.Equal(t, len(want)-after, done)
		}
	}
}

func TestKeptTensors(t *testing.T) {
	for _, x := range weightstest.Model(t, small, 3).Tensors()[:2] {
		b := x.AppendKept(nil)
		for n := 0; n < len(b); n += 1 + n/8 {
			if _, err := checkpoint.ParseKept(b[:n]); err == nil {
				t.Fatalf("%s: %d of %d bytes are taken", x.Part, n, len(b))
			}
		}
		y, err := checkpoint.ParseKept(b)
		require.NoError(t, err)
		assert.Equal(t, x.All(), y.All())
	}
}
