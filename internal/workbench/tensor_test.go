package workbench_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/workbench"
	"qwb/quantizer/plan"
)

// activations are slots of the plan with a scale of their own that is of an activation.
func (p *page) activations() (list []string) {
	text, _ := p.store.Read("glyphs.plan.json")
	r, err := plan.Parse("glyphs.plan.json", text)
	require.NoError(p.t, err)
	for _, n := range r.Nodes {
		for _, s := range n.Slots {
			var x workbench.Tensor
			if len(list) == 3 {
				return list
			}
			if p.call("tensor", fmt.Sprintf(`{"slot": %q}`, n.Name+":"+s.At), &x); x.Drag && x.Root == x.Slot {
				list = append(list, x.Slot)
			}
		}
	}
	require.NotEmpty(p.t, list)
	return list
}

func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// What whatif says is what set then derives, to the bit, and what tensor says of the plan afterwards.
func TestWhatIfIsWhatSetDerives(t *testing.T) {
	p := planned(t)
	slots := p.activations()
	for i, ask := range []string{`"lo": -0.75, "hi": 2.5`, `"observer": "minmax"`, `"observer": "kl"`, `"observer": "mse"`, `"observer": "percentile(0.99)"`, `"scheme": "int16-sym-tensor"`} {
		slot := slots[i%len(slots)]
		var w workbench.WhatIf
		err := p.try("whatif", fmt.Sprintf(`{"slot": %q, %s}`, slot, ask), &w)
		require.NoError(t, err, ask)
		var was, is workbench.Tensor
		p.call("tensor", fmt.Sprintf(`{"slot": %q}`, slot), &was)
		assert.Equal(t, was.Figures, w.Before)
		if err := p.try("set", fmt.Sprintf(`{"select": %s, "properties": %s}`, quoted(w.Select), quoted(w.Properties)), nil); err != nil {
			assert.Equal(t, `"scheme": "int16-sym-tensor"`, ask, "%v", err) // trt_int8 may refuse formats, and says so
			continue
		}
		p.call("tensor", fmt.Sprintf(`{"slot": %q}`, slot), &is)
		assert.Equal(t, is.Figures, w.After, ask)
		p.call("undo", ``, nil)
	}
}

// The errors add up to what fake quantization does to values spread like the counts, and follow the threshold: a narrow range clips.
func TestFiguresFollowTheRange(t *testing.T) {
	p := planned(t)
	slot := p.activations()[0]
	var x workbench.Tensor
	p.call("tensor", fmt.Sprintf(`{"slot": %q}`, slot), &x)
	assert.Equal(t, pictures, x.Samples)
	assert.InDelta(t, x.NSR, x.Clip+x.Round, 1e-15)
	assert.InDelta(t, *x.SQNR, -10*math.Log10(x.NSR), 1e-9)
	assert.LessOrEqual(t, len(x.Grid), 256)
	total := 0.0
	for _, n := range x.Bins.Counts {
		total += n
	}
	assert.InDelta(t, float64(x.Count), total, 1)
	assert.Len(t, x.Bins.Edges, len(x.Bins.Counts)+1)
	assert.GreaterOrEqual(t, len(x.Observers), 4)
	used := 0
	for _, o := range x.Observers {
		if o.Used {
			used++
			assert.Equal(t, x.Scale, o.Scale)
		}
	}
	assert.Equal(t, 1, used)
	last := workbench.WhatIf{}
	for i, part := range []float64{1, 0.5, 0.1, 0.01} {
		var w workbench.WhatIf
		p.call("whatif", fmt.Sprintf(`{"slot": %q, "lo": %g, "hi": %g}`, slot, x.Min*part, x.Max*part), &w)
		if i > 0 {
			assert.Greater(t, w.After.Clip, last.After.Clip)
			assert.Less(t, w.After.Round, last.After.Round)
		}
		last = w
	}
}

func TestNodeShowsWeightsByChannel(t *testing.T) {
	p := planned(t)
	text, _ := p.store.Read("glyphs.plan.json")
	r, err := plan.Parse("glyphs.plan.json", text)
	require.NoError(t, err)
	seen := 0
	for _, n := range r.Nodes {
		var d workbench.NodeDetail
		p.call("node", fmt.Sprintf(`{"node": %q}`, n.Name), &d)
		assert.Equal(t, n.Name, d.Settings.Node)
		assert.NotEmpty(t, d.Slots)
		if d.Weights == nil {
			continue
		}
		seen++
		var whole workbench.Tensor
		p.call("tensor", fmt.Sprintf(`{"slot": %q}`, d.Weights.Slot), &whole)
		assert.Equal(t, whole.Figures, d.Weights.Figures)
		assert.False(t, whole.Drag)
		assert.Len(t, d.Weights.Channels, d.Weights.Of)
		for _, c := range d.Weights.Channels {
			assert.LessOrEqual(t, c.Min, c.Max)
			assert.InDelta(t, c.NSR, c.Clip+c.Round, 1e-12)
			n := 0
			for _, k := range c.Codes {
				n += k
			}
			assert.Equal(t, d.Weights.Scales > 0, n > 0)
		}
	}
	assert.Positive(t, seen)
}

func TestWhatIfRefusesWhatMakesNoSense(t *testing.T) {
	p := planned(t)
	slot := p.activations()[0]
	for _, ask := range []string{`{}`, `{"slot": "x"}`, `{"slot": "no:in0", "observer": "kl"}`, fmt.Sprintf(`{"slot": %q}`, slot), fmt.Sprintf(`{"slot": %q, "lo": 1}`, slot),
		fmt.Sprintf(`{"slot": %q, "lo": 2, "hi": 1}`, slot), fmt.Sprintf(`{"slot": %q, "lo": -1e300, "hi": 1e300}`, slot), fmt.Sprintf(`{"slot": %q, "observer": "none"}`, slot), fmt.Sprintf(`{"slot": %q, "observer": "auto"}`, slot),
		fmt.Sprintf(`{"slot": %q, "scheme": "int99"}`, slot), fmt.Sprintf(`{"slot": %q, "lo": 0, "hi": 1, "observer": "kl"}`, slot)} {
		assert.Error(t, p.try("whatif", ask, nil), ask)
	}
}
