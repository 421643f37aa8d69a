package decode_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// TestFamilies: logits are those of transformers (testdata/make_families.py) to 1e-4 of the largest, token by token and all at once, and by
// the graph; the most likely tokens are the same.
func TestFamilies(t *testing.T) {
	list, err := os.ReadDir("testdata/families")
	require.NoError(t, err)
	require.Len(t, list, 11)
	windows := map[string][]int{"mistral": {5, 5}, "mistral-wide": {17, 17}, "qwen2-window": {0, 4}, "qwen3-biases": {6, 0}, "phi3": {7, 7},
		"gemma2": {5, 0}}
	for _, entry := range list {
		t.Run(entry.Name(), func(t *testing.T) {
			folder := "testdata/families/" + entry.Name()
			b, err := os.ReadFile(folder + "/expected.json")
			require.NoError(t, err)
			var want struct {
				IDs    []int
				Logits []float32
			}
			require.NoError(t, json.Unmarshal(b, &want))
			m, err := checkpoint.Open(folder)
			require.NoError(t, err)
			defer m.Close()
			assert.Empty(t, m.Warnings)
			assert.Equal(t, windows[entry.Name()], m.Windows)
			most := 0.0
			for _, v := range want.Logits {
				most = max(most, math.Abs(float64(v)))
			}
			same := func(got []float32) {
				t.Helper()
				require.InDeltaSlice(t, want.Logits, got, 1e-4*most)
				for i := 0; i < len(got); i += m.Vocab {
					assert.Equal(t, decode.Largest(want.Logits[i:][:m.Vocab]), decode.Largest(got[i:][:m.Vocab]))
				}
			}
			same(engineLogits(t, m, want.IDs))
			same(graphLogits(t, m, want.IDs))
			e, err := decode.New(context.Background(), m, decode.Options{})
			require.NoError(t, err)
			cache := e.NewCache()
			var one []float32
			for _, id := range want.IDs {
				logits, err := e.Forward(context.Background(), []decode.Sequence{{Cache: cache, Tokens: []int{id}, Want: 1}})
				require.NoError(t, err)
				one = append(one, logits...)
			}
			same(one)
		})
	}
}

// TestFamiliesOnADevice: what it does not compute is refused before anything is sent there.
func TestFamiliesOnADevice(t *testing.T) {
	m, err := checkpoint.Open("testdata/families/gemma")
	require.NoError(t, err)
	defer m.Close()
	_, err = decode.New(context.Background(), m, decode.Options{Device: noDevice{}})
	assert.ErrorContains(t, err, "on the processor alone")
}

type noDevice struct{}

func (noDevice) OpenModel(*checkpoint.Config) (decode.DeviceModel, error) { panic("opened") }
