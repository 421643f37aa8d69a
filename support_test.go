package qwb

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/export/all"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
)

const supported = `
opset 17
opset "com.acme" 3
input x: f32[1,32,8,8]
input z: f32[4,4]
const w: f32[8,32,3,3] = normal(seed=1)
c: f32[1,8,8,8] = Conv(x, w) {pads=[1, 1, 1, 1]} "conv"
r: f32[1,8,8,8] = Relu(c) "relu"
s: f32[1,8,8,8] = Softmax(r) {axis=1} "soft"
k = com.acme::Warp(s) "warp"
d: f32[] = Det(z) "det"
h: i64[4] = Shape(x) "shape"
output k: f32[1,8,8,8]
output d: f32[]
output h: i64[4]
`

// Where every operator runs, and by which rule: on targets that were compared with an engine, on one without float beside its integers, on
// one whose engine nobody had, and on one without any float. What the writer of a format has no form for is named by the writer itself.
func TestSupport(t *testing.T) {
	absent := target.Pow2
	absent.Name, absent.Float = "mynpu", target.FloatAbsent
	own, err := target.Builtin().With(&absent)
	require.NoError(t, err)
	ctx, p := context.Background(), &Project{Model: filepath.Join(t.TempDir(), "m.onnx"), Store: OS{},
		Catalog: Catalog{Platforms: own, Formats: all.Formats()}}
	require.NoError(t, (&onnx.Model{Graph: graphtest.Parse(t, supported)}).Save(p.Model, onnx.SaveOptions{}))
	for platform, want := range map[string]string{
		"onnxruntime": "conv integer weighted, relu integer activation, soft float target, warp unknown operator, det float no-row",
		"tflite_int8": "conv integer weighted, relu integer activation, soft integer arithmetic, warp unsupported format, det unsupported format",
		"pow2_int8":   "conv integer weighted, relu integer activation, soft host no-row, warp unknown operator, det host no-row",
		"mynpu": "conv integer weighted, relu integer activation, soft unsupported no-row, warp unknown operator, " +
			"det unsupported no-row",
		"rknn_int8": "conv integer weighted, relu integer activation, soft unknown engine, warp unknown operator, det unknown engine",
	} {
		s, _, err := p.Support(ctx, platform)
		require.NoError(t, err, platform)
		var got []string
		for _, n := range s.Nodes {
			got = append(got, n.Node+" "+string(n.Where)+" "+n.Rule)
		}
		require.Equal(t, want+", shape shape shape", strings.Join(got, ", "), platform)
		require.Equal(t, platform == "mynpu", !s.Tried, "a platform of one's own names no format")
		require.Equal(t, platform == "rknn_int8", s.Unread != "")
		require.InDelta(t, 1, s.Counts[0].MACs, 0.01)
		require.Equal(t, s.Counts[0].Where, analysis.WhereInteger)
		require.Empty(t, s.Refused)
	}
	_, _, err = p.Support(ctx, "none")
	require.ErrorContains(t, err, `unknown platform "none"`)
}
