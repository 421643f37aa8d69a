package encodings_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/encodings"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// Encodings become pairs: with the type, zero point and axis that each version means, and none where a tensor has no integers.
func TestPairs(t *testing.T) {
	g := graphtest.Parse(t, "opset 17\n"+network)
	p, err := encodings.Pairs(g, []byte(`{"version": "1.0.0", "activation_encodings": [
		{"name": "x", "dtype": "INT", "bw": 8, "is_sym": false, "enc_type": "PER_TENSOR", "scale": [0.5], "offset": [-3]},
		{"name": "a", "dtype": "INT", "bw": 16, "is_sym": true, "enc_type": "PER_TENSOR", "scale": [0.25], "offset": [-32768]},
		{"name": "r", "dtype": "INT", "bw": 16, "is_sym": true, "enc_type": "PER_TENSOR", "scale": [0.25], "offset": [-32768]},
		{"name": "e", "dtype": "FLOAT", "bw": 16, "enc_type": "PER_TENSOR"}, {"name": "none", "dtype": "FLOAT", "bw": 16}],
		"param_encodings": [
		{"name": "w", "dtype": "INT", "bw": 4, "is_sym": true, "enc_type": "PER_CHANNEL", "scale": [1, 2, 3], "offset": [-8, -8, -8]},
		{"name": "b", "dtype": "INT", "bw": 32, "is_sym": true, "enc_type": "PER_TENSOR", "scale": [1], "offset": [-2147483648]}]}`))
	require.NoError(t, err)
	require.Equal(t, &encodings.Paired{Tensors: 3, Floats: 1, Fused: 1, Biases: 1, Unknown: []string{"none"}}, p)
	kinds := map[string]string{}
	for _, id := range g.Nodes() {
		if n := g.Node(id); n.Op == "QuantizeLinear" {
			kinds[g.Value(n.Inputs[0]).Name] = n.Domain + " " + g.Const(n.Inputs[2]).Type()
			require.Equal(t, g.Const(n.Inputs[2]).Shape, g.Const(n.Inputs[1]).Shape)
			if g.Value(n.Inputs[0]).Name == "x" {
				require.Equal(t, []int32{3}, g.Const(n.Inputs[2]).Integers())
				require.Equal(t, tensor.Uint8, g.Value(n.Outputs[0]).DType)
			}
		}
	}
	require.Equal(t, map[string]string{"x": " u8[]", "r": "com.microsoft i16[]", "w": "com.microsoft i4[3]"}, kinds)
	require.NoError(t, g.Check())
}

func TestPairsRefuse(t *testing.T) {
	entry := func(text string) string {
		return `{"version": "2.0.0", "encodings": [` + text + `]}`
	}
	for want, file := range map[string]string{
		"version \"9\"":      `{"version": "9", "encodings": []}`,
		"no encodings":       `{"version": "1.0.0"}`,
		"two encodings":      entry(`{"name": "x", "output_dtype": "int8", "y_scale": 1}, {"name": "x", "output_dtype": "int8", "y_scale": 1}`),
		"5 bits":             entry(`{"name": "x", "output_dtype": "int5", "y_scale": 1}`),
		"scale 0":            entry(`{"name": "x", "output_dtype": "int8", "y_scale": 0}`),
		"offset":             entry(`{"name": "x", "output_dtype": "uint8", "y_scale": 1, "y_zero_point": 300}`),
		"nothing says along": entry(`{"name": "x", "output_dtype": "int8", "y_scale": [1, 2]}`),
		"along axis 0":       entry(`{"name": "w", "output_dtype": "int8", "y_scale": [1, 2], "axis": 0}`),
		"for blocks of 2":    entry(`{"name": "w", "output_dtype": "int8", "y_scale": [[1], [2]], "axis": 1, "block_size": 2}`),
		"unexpected end":     `{"version": `,
	} {
		_, err := encodings.Pairs(graphtest.Parse(t, "opset 17\n"+network), []byte(file))
		require.ErrorContains(t, err, want)
	}
}
