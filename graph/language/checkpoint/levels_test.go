package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLevelsAreStoredAsOthersDo: what the tools themselves have written (testdata/packed) is taken apart, and put together again byte for
// byte, but for the type of scales, which is the tool's choice.
func TestLevelsAreStoredAsOthersDo(t *testing.T) {
	const ct = "compressed-tensors"
	for folder, row := range map[string][2]string{"ct-w4a16": {ct, "w4a16"}, "ct-w4a16-asym": {ct, "w4a16_asym"},
		"ct-w8-channel": {ct, "w8a16"}, "ct-w8a8": {ct, "w8a8"}, "ct-fp8-dynamic": {ct, "fp8_dynamic"}, "ct-fp8-block": {ct, "fp8_block"},
		"ct-nvfp4": {ct, "nvfp4a16"}, "ct-mxfp4": {ct, "mxfp4a16"}, "gptq-4": {"gptq", "int4_asym"}, "gptq_v2-8": {"gptq_v2", "int8"},
		"awq": {"awq", "int4_asym"}} {
		t.Run(folder, func(t *testing.T) {
			path := filepath.Join("testdata", "packed", folder)
			m, err := Open(path)
			require.NoError(t, err)
			defer m.Close()
			b, err := os.ReadFile(filepath.Join(path, singleFile))
			require.NoError(t, err)
			s, err := ParseSafetensors(b)
			require.NoError(t, err)
			var scheme Scheme
			for _, x := range Schemes {
				if row == [2]string{x.Method, x.Name} {
					if scheme = x; scheme.Scales == "" {
						scheme.Scales = "BF16"
					}
				}
			}
			if scheme.Name == "int8" {
				scheme.Zeros = true // those of the file are anything
			}
			compared := 0
			for _, x := range m.Tensors() {
				if x.Type != Packed {
					continue
				}
				if n := x.Step(); n > 0 {
					codes, scales := make([]int16, x.Len()), make([]float32, x.Len()/n)
					x.Integers(codes, scales, 0)
					for i, v := range x.All() {
						require.Equal(t, v, float32(codes[i])*scales[i/n], "%s[%d]", x.Name, i)
					}
				} else {
					require.NotNil(t, scheme.Number, "integers are read as such")
				}
				l := apart(x, &scheme)
				data := l.Bytes(nil)
				for _, a := range l.Arrays(strings.TrimSuffix(x.Name, ".weight")) {
					mine := data[:a.Size()]
					data = data[a.Size():]
					for _, other := range s.Arrays {
						if other.Name == a.Name && other.DType == a.DType {
							require.Equal(t, other.Shape, a.Shape, a.Name)
							require.Equal(t, other.Data, mine, a.Name)
							compared++
						}
					}
				}
			}
			require.GreaterOrEqual(t, compared, 7)
		})
	}
}

// apart takes a matrix of a file apart.
func apart(t *Tensor, s *Scheme) *Levels {
	p := t.packing
	s.Height = p.row
	l := NewLevels(s, t.Rows, t.Cols, p.group, s.Scales)
	for r := range t.Rows {
		for c := range t.Cols {
			if p.across {
				l.Codes[r*t.Cols+c] = uint8(p.codes.at(c, r))
			} else {
				l.Codes[r*t.Cols+c] = uint8(p.codes.at(r, c))
			}
			if p.name == "int8" && s.Form == "int-quantized" {
				l.Codes[r*t.Cols+c] ^= 0x80
			}
			at := r/p.row*l.across() + c/p.group
			l.Scales[at] = p.scales.at(r/p.row*p.stride + c/p.group*p.step)
			if p.zeros != nil {
				l.Zeros[at] = uint8((p.zeros.at(c/p.group, r) + p.below) & (len(p.values) - 1))
			}
		}
	}
	if p.factor != nil {
		l.Global = 1 / p.factor(1)
	}
	return l
}
