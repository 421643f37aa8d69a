package weights_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/internal/weightstest"
)

// stored is a model whose matrices are stored in an encoding.
func stored(t *testing.T, m *checkpoint.Model, e weights.Encoding) *checkpoint.Model {
	t.Helper()
	var list []*checkpoint.Tensor
	for _, x := range m.Tensors() {
		if x.Role.Vector() {
			list = append(list, x)
			continue
		}
		f := &weights.File{Source: m, Config: m.Config}
		f.Put(x.Role, x.Layer, e)
		b := weightstest.Bytes(t, f)
		n := e.Type.Bytes(x.Len())
		list = append(list, checkpoint.NewTensor(x.Part, x.Name, x.Rows, x.Cols, e.Type, b[:n], b[n:], e.Group))
	}
	out, err := checkpoint.New(m.Config, "stored", list, nil)
	require.NoError(t, err)
	return out
}

// TestConversions: integers are carried where the grid holds them, and are the same floats, also with rows in another order; the rest is
// refused, or quantized once more with its error.
func TestConversions(t *testing.T) {
	scheme := func(name string) *checkpoint.Scheme { return checkpoint.SchemeOf("gptq", name) }
	source := weightstest.Model(t, weightstest.Llama(), 5)
	four := weights.Encoding{Type: checkpoint.Packed, Group: 16, Scheme: scheme("int4_asym"), Scale: "F16"}
	for _, c := range []struct {
		from, to weights.Encoding
		lost     string
	}{
		{weights.Encoding{Type: checkpoint.GGQ8}, weights.Encoding{Type: checkpoint.Groups, Group: 32}, ""},
		{weights.Encoding{Type: checkpoint.GGQ8}, weights.Encoding{Type: checkpoint.Groups, Group: 16}, ""},
		{weights.Encoding{Type: checkpoint.GGQ8}, weights.Encoding{Type: checkpoint.Groups, Group: 64}, "several scales"},
		{weights.Encoding{Type: checkpoint.GGQ4}, weights.Encoding{Type: checkpoint.GGQ8}, ""},
		{weights.Encoding{Type: checkpoint.GGQ4}, four, ""},
		{weights.Encoding{Type: checkpoint.GGQ4}, weights.Float, ""},
		{weights.Encoding{Type: checkpoint.GGQ50}, weights.Encoding{Type: checkpoint.WideQ8}, ""},
		{weights.Encoding{Type: checkpoint.IQ4NL}, weights.Encoding{Type: checkpoint.GGQ8}, ""},
		{weights.Encoding{Type: checkpoint.GGQ41}, weights.Encoding{Type: checkpoint.GGQ8}, "not integers times a scale"},
		{weights.Encoding{Type: checkpoint.GGQ8}, weights.Encoding{Type: checkpoint.GGQ4}, "integers from"},
		{weights.Encoding{Type: checkpoint.Groups, Group: 32}, weights.Encoding{Type: checkpoint.GGQ8}, "has more digits"},
		{weights.Encoding{Type: checkpoint.GGQ8}, weights.Encoding{Type: checkpoint.F16}, "more digits"},
		{weights.Encoding{Type: checkpoint.GGQ8}, weights.Encoding{Type: checkpoint.GGQ50}, "only the same codes"},
	} {
		if c.from.Type == checkpoint.GGQ4 && c.to.Type == checkpoint.Packed {
			c.to.Group = 32
		}
		m := stored(t, source, c.from)
		f := &weights.File{Source: m, Config: m.Config}
		f.Config.Pairing = checkpoint.Halves
		part := checkpoint.Part{Role: checkpoint.Query, Layer: 1}
		f.Put(part.Role, part.Layer, c.to)
		err := f.Convert(false)
		if c.lost != "" {
			assert.ErrorContains(t, err, c.lost, "%s to %s", c.from.Name(), c.to.Name())
			require.NoError(t, f.Convert(true))
		} else {
			require.NoError(t, err, "%s to %s", c.from.Name(), c.to.Name())
		}
		b := weightstest.Bytes(t, f)
		if c.to.Type == checkpoint.Packed {
			continue // read back by the tests of the formats
		}
		n := c.to.Type.Bytes(64 * 64)
		back, err := checkpoint.New(f.Config, "back", replaced(m, part, checkpoint.NewTensor(part, "", 64, 64, c.to.Type, b[:n], b[n:],
			c.to.Group)), nil)
		require.NoError(t, err)
		found, err := f.Compare(context.Background(), back, weights.Run{Threads: 1})
		require.NoError(t, err, "%s to %s", c.from.Name(), c.to.Name())
		if c.lost != "" {
			require.Len(t, found.Lost, 1)
			assert.InDelta(t, 0.05, found.Lost[0].Error, 0.06, "%s to %s", c.from.Name(), c.to.Name())
		} else if c.to.Quantized() {
			assert.Equal(t, 1, found.Equal)
		}
	}
}

func replaced(m *checkpoint.Model, p checkpoint.Part, by *checkpoint.Tensor) (list []*checkpoint.Tensor) {
	for _, t := range m.Tensors() {
		if t.Part == p {
			t = by
		}
		list = append(list, t)
	}
	return list
}
