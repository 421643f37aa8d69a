package checkpoint

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSafetensorsAreReadAsWritten(t *testing.T) {
	s := &Safetensors{Metadata: map[string]string{"b": "2", "a": "x\"y"}, Arrays: []SafeArray{
		{Name: "z", DType: "F32", Shape: []int{2, 1}, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		{Name: "a", DType: "U8", Shape: []int{3}, Data: []byte{9, 8, 7}},
		{Name: "scalar", DType: "F16", Shape: []int{}, Data: []byte{1, 2}}}}
	var b bytes.Buffer
	require.NoError(t, s.Write(&b))
	require.Zero(t, (b.Len()-8-3-8-2)%8, "the header is padded")
	back, err := ParseSafetensors(b.Bytes())
	require.NoError(t, err)
	require.Equal(t, s, back)

	s.Arrays[1].Name = "z"
	require.ErrorContains(t, s.Write(&b), `"z" occurs twice`)
	s.Arrays[1] = SafeArray{Name: "a", DType: "U8", Shape: []int{4}, Data: []byte{9, 8, 7}}
	require.ErrorContains(t, s.Write(&b), `tensor "a" (U8 [4]) has 3 bytes`)
}
