package workbench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/analysis/tensors"
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
			var x tensors.Tensor
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

// What whatif says is what set then derives, to the bit, and what tensor says of the plan afterwards; what set refuses it refuses in the
// same words.
func TestWhatIfIsWhatSetDerives(t *testing.T) {
	p := planned(t)
	slots := p.activations()
	schemes := []string{`"scheme": "int16-sym-tensor"`, `"scheme": "int8-asym-tensor"`, `"scheme": "e4m3-sym-tensor"`,
		`"scheme": "int8-sym-tensor", "observer": "percentile(0.9)"`}
	asks := map[string][]string{
		slots[0]:   append(schemes, `"lo": -0.75, "hi": 2.5`, `"observer": "mse"`),
		slots[1]:   {`"observer": "minmax"`, `"observer": "percentile(0.99)"`},
		slots[2]:   {`"observer": "kl"`, `"lo": -1, "hi": 1`},
		p.weight(): append(schemes, `"scheme": "int8-sym-channel"`, `"observer": "mse"`, `"observer": "nothing"`),
		"none:in0": {`"observer": "mse"`},
	}
	done, refused := 0, 0
	for slot, list := range asks {
		for _, ask := range list {
			var was, is tensors.Tensor
			var w tensors.Choice
			err := p.try("whatif", fmt.Sprintf(`{"slot": %q, %s}`, slot, ask), &w)
			if w.Select == "" {
				w.Select = slot
			}
			if err != nil {
				word := "activations="
				if slot == p.weight() {
					word = "weights="
				}
				var words []string
				for _, part := range strings.Split(ask, ", ") {
					key, value, _ := strings.Cut(strings.ReplaceAll(part, `"`, ""), ": ")
					words = append(words, map[string]string{"scheme": word, "observer": "observer="}[key]+value)
				}
				said := p.try("set", fmt.Sprintf(`{"select": %q, "properties": %s}`, slot, quoted(words)), nil)
				require.Error(t, said, "%s %s: %v", slot, ask, err)
				if refused++; strings.Contains(ask, "scheme") {
					assert.Equal(t, said.Error(), err.Error())
				}
				continue
			}
			p.call("tensor", fmt.Sprintf(`{"slot": %q}`, slot), &was)
			assert.Equal(t, was.Figures, w.Before)
			p.call("set", fmt.Sprintf(`{"select": %s, "properties": %s}`, quoted(w.Select), quoted(w.Properties)), nil)
			p.call("tensor", fmt.Sprintf(`{"slot": %q}`, slot), &is)
			assert.Equal(t, is.Figures, w.After, ask)
			p.call("undo", ``, nil)
			done++
		}
	}
	assert.GreaterOrEqual(t, done, 10)
	assert.GreaterOrEqual(t, refused, 5)
}

// weight is the slot of the weights of a convolution.
func (p *page) weight() string {
	text, _ := p.store.Read("glyphs.plan.json")
	r, err := plan.Parse("glyphs.plan.json", text)
	require.NoError(p.t, err)
	for _, n := range r.Nodes {
		var d workbench.NodeDetail
		if p.call("node", fmt.Sprintf(`{"node": %q}`, n.Name), &d); d.Weights != nil && d.Weights.Scales > 1 {
			return d.Weights.Slot
		}
	}
	return ""
}

// A question that nobody waits for any more is not answered, and one that waits for another takes no processor.
func TestWhatIfIsNotAnsweredToWhoHasGone(t *testing.T) {
	p := planned(t)
	for _, ask := range []string{`"observer": "kl"`, `"scheme": "int8-sym-tensor"`} {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_, err := p.Call(ctx, "whatif", json.RawMessage(fmt.Sprintf(`{"slot": %q, %s}`, p.weight(), ask)), p.revision)
		assert.ErrorIs(t, err, context.Canceled)
	}
}

// The schemes that are offered are those that set takes of all operators that are selected.
func TestSchemesAreThoseThatSetTakes(t *testing.T) {
	p := planned(t)
	for _, sel := range []string{"type:Conv", "type:Gemm", "type:Conv,type:Gemm"} {
		var s workbench.Schemes
		p.call("schemes", fmt.Sprintf(`{"select": %q}`, sel), &s)
		for word, list := range map[string][]string{"weights=": s.Weights, "activations=": s.Activations} {
			for _, name := range []string{"int8-sym-channel", "int8-sym-tensor", "int8-asym-tensor", "uint8-asym-tensor", "int16-sym-tensor",
				"e4m3-sym-tensor", "int4-sym-g32", "int4-sym-channel"} {
				err := p.try("set", fmt.Sprintf(`{"select": %q, "properties": [%q]}`, sel, word+name), nil)
				if err == nil {
					p.call("undo", ``, nil)
					assert.Contains(t, list, name, "%s %s", sel, word)
				} else if slices.Contains(list, name) {
					assert.Contains(t, err.Error(), "changes nothing", "%s %s", sel, word) // it runs in float: no scheme matters
				}
			}
		}
		if sel == "type:Conv" {
			assert.Contains(t, s.Weights, "int8-sym-channel")
			assert.NotEmpty(t, s.Activations)
		}
	}
}

// The errors add up to what fake quantization does to values spread like the counts, and follow the threshold: a narrow range clips.
func TestFiguresFollowTheRange(t *testing.T) {
	p := planned(t)
	slot := p.activations()[0]
	var x tensors.Tensor
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
	last := tensors.Choice{}
	for i, part := range []float64{1, 0.5, 0.1, 0.01} {
		var w tensors.Choice
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
		var whole tensors.Tensor
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
	for _, ask := range []string{`{}`, `{"slot": "x"}`, `{"slot": "no:in0", "observer": "kl"}`, fmt.Sprintf(`{"slot": %q}`, slot),
		fmt.Sprintf(`{"slot": %q, "lo": 1}`, slot),
		fmt.Sprintf(`{"slot": %q, "lo": 2, "hi": 1}`, slot), fmt.Sprintf(`{"slot": %q, "lo": -1e300, "hi": 1e300}`, slot),
		fmt.Sprintf(`{"slot": %q, "observer": "none"}`, slot), fmt.Sprintf(`{"slot": %q, "observer": "auto"}`, slot),
		fmt.Sprintf(`{"slot": %q, "scheme": "int99"}`, slot), fmt.Sprintf(`{"slot": %q, "lo": 0, "hi": 1, "observer": "kl"}`, slot)} {
		assert.Error(t, p.try("whatif", ask, nil), ask)
	}
}
