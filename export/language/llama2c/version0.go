package llama2c

import (
	"encoding/binary"
	"math"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/kernels/elementary"
)

// V0 is version 0: float32, with tables of the rotary embedding. They are those of the source where it has them, since its exporter's
// cosines and sines differ from others in last bits.
func V0() weights.Format {
	return weights.Format{Name: "llama2c-v0", Title: "llama2.c version 0, float32", Suffix: ".bin", Matrices: []string{"f32"},
		NormEps: normEps, Layout: layout0, Open: open}
}

func layout0(m *checkpoint.Model, _ weights.Options) (*weights.File, error) {
	f, err := begin(m, "llama2.c version 0")
	if err != nil {
		return nil, err
	}
	vocab := m.Vocab
	if !m.Tied {
		vocab = -vocab
	}
	f.Add(numbers(&m.Config, vocab))
	f.Put(checkpoint.Embedding, -1, weights.Float)
	f.PutLayers(weights.Float, checkpoint.AttentionNorm, checkpoint.Query, checkpoint.Key, checkpoint.Value, checkpoint.Output,
		checkpoint.FeedNorm, checkpoint.Gate, checkpoint.Down, checkpoint.Up)
	f.Put(checkpoint.FinalNorm, -1, weights.Float)
	tables := m.RopeTables
	if tables == nil {
		tables = rotary(&m.Config)
	}
	f.Add(tables)
	if !m.Tied {
		f.Put(checkpoint.Classifier, -1, weights.Float)
	}
	return f, nil
}

// rotary computes the cosines and then the sines of all positions as llama2.c's precompute_freqs_cis does, in float32: the
// frequencies 1 / theta^(2i/d), and their products with the positions.
func rotary(c *checkpoint.Config) []byte {
	half := c.HeadDim / 2
	freqs := make([]float32, half)
	for i := range freqs {
		freqs[i] = 1 / float32(elementary.Pow(theta, float64(float32(2*i)/float32(c.HeadDim))))
	}
	n := c.Context * half
	b := make([]byte, 8*n)
	for i := range n {
		angle := float64(float32(i/half) * freqs[i%half])
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(math.Cos(angle))))
		binary.LittleEndian.PutUint32(b[4*(n+i):], math.Float32bits(float32(math.Sin(angle))))
	}
	return b
}
