package workbench_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/workbench"
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
	var is workbench.Tensor
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
		for _, x := range []*workbench.Tensor{r.A, r.B} {
			assert.LessOrEqual(t, r.From, min(x.Lo, x.Min))
			assert.GreaterOrEqual(t, r.To, max(x.Hi, x.Max))
		}
	}
	for params, why := range map[string]string{
		`{"a": "other.plan.json", "b": "glyphs.onnx", "node": "x"}`:                                     "glyphs.onnx is no plan",
		`{"a": "other.plan.json", "b": "glyphs.plan.json", "node": "nobody"}`:                           `neither plan quantizes any tensor of operator "nobody"`,
		`{"a": "other.plan.json", "b": "../x.plan.json", "node": "nobody"}`:                             "../x.plan.json",
		fmt.Sprintf(`{"a": "other.plan.json", "b": "glyphs.plan.json", "node": %q, "at": "in9"}`, node): "neither plan quantizes in9",
	} {
		assert.ErrorContains(t, p.try("tensor-pair", params, nil), why)
	}
}
