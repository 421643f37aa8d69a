package calibrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/plan"
)

// Samples of a plan that begins with another one are read as that one reads them, unless something else is asked for.
func TestSamplesAreReadAsThePlanBefore(t *testing.T) {
	before := &plan.Plan{Meta: plan.Meta{Preprocess: plan.Preprocess{Scale: 0.5, Tokenizer: "tok.json"}}}
	o := Options{From: "sub/a.plan.json"}
	o.readAs(before)
	require.Equal(t, &before.Preprocess, o.Data.Stored)
	require.Equal(t, plan.Resolve("sub/a.plan.json", "tok.json"), o.Data.Tokenizer)

	asked := &plan.Preprocess{Scale: 2}
	o = Options{From: "sub/a.plan.json"}
	o.Data.Stored = asked
	o.readAs(before)
	require.Same(t, asked, o.Data.Stored)

	o = Options{}
	o.readAs(before)
	require.Nil(t, o.Data.Stored, "nothing is begun from")
}
