package llama2c

import (
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
)

// V1 is version 1: float32 behind a header of 256 bytes.
func V1() weights.Format {
	return weights.Format{Name: "llama2c-v1", Title: "llama2.c version 1, float32", Suffix: ".bin", Matrices: []string{"f32"},
		NormEps: normEps, Layout: layout1, Open: open}
}

func layout1(m *checkpoint.Model, _ weights.Options) (*weights.File, error) {
	f, err := begin(m, "llama2.c version 1")
	if err != nil {
		return nil, err
	}
	f.Add(header(&m.Config, 1, 0))
	body(f, weights.Float)
	return f, nil
}

// body is what follows the header in versions 1 and 2.
func body(f *weights.File, e weights.Encoding) {
	f.PutLayers(weights.Float, checkpoint.AttentionNorm, checkpoint.FeedNorm)
	f.Put(checkpoint.FinalNorm, -1, weights.Float)
	f.Put(checkpoint.Embedding, -1, e)
	f.PutLayers(e, checkpoint.Query, checkpoint.Key, checkpoint.Value, checkpoint.Output, checkpoint.Gate, checkpoint.Down, checkpoint.Up)
	if !f.Config.Tied {
		f.Put(checkpoint.Classifier, -1, e)
	}
}
