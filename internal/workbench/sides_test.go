package workbench_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/analysis"
	"qwb/analysis/tensors"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/demo"
	"qwb/internal/workbench"
	"qwb/reports"
)

// A tensor of two plans is what each of them says of it alone, over one axis that has room for both.
func TestATensorInTwoPlans(t *testing.T) {
	p := planned(t)
	slot := p.activations()[0]
	node := slot[:len(slot)-len(":in0")]
	text, _ := p.store.Read("glyphs.plan.json")
	stats, _ := p.store.Read("glyphs.stats")
	p.store.Write("other.plan.json", text)
	p.store.Write("other.stats", stats)
	p.call("set", fmt.Sprintf(`{"nodes": [%q], "at": "in0", "properties": ["scale=0.5", "zero_point=0"]}`, node), nil)
	var is tensors.Tensor
	p.call("tensor", fmt.Sprintf(`{"slot": %q}`, slot), &is)
	require.EqualValues(t, 0.5, is.Scale)

	for _, at := range []string{"", "in0"} { // the one whose scales differ is the one that is shown
		var r workbench.TensorPair
		p.call("tensor-pair", fmt.Sprintf(`{"a": "other.plan.json", "b": "glyphs.plan.json", "node": %q, "at": %q}`, node, at), &r)
		require.NotNil(t, r.A)
		require.NotNil(t, r.B)
		assert.Equal(t, "in0", r.At)
		assert.Contains(t, r.Ats, "in1")
		assert.Equal(t, is.Figures, r.B.Figures)
		assert.Equal(t, is.Grid, r.B.Grid)
		assert.NotEqual(t, r.A.Scale, r.B.Scale)
		assert.True(t, r.Same)
		assert.Equal(t, r.A.Bins.Edges, r.B.Bins.Edges)
		total := 0.0
		for _, n := range r.A.Bins.Counts {
			total += n
		}
		assert.InDelta(t, float64(r.A.Count), total, 1)
		for _, x := range []*tensors.Tensor{r.A, r.B} {
			assert.LessOrEqual(t, r.From, min(x.Lo, x.Min))
			assert.GreaterOrEqual(t, r.To, max(x.Hi, x.Max))
		}
	}
	for params, why := range map[string]string{
		`{"a": "other.plan.json", "b": "glyphs.onnx", "node": "x"}`: "glyphs.onnx is no plan",
		`{"a": "other.plan.json", "b": "glyphs.plan.json", "node": "nobody"}`: `neither plan ` +
			`quantizes any tensor of operator "nobody"`,
		`{"a": "other.plan.json", "b": "../x.plan.json", "node": "nobody"}`:                             "../x.plan.json",
		fmt.Sprintf(`{"a": "other.plan.json", "b": "glyphs.plan.json", "node": %q, "at": "in9"}`, node): "neither plan quantizes in9",
	} {
		assert.ErrorContains(t, p.try("tensor-pair", params, nil), why)
	}
}

// An operator that has another name in the second plan is found there, and said to be the same.
func TestAnOperatorUnderAnotherName(t *testing.T) {
	p := planned(t)
	m, _, err := onnx.Read(bytes.NewReader(demo.Model), int64(len(demo.Model)), nil)
	require.NoError(t, err)
	g := m.Graph.Clone()
	mix, _ := g.LookupNode("mix")
	require.NoError(t, g.RenameNode(mix, "blend"))
	var other bytes.Buffer
	require.NoError(t, m.WithGraph(g).Write(&other))
	p.store.Write("other.onnx", other.Bytes())
	p.job("open", `{"file": "other.onnx"}`, nil)
	p.job("calibrate", `{"platform": "trt_int8", "data": ["data"]}`, nil)

	for _, b := range []string{"other.onnx", "other.plan.json"} { // a model that has no plan too
		var s qwb.StructuresResult
		p.call("structures", fmt.Sprintf(`{"a": "glyphs.plan.json", "b": %q}`, b), &s)
		assert.Equal(t, 1, s.Renamed)
		assert.Equal(t, []analysis.Operator{{Node: "mix", Op: "Conv"}}, s.Rows[len(s.Rows)-1].A)
		assert.Equal(t, []analysis.Operator{{Node: "blend", Op: "Conv"}}, s.Rows[len(s.Rows)-1].B)
		assert.NotNil(t, s.PictureA)
	}
	var same qwb.StructuresResult
	p.call("structures", `{"a": "other.plan.json", "b": "other.plan.json"}`, &same)
	assert.Empty(t, same.Rows)
	assert.Nil(t, same.PictureA)
	assert.Equal(t, same.A, same.Both)
	for _, name := range []string{"mix", "blend"} {
		var r workbench.TensorPair
		p.call("tensor-pair", fmt.Sprintf(`{"a": "glyphs.plan.json", "b": "other.plan.json", "node": %q}`, name), &r)
		require.NotNil(t, r.A)
		require.NotNil(t, r.B)
		assert.Equal(t, r.A.Figures, r.B.Figures)
	}
}

// Operators that two unlike networks have under one name are not compared.
func TestUnlikeNetworksAreNotComparedByOperator(t *testing.T) {
	p := planned(t)
	m, _, err := onnx.Read(bytes.NewReader(demo.Model), int64(len(demo.Model)), nil)
	require.NoError(t, err)
	g, in := graph.New("unlike", 17), m.Graph.Value(m.Graph.Inputs[0])
	values := []graph.ValueID{}
	for i, op := range []string{"", "ReduceMax", "Tanh", "Flatten"} {
		v := graph.Value{Name: fmt.Sprint("v", i)}
		if i == 0 {
			v = graph.Value{Name: in.Name, DType: in.DType, Shape: in.Shape}
		}
		id, err := g.AddValue(v)
		require.NoError(t, err)
		if values = append(values, id); i > 0 {
			var attrs []graph.Attr
			if op == "ReduceMax" { // as many scores as the demo has
				attrs = []graph.Attr{graph.Ints("axes", 2)}
			}
			_, err = g.AddNode(graph.Node{Attrs: attrs, Name: []string{"", "mean", "x", "flatten"}[i], Op: op, Inputs: values[i-1 : i],
				Outputs: values[i : i+1]})
			require.NoError(t, err)
		}
	}
	g.Inputs, g.Outputs = values[:1], values[3:]
	var other bytes.Buffer
	require.NoError(t, m.WithGraph(g).Write(&other))
	p.store.Write("unlike.onnx", other.Bytes())
	p.job("open", `{"file": "unlike.onnx"}`, nil)
	p.job("calibrate", `{"platform": "trt_int8", "data": ["data"]}`, nil)
	var r qwb.CompareResult
	p.job("compare", `{"runs": ["glyphs.plan.json", "unlike.plan.json"], "data": ["data"], "layers": 4}`, &r)
	assert.Contains(t, r.Pairs[0].Different, "too different to be compared operator by operator: 1 of ")
	assert.Empty(t, r.Pairs[0].Layers)
	assert.Nil(t, r.Pairs[0].Settings)
}

// TestWhatACompareMeasuredIsKnown: the accuracy of the plan that is open, which a comparison has measured, is not to be measured again.
func TestWhatACompareMeasuredIsKnown(t *testing.T) {
	p := planned(t)
	text, _ := p.store.Read("glyphs.plan.json")
	p.store.Write("other.plan.json", text)
	ask := `{"runs": ["glyphs.plan.json", "other.plan.json"], "data": ["data"], "layers": 0%s}`
	var c qwb.CompareResult
	var v reports.View
	p.job("compare", fmt.Sprintf(ask, ""), &c)
	p.call("view", `{"brief": true}`, &v)
	assert.Empty(t, v.Verdict.Metric, "what agrees with float is no accuracy")
	p.job("compare", fmt.Sprintf(ask, `, "labels": "labels.tsv"`), &c)
	p.call("view", `{"brief": true}`, &v)
	assert.Equal(t, "top-1", v.Verdict.Metric)
	assert.Equal(t, c.Samples, v.Verdict.Scored)
	assert.Equal(t, c.Runs[0].Score, v.Verdict.Quantized)
	assert.Equal(t, c.Runs[0].Float, v.Verdict.Float)
	assert.Equal(t, c.Runs[0].Drop, v.Verdict.Drop)
}
