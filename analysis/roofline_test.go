package analysis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph"
	"qwb/internal/graphtest"
)

// A machine of 100 GOPS in float32, 400 in INT8, that reads 1 GB/s: a product of 2*8*1000*1000 operations on 4.064 MB is bound by
// memory (4.064 ms against 0.16 ms), INT8 moves a quarter; an addition as well; a view takes no time.
func TestRoofline(t *testing.T) {
	g := graphtest.Parse(t, `opset 17
input x: f32[N,8,1000]
const w: f32[1000,1000] = normal(); const k: f32[] = [1]; const s: i64[2] = [-1, 1000]
y = MatMul(x, w) "product"
z = Add(y, k) "sum"
v = Reshape(z, s) "view"
output v`)
	graph.InferShapes(g)
	r, err := analysis.Inspect("m", g, nil, nil)
	require.NoError(t, err)
	require.Equal(t, int64(64000), r.Peak, "two activations of 8 x 1000 for one sample")
	require.Equal(t, int64(4064000), r.Nodes[0].Bytes)
	require.Equal(t, int64(17), r.Ops[0].Version)
	r.SetRoofline(analysis.Roofline{FloatGOPS: 100, IntegerGOPS: 400, Read: []analysis.ReadSpeed{{Bytes: 1, GBps: 1}}})
	require.Equal(t, "memory", r.Nodes[0].Bound)
	require.InDelta(t, 4.064e-3, r.Nodes[0].Seconds, 1e-9)
	require.InDelta(t, 4, r.Nodes[0].Gain, 1e-9)
	require.InDelta(t, 64.004e-6, r.Nodes[1].Seconds, 1e-12)
	require.Empty(t, r.Nodes[2].Bound)
	require.InDelta(t, 4.064e-3+64.004e-6, r.Roofline.Seconds, 1e-9)
	require.InDelta(t, 4, r.Roofline.Gain, 1e-9)

	r.SetRoofline(analysis.Roofline{FloatGOPS: 1, IntegerGOPS: 2, Read: []analysis.ReadSpeed{{Bytes: 1, GBps: 100}}})
	require.Equal(t, "compute", r.Nodes[0].Bound)
	require.InDelta(t, 16e-3, r.Nodes[0].Seconds, 1e-9)
	require.InDelta(t, 2, r.Nodes[0].Gain, 1e-9)

	d, err := analysis.ParseDevice([]byte("name: chip\ngops: {fp32: 100, int16: 200}\nread: [{bytes: 1, gbps: 1}]\n"))
	require.NoError(t, err)
	roof, err := d.Roofline()
	require.NoError(t, err)
	require.Equal(t, []float64{100, 200}, []float64{roof.FloatGOPS, roof.IntegerGOPS}, "int8 runs as int16")
	r.SetRoofline(roof)
	require.InDelta(t, 4.064e-3, r.Nodes[0].Seconds, 1e-9)
	d, err = analysis.ParseDevice([]byte("name: chip\ngops: {int8: 200}\nread: [{bytes: 1, gbps: 1}]\n"))
	require.NoError(t, err)
	_, err = d.Roofline()
	require.ErrorContains(t, err, "no speed of fp32")
}
