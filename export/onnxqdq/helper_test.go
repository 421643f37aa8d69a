package onnxqdq_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/export"
	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/exporttest"
	"qwb/internal/graphtest"
	"qwb/quantizer"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/passes"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// findTarget returns a target that does not count the cost of borders, which tiny graphs never repay.
func findTarget(t testing.TB, platform string) *target.Target {
	t.Helper()
	tg, err := target.Find(platform)
	require.NoError(t, err)
	free := *tg
	free.BorderCost = 0
	return &free
}

// configure configures g; nodes that the selectors name stay float. It returns nil where the configuration refuses the graph.
func configure(t testing.TB, g *graph.Graph, tg *target.Target, selectors string) *tqc.Set {
	t.Helper()
	var forced []dispatch.Forced
	if selectors != "" {
		nodes, err := decision.Nodes(g, selectors)
		require.NoError(t, err)
		forced = []dispatch.Forced{{Nodes: nodes, Who: dispatch.ByUser, Why: selectors}}
	}
	a, err := dispatch.Assign(g, tg, dispatch.Options{Forced: forced})
	if err != nil {
		return nil
	}
	set, _, err := quantizer.Configure(g, a, tg, quantizer.Options{})
	if err != nil {
		return nil
	}
	return set
}

// byHand gives every slot round scales: activations 1/4, weights 1/8, and the zero point 3 where one is free.
func byHand(t testing.TB, g *graph.Graph, set *tqc.Set) {
	t.Helper()
	for id := range tqc.SlotID(set.NumSlots()) {
		sl := set.Slot(id)
		if sl.State() != tqc.Initial || set.Root(id) != id {
			continue
		}
		scale, zero := float32(0.25), int32(0)
		switch {
		case sl.Config.Observer == tqc.ObserverFixed:
			scale, zero = sl.Config.FixedScale, sl.Config.FixedZeroPoint
		case sl.Weight:
			scale = 0.125
		case !sl.Config.Policy.Has(tqc.Symmetric):
			zero = 3
		}
		n, known := tqc.NumScales(g.Value(sl.Value).Shape, &sl.Config)
		require.True(t, known)
		var p tqc.Params
		for range n {
			p.Scale, p.ZeroPoint = append(p.Scale, scale), append(p.ZeroPoint, zero)
		}
		require.NoError(t, set.Render(id, p))
	}
	_, err := passes.SolveBias(g, set)
	require.NoError(t, err)
}

// slice is a data set in memory.
type slice struct {
	samples []*exec.Sample
	at      int
}

func (s *slice) Next(context.Context) (*exec.Sample, error) {
	if s.at == len(s.samples) {
		return nil, io.EOF
	}
	s.at++
	return s.samples[s.at-1], nil
}

func (s *slice) Len() int { return len(s.samples) }

// feedsOf makes inputs of a graph: normal numbers where it is fed with float32, zeros elsewhere; open dimensions are 1.
func feedsOf(g *graph.Graph, seed uint64) map[string]*tensor.Tensor {
	feeds := map[string]*tensor.Tensor{}
	for i, v := range g.Inputs {
		val := g.Value(v)
		if val.Const != nil {
			continue
		}
		shape := make([]int, len(val.Shape))
		for k, d := range val.Shape {
			shape[k] = max(int(d.N), 1)
		}
		if feeds[val.Name] = tensor.New(val.DType, shape...); val.DType == tensor.Float32 {
			feeds[val.Name] = graphtest.Normal(seed*100+uint64(i), shape...)
		}
	}
	return feeds
}

// calibrated gives every slot the scale that calibration on random inputs gives it.
func calibrated(t testing.TB, g *graph.Graph, set *tqc.Set) {
	t.Helper()
	ctx := context.Background()
	data := &slice{}
	for i := range 2 {
		s := &exec.Sample{Label: -1, Feeds: feedsOf(g, uint64(i+1))}
		s.Hash[0] = byte(i)
		data.samples = append(data.samples, s)
	}
	stats, err := calib.Run(ctx, g, data, calib.Config{})
	require.NoError(t, err)
	_, err = calib.Render(ctx, g, set, stats, calib.RenderConfig{})
	require.NoError(t, err)
}

var options = onnxqdq.Options{Producer: "qwb", Version: "test", Metadata: []onnx.KeyValue{{Key: "qwb.plan", Value: "0123"}}}

func build(t testing.TB, m *onnx.Model, set *tqc.Set, tg *target.Target) *onnx.Model {
	t.Helper()
	out, err := onnxqdq.Build(m, set, tg, options)
	require.NoError(t, err)
	readBack(t, m, set, tg, onnxqdq.Options{})
	return out
}

// readBack writes a model and compares the file with what it was made of.
func readBack(t testing.TB, m *onnx.Model, set *tqc.Set, tg *target.Target, o onnxqdq.Options) {
	t.Helper()
	f := onnxqdq.Format()
	values := map[string]string{}
	if o.Half != "" {
		values["half"] = o.Half
	}
	resolved, err := f.Resolve(values)
	require.NoError(t, err)
	require.Empty(t, exporttest.Equal(t, &f, &export.Input{Model: m, Set: set, Target: tg, Options: resolved}).NotHeld)
}

// written returns the bytes of a model, and the model read back from them with inferred shapes.
func written(t testing.TB, m *onnx.Model) ([]byte, *onnx.Model) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, m.Write(&b))
	back, _, err := onnx.Read(bytes.NewReader(b.Bytes()), int64(b.Len()), nil)
	require.NoError(t, err)
	require.Empty(t, graph.InferShapes(back.Graph))
	return b.Bytes(), back
}

// integers is what Check is told about a plan.
func integers(g *graph.Graph, set *tqc.Set) func(string) bool {
	return func(node string) bool {
		id, ok := g.LookupNode(node)
		return ok && set.Domains[id] == tqc.DomainInt
	}
}
