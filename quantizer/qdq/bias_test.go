package qdq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Integers of a bias that float32 cannot hold come through import, plan, lowering and export as they are.
func TestBiasBeyondFloat32(t *testing.T) {
	want := []int32{1<<24 + 1, -(1<<31 - 127), 3, 1<<30 + 65}
	text := strings.Replace(pairs, "[100, -200, 0, 70000]", "[16777217, -2147483521, 3, 1073741889]", 1)
	im := imported(t, parsed(t, text), &target.ONNXRuntime)
	require.Empty(t, im.Warnings)
	p, err := plan.FromSet(im.Graph, im.Set, plan.Meta{Platform: "onnxruntime", Profile: "ort"})
	require.NoError(t, err)
	conv, _ := im.Graph.LookupNode("conv")
	kept := 0
	for _, n := range p.Nodes {
		for _, s := range n.Slots {
			if s.Codes != nil {
				kept++
				require.Equal(t, "conv in2", n.Name+" "+s.At)
				require.Equal(t, want, s.Codes)
			}
		}
	}
	require.Equal(t, 1, kept)
	b, err := p.Encode()
	require.NoError(t, err)
	back, err := plan.Parse("back.plan.json", b)
	require.NoError(t, err)
	set, err := back.Apply(im.Graph)
	require.NoError(t, err)

	for _, profile := range []string{"ort", "tflite2", "tvm-nearest"} {
		pr, err := qmath.ProfileNamed(profile)
		require.NoError(t, err)
		q, err := lower.Compile(im.Graph, set, &target.ONNXRuntime, pr)
		require.NoError(t, err)
		for _, s := range q.Steps {
			if op, ok := s.Op.(*lower.Linear); ok && s.Node == conv {
				require.Len(t, op.Bias, len(want))
				for c := range want {
					require.EqualValues(t, want[c], op.Bias[c], profile)
				}
			}
		}
	}
	slot := set.Input(conv, 2)
	codes, err := tqc.QuantizeTo(tensor.Int32, im.Graph.Const(im.Graph.Node(conv).Inputs[2]), &set.Slot(slot).Config, set.Params(slot))
	require.NoError(t, err)
	require.Equal(t, want, tensor.Of[int32](codes))

	// Integers that the numbers are not those of are refused: of another model, or of a scale that was edited.
	for i := range back.Nodes {
		for k := range back.Nodes[i].Slots {
			if s := &back.Nodes[i].Slots[k]; s.Codes != nil {
				s.Codes[2]++
			}
		}
	}
	_, err = back.Apply(im.Graph)
	require.ErrorContains(t, err, "slot conv:in2: integer 4 of element 2 stands for")
	bad := tqc.Params{Scale: []float32{1}, ZeroPoint: []int32{0}, Codes: []int32{1}}
	require.ErrorContains(t, im.Set.Clone().Render(im.Set.Input(conv, 0), bad), "integers of their own for 8 bits")
}
