package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// Some formats hold less than a Config: the rest stands in a config.json as Hugging Face writes it, beside the file.

// ShapeSuffix is how the name of such a config.json ends where it belongs to one file of a folder.
const ShapeSuffix = ".config.json"

// shapeName is the config.json of a file: model.config.json of model.mllm.
func shapeName(path string) string {
	name := filepath.Base(path)
	return strings.TrimSuffix(name, filepath.Ext(name)) + ShapeSuffix
}

// shape is what is known of a model beside its file: what OpenLike was given, or what the config.json of the file says, or that of its
// folder. nil where there is none.
func (m *Model) shape() (*Config, error) {
	if m.like != nil {
		return m.like, nil
	}
	for _, name := range []string{shapeName(m.Path), configFile} {
		b, err := m.mapFile(filepath.Join(filepath.Dir(m.Path), name), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c, _, err := parseHFConfig(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return &c, nil
	}
	return nil, nil
}

// ShapeJSON writes a shape as config.json. Lists of factors of rotary frequencies have no place in it: an error.
func ShapeJSON(c *Config) ([]byte, error) {
	h := map[string]any{"hidden_size": c.Dim, "intermediate_size": c.Hidden, "num_hidden_layers": c.Layers, "num_attention_heads": c.Heads,
		"num_key_value_heads": c.KVHeads, "head_dim": c.HeadDim, "vocab_size": c.Vocab, "max_position_embeddings": c.Context,
		"rms_norm_eps": decimal(c.NormEps), "rope_theta": c.RopeTheta, "hidden_act": "silu", "tie_word_embeddings": c.Tied,
		"bos_token_id": c.BOS, "eos_token_id": c.EOS}
	for _, f := range hfFamilies {
		if f.family == c.Family {
			h["architectures"], h["model_type"] = []string{f.architecture}, f.modelType
		}
	}
	if s := c.Scaling; s != nil {
		r := map[string]any{"rope_type": "linear", "factor": s.Factor}
		switch {
		case s.Factors != nil:
			return nil, errors.New("config.json has no place for a list of factors of rotary frequencies")
		case s.BetaFast > 0:
			r["rope_type"], r["beta_fast"], r["beta_slow"], r["attention_factor"] = "yarn", s.BetaFast, s.BetaSlow, s.Attention
			r["original_max_position_embeddings"] = s.OriginalContext
		case s.HighFactor > 0:
			r["rope_type"], r["low_freq_factor"], r["high_freq_factor"] = "llama3", s.LowFactor, s.HighFactor
			r["original_max_position_embeddings"] = s.OriginalContext
		}
		h["rope_scaling"] = r
	}
	b, err := json.MarshalIndent(h, "", "  ")
	return append(b, '\n'), err
}

// decimal is a float32 in the fewest digits that give it back.
func decimal(x float32) json.Number { return json.Number(fmt.Sprintf("%v", x)) }
