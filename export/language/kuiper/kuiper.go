// Package kuiper writes the quantized checkpoints of KuiperLLama (github.com/zjhellofss/KuiperLLama): version 3 of its exporter, int8
// in groups. Its float files are those of llama2.c version 0.
//
// Unstable: it may change without notice.
package kuiper

import (
	"encoding/binary"
	"fmt"
	"math"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
)

// Format writes the classifier as a matrix of its own also where the model shares it with the embedding: the reader of such files takes
// the float32 embedding for the codes of a shared one.
//
// The file does not say how rotary embedding pairs elements, its base, or the epsilon of the norms: KuiperLLama is compiled for them. They
// are taken from the model, and must be those of one of its builds.
func Format() weights.Format {
	return weights.Format{Name: "kuiper", Title: "KuiperLLama version 3, int8 in groups", Suffix: ".bin",
		Matrices: []string{"int8"}, Shape: true, NormEps: checkpoint.KuiperBuilds[0].NormEps, Layout: layout, Open: checkpoint.OpenLike}
}

// build returns the limits of the build that the model is for, and its flag.
func build(c *checkpoint.Config) (limits weights.Limits, flag string) {
	k := checkpoint.KuiperBuilds[0]
	for _, b := range checkpoint.KuiperBuilds {
		if b.Theta == c.RopeTheta {
			k = b
		}
	}
	return weights.Limits{Theta: k.Theta, Pairing: k.Pairing}, k.Flag
}

func layout(m *checkpoint.Model, o weights.Options) (*weights.File, error) {
	limits, flag := build(&m.Config)
	if err := limits.Check(&m.Config, "KuiperLLama version 3"); err != nil {
		return nil, err
	}
	f := &weights.File{Source: m, Config: m.Config}
	f.Config.Pairing, f.Config.Tied = limits.Pairing, false
	if flag != "" {
		f.Warn("the file is for a KuiperLLama that was compiled with "+flag+" (rotary embedding of base 500000 in halves)", 0)
	}
	group, warnings, err := weights.Groups(&m.Config, weights.Sizing{Asked: o.Group, Default: o.Usual, Fallback: o.Fallback})
	if err != nil {
		return nil, err
	}
	f.Warnings = append(f.Warnings, warnings...)
	if err := sizes(&f.Config); err != nil {
		return nil, err
	}
	f.Add(header(&f.Config, group))
	e := weights.Encoding{Type: checkpoint.Groups, Group: group, Search: o.Search}
	f.PutLayers(e, quantized...)
	f.Put(checkpoint.Classifier, -1, e)
	f.Put(checkpoint.Embedding, -1, weights.Float)
	f.PutLayers(weights.Float, checkpoint.AttentionNorm, checkpoint.FeedNorm)
	f.Put(checkpoint.FinalNorm, -1, weights.Float)
	return f, nil
}

// quantized are the matrices of a layer in the order of the file.
var quantized = []checkpoint.Role{
	checkpoint.Query, checkpoint.Key, checkpoint.Value, checkpoint.Output, checkpoint.Gate, checkpoint.Down, checkpoint.Up,
}

// sizes reports matrices that KuiperLLama cannot address: it counts their elements in int32, and reads the scales behind the codes as
// float32 where they lie, so that the codes must be whole words.
func sizes(c *checkpoint.Config) error {
	for _, role := range append([]checkpoint.Role{checkpoint.Embedding}, quantized...) {
		rows, cols := c.Shape(role)
		if n := int64(rows) * int64(cols); n > math.MaxInt32 {
			return fmt.Errorf("export: the %d elements of %s are more than KuiperLLama counts (%d)", n, role, math.MaxInt32)
		} else if n%4 != 0 {
			return fmt.Errorf("export: KuiperLLama needs matrices of a multiple of 4 elements, %s has %d", role, n)
		}
	}
	return nil
}

// header says by a negative vocabulary that the classifier is a matrix of its own.
func header(c *checkpoint.Config, group int) []byte {
	var b []byte
	for _, n := range []int{c.Dim, c.Hidden, c.Layers, c.Heads, c.KVHeads, -c.Vocab, c.Context, group} {
		b = binary.LittleEndian.AppendUint32(b, uint32(int32(n)))
	}
	return b
}
