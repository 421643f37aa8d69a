package passes_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/passes"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// configured returns a convolution with the given bias, whose input has scale 0.1 and whose weights have the given scales.
func configured(t *testing.T, bias []float32, weight ...float32) (*graph.Graph, *tqc.Set, graph.NodeID) {
	g := graphtest.Parse(t, `
input x: f32[1,2,8,8]
const w: f32[3,2,1,1] = normal(1)
const b: f32[3] = [0, 0, 0]
y: f32[1,3,8,8] = Conv(x, w, b) "conv"
output y
`)
	v, _ := g.Lookup("b")
	g.SetConst(v, tensor.FromF32(bias, len(bias)))
	tg := target.ONNXRuntime
	tg.BorderCost = 0
	a, err := dispatch.Assign(g, &tg, dispatch.Options{})
	require.NoError(t, err)
	set, _, err := quantizer.Configure(g, a, &tg, quantizer.Options{})
	require.NoError(t, err)
	id, _ := g.LookupNode("conv")
	require.NoError(t, set.Render(set.Input(id, 0), tqc.Params{Scale: []float32{0.1}, ZeroPoint: []int32{3}}))
	require.NoError(t, set.Render(set.Input(id, 1), tqc.Params{Scale: weight, ZeroPoint: make([]int32, 3)}))
	return g, set, id
}

func TestBiasScaleIsTheProductPerChannel(t *testing.T) {
	g, set, id := configured(t, []float32{1, -2, 3}, 0.5, 0.25, 3e-3)
	s := set.Input(id, graph.BiasInput)
	require.Equal(t, tqc.PassiveInit, set.Slot(s).State())
	for range 2 { // again after scales have changed
		warnings, err := passes.SolveBias(g, set)
		require.NoError(t, err)
		require.Empty(t, warnings)
		require.Equal(t, tqc.Passive, set.Slot(s).State())
		x, w := set.Params(set.Input(id, 0)).Scale[0], set.Params(set.Input(id, 1)).Scale
		for c := range 3 {
			require.Equal(t, x*w[c], set.Params(s).Scale[c])
			require.Zero(t, set.Params(s).ZeroPoint[c])
		}
		require.NoError(t, set.Render(set.Input(id, 0), tqc.Params{Scale: []float32{0.7}, ZeroPoint: []int32{0}}))
	}
}

// ONNX Runtime #22020, #25278: a dead channel's tiny weight scale makes bias / (s_x*s_w) exceed 32 bits.
func TestABiasThatDoesNotFitRaisesItsChannelsWeightScale(t *testing.T) {
	g, set, id := configured(t, []float32{1, 1000, -1000}, 0.5, 1e-12, 1e-38)
	ws, s := set.Input(id, 1), set.Input(id, graph.BiasInput)
	warnings, err := passes.SolveBias(g, set)
	require.NoError(t, err)
	require.Len(t, warnings, 1, "one for all channels")
	require.Equal(t, "conv", warnings[0].Node)
	require.Contains(t, warnings[0].Text, "2 of 3 channels")
	w := set.Params(ws).Scale
	require.Equal(t, float32(0.5), w[0], "other channels keep theirs")
	for c, b := range []float32{1, 1000, -1000} {
		scale := set.Params(s).Scale[c]
		require.Equal(t, qmath.BiasScale(0.1, w[c]), scale)
		_, fits := qmath.QuantizeBias(b, scale)
		require.True(t, fits)
		if c > 0 {
			_, before := qmath.QuantizeBias(b, qmath.BiasScale(0.1, w[c]/2))
			require.False(t, before, "no further than needed")
			f, _ := math.Frexp(float64(w[c]) / float64([]float32{0.5, 1e-12, 1e-38}[c]))
			require.Equal(t, 0.5, f, "by a power of two")
			require.LessOrEqual(t, float64(w[c])/float64([]float32{0.5, 1e-12, 1e-38}[c]), warnings[0].Value*(1+1e-6), "the largest factor is told")
		}
	}
}

func TestABiasOf0NeedsNoRoom(t *testing.T) {
	g, set, _ := configured(t, []float32{0, 0, 0}, 0.5, 1e-12, 1e-20)
	warnings, err := passes.SolveBias(g, set)
	require.NoError(t, err)
	require.Empty(t, warnings)
}

func TestSolveBiasWaitsForScales(t *testing.T) {
	g, set, id := configured(t, []float32{1, 2, 3}, 1, 1, 1)
	require.NoError(t, set.Advance(set.Input(id, 0), tqc.Initial))
	fresh := tqc.NewSet(g)
	warnings, err := passes.SolveBias(g, fresh)
	require.NoError(t, err)
	require.Empty(t, warnings, "nothing is integer")
	require.Equal(t, tqc.FP32, fresh.Slot(fresh.Input(id, graph.BiasInput)).State())
}

func TestGranularityIsRefusedWithTheReason(t *testing.T) {
	g, _, _ := configured(t, []float32{1, 2, 3}, 1, 1, 1)
	tg := target.ONNXRuntime
	tg.BorderCost = 0
	tg.Activation.Policy = tqc.Asymmetric | tqc.PerChannel | tqc.Linear
	tg.Activation.Axis = 1
	a, err := dispatch.Assign(g, &tg, dispatch.Options{})
	require.NoError(t, err)
	_, _, err = quantizer.Configure(g, a, &tg, quantizer.Options{})
	require.EqualError(t, err, `configure: node "conv" (Conv, f32[1,2,8,8], f32[3,2,1,1], f32[3]): input 0: `+
		`scales vary along axis 1 of [1,2,8,8], along which Conv sums: they cannot be taken out of the sum`)
}

func TestOptions(t *testing.T) {
	g, _, id := configured(t, []float32{1, 2, 3}, 1, 1, 1)
	a, err := dispatch.Assign(g, &target.ONNXRuntime, dispatch.Options{})
	require.NoError(t, err)
	for i := range a.Domains {
		a.Domains[i] = tqc.DomainInt
	}
	decided := func(list ...decision.Decision) quantizer.Options {
		table, err := decision.Fold(g, list)
		require.NoError(t, err)
		return quantizer.Options{Decisions: table}
	}
	yes := true
	reduced := decision.Decision{By: decision.ByCalibrate, Properties: decision.Properties{Observer: "kl", ReduceRange: &yes}}
	weights := decision.Decision{By: decision.ByUser, Select: decision.Select{"conv:weight"}, Properties: decision.Properties{Observer: "mse"}}
	set, warnings, err := quantizer.Configure(g, a, &target.ONNXRuntime, decided(reduced, weights))
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, tqc.ObserverKL, set.Slot(set.Input(id, 0)).Config.Observer)
	w := set.Slot(set.Input(id, 1)).Config
	require.Equal(t, tqc.ObserverMSE, w.Observer)
	require.Equal(t, [2]int32{-64, 64}, [2]int32{w.QMin, w.QMax})
	require.Equal(t, int32(-127), target.ONNXRuntime.Weight.QMin, "the target itself is not changed")
	_, _, err = quantizer.Configure(g, a, &target.TRTInt8, decided(reduced))
	require.ErrorContains(t, err, "trt_int8 has no reduced range")

	none := &dispatch.Assignment{Domains: make([]tqc.Domain, 1), Why: make([]string, 1), Fused: []graph.NodeID{graph.NoNode}}
	_, warnings, err = quantizer.Configure(g, none, &target.TRTInt8, quantizer.Options{})
	require.NoError(t, err)
	require.Contains(t, warnings[0].Text, "nothing is quantized")
	none.Domains = nil
	_, _, err = quantizer.Configure(g, none, &target.TRTInt8, quantizer.Options{})
	require.ErrorContains(t, err, "domains of 0 nodes for a graph of 1")
}

func TestPassesAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range passes.Configuration {
		require.False(t, seen[p.Name])
		seen[p.Name] = true
		require.NotEmpty(t, p.Doc)
		require.NotNil(t, p.Run)
	}
}

// A bias is held to the range of its slot: one of 30 bits raises the weight scale where one of 32 does not.
func TestNarrowBiasRaisesTheScale(t *testing.T) {
	bias := []float32{0.1 * 0x1p30, -2, 3} // codes 2^30, -20, 30
	g, set, _ := configured(t, bias, 1, 1, 1)
	warnings, err := passes.SolveBias(g, set)
	require.NoError(t, err)
	require.Empty(t, warnings)
	narrow, set, id := configured(t, bias, 1, 1, 1)
	slot := set.Slot(set.Input(id, graph.BiasInput))
	slot.Config.QMin, slot.Config.QMax = -1<<29, 1<<29-1
	warnings, err = passes.SolveBias(narrow, set)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0].Text, "1 of 3 channels does not fit into 30 bits")
	require.Equal(t, []float32{4, 1, 1}, set.Params(set.Input(id, 1)).Scale)
}
