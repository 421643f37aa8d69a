package onnxqdq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/export/onnxqdq"
	"qwb/export/qoperator"
	"qwb/graph/tensor"
	"qwb/internal/exporttest"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
)

// Codes as outputs are what the last quantizer gives, also in front of what moves elements and where the network reads the numbers again;
// an output in float stays so, and if there is no other, that is an error.
func TestOutputsAreCodes(t *testing.T) {
	const network = "input x: f32[1,3,8,8]\nconst w: f32[4,3,3,3] = normal(seed=1, std=0.2)\nconst v: f32[4,4,1,1] = normal(seed=2, std=0.3)\n"
	for name, c := range map[string]struct {
		text  string
		codes []bool // by output
	}{
		"at once":      {"y = Conv(x, w) \"conv\"\noutput y\n", []bool{true}},
		"moved":        {"a = Conv(x, w) \"conv\"\ny = Transpose(a) {perm=[0,2,3,1]} \"turn\"\noutput y\n", []bool{true}},
		"read again":   {"y = Conv(x, w) \"conv\"\nz = Conv(y, v) \"again\"\noutput y\noutput z\n", []bool{true, true}},
		"float beside": {"y = Conv(x, w) \"conv\"\nz = Exp(y) \"exp\"\noutput y\noutput z\n", []bool{true, false}},
	} {
		for _, platform := range []string{"onnxruntime", "pow2_int8"} {
			t.Run(name+"/"+platform, func(t *testing.T) {
				formats := []export.Format{onnxqdq.Format()}
				if platform == "onnxruntime" {
					formats = append(formats, qoperator.Format())
				}
				for _, f := range formats {
					in := exporttest.Input(t, &f, network+c.text, platform, map[string]string{"outputs": "integers"})
					exporttest.Equal(t, &f, in)
				}
				f := onnxqdq.Format()
				in := exporttest.Input(t, &f, network+c.text, platform, nil)
				m, err := onnxqdq.Build(in.Model, in.Set, in.Target, onnxqdq.Options{Outputs: "integers"})
				require.NoError(t, err)
				floats, err := onnxqdq.Build(in.Model, in.Set, in.Target, onnxqdq.Options{})
				require.NoError(t, err)
				x := graphtest.Normal(3, 1, 3, 8, 8)
				want, got := ran(t, floats, x), ran(t, m, x)
				id, _ := in.Model.Graph.LookupNode("conv")
				for i, codes := range c.codes {
					if !codes {
						require.Equal(t, want[i], got[i])
						continue
					}
					require.Contains(t, []tensor.DType{tensor.Uint8, tensor.Int8}, got[i].DType)
					if i > 0 {
						continue // by another scale
					}
					s := in.Set.Output(id, 0)
					p := in.Set.Params(s)
					q := qmath.Codec{Format: in.Set.Slot(s).Config.Format, Scale: p.Scale[0], ZeroPoint: p.ZeroPoint[0]}
					for k, code := range got[i].ToRowMajor().Integers() {
						require.Equal(t, want[i].ToRowMajor().F32()[k], q.Dequantize(code))
					}
				}
			})
		}
	}
	f := onnxqdq.Format()
	in := exporttest.Input(t, &f, network+"a = Conv(x, w) \"conv\"\ny = Exp(a) \"exp\"\noutput y\n", "onnxruntime", nil)
	_, err := onnxqdq.Build(in.Model, in.Set, in.Target, onnxqdq.Options{Outputs: "integers"})
	require.ErrorContains(t, err, "no output of the model is dequantized from 8 or 16 bits")
}
