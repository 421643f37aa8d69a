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
	require.Len(t, list, 22)
	windows := map[string][]int{"mistral": {5, 5}, "mistral-wide": {17, 17}, "qwen2-window": {0, 4}, "qwen3-biases": {6, 0}, "phi3": {7, 7},
		"gemma2": {5, 0}, "gemma3": {5, 0, 5}, "mixtral": {9, 9}, "smollm3": {0, 0, 6}, "qwen3moe": {7, 7, 7}, "gemma3-images": {4096, 4096}}
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
			if entry.Name() == "gemma3-images" {
				require.Len(t, m.Warnings, 1)
				assert.Contains(t, m.Warnings[0].Text, "34 tensors of the part for images")
				m.Warnings = nil
			}
			if entry.Name() == "phi3-longrope" {
				require.Len(t, m.Warnings, 1)
				assert.Contains(t, m.Warnings[0].Text, "texts of up to 48 of the 64 tokens")
				m.Warnings = nil
			}
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
			assert.Equal(t, engineLogits(t, m, want.IDs), one)
		})
	}
}

// TestExpertsOfGGUF: files of llama.cpp's layout (testdata/make_experts.py), which runs them, give the logits of transformers too.
func TestExpertsOfGGUF(t *testing.T) {
	for _, name := range []string{"experts-mixtral", "experts-qwen2", "experts-qwen3"} {
		b, err := os.ReadFile("testdata/families/" + name + "/expected.json")
		require.NoError(t, err)
		var want struct {
			IDs    []int
			Logits []float32
		}
		require.NoError(t, json.Unmarshal(b, &want))
		m, err := checkpoint.Open("testdata/gguf/" + name + ".gguf")
		require.NoError(t, err)
		assert.Empty(t, m.Warnings)
		assert.InDeltaSlice(t, want.Logits, engineLogits(t, m, want.IDs), 4e-4, name)
		require.NoError(t, m.Close())
	}
}

// TestOlderNamesOfGemma3: files of transformers 4 say the same in other words, and leave out what they have in common.
func TestOlderNamesOfGemma3(t *testing.T) {
	m, err := checkpoint.Open("testdata/families/gemma3-images")
	require.NoError(t, err)
	want := m.Config
	require.NoError(t, m.Close())
	folder := t.TempDir()
	b, err := os.ReadFile("testdata/families/gemma3-images/model.safetensors")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(folder+"/model.safetensors", b, 0o600))
	require.NoError(t, os.WriteFile(folder+"/config.json", []byte(`{"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {
		"model_type": "gemma3_text", "head_dim": 6, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 40}, "bos_token_id": 1,
		"eos_token_id": [2]}`), 0o600))
	m, err = checkpoint.Open(folder)
	require.NoError(t, err)
	defer m.Close()
	assert.Equal(t, want, m.Config)
	assert.InDelta(t, 1e6, m.RopeTheta, 0)
	assert.InDelta(t, 1e4, m.LocalTheta, 0)
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
