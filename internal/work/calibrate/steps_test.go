package calibrate

import (
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/internal/work/recipe"
	"qwb/quantizer/decision"
)

// The limits of a gate: within its error a figure passes with a note, unless the gate is strict.
func TestGateJudges(t *testing.T) {
	e := 0.5
	for _, c := range []struct {
		metric       string
		value, limit float64
		err          *float64
		strict, held bool
		note         string
	}{
		{"nsr", 1, 1, nil, true, true, ""},
		{"nsr", 1.1, 1, nil, false, false, ""},
		{"drop", 1.8, 1, &e, false, true, "over the limit by less than the measurement can tell"},
		{"drop", 1.8, 1, &e, true, false, ""},
		{"drop", 1.9, 1, &e, false, false, ""},
		{"cosine", 0.9, 0.95, nil, false, false, ""},
		{"cosine", 0.96, 0.95, nil, true, true, ""},
	} {
		s := recipe.Step{Step: &decision.Step{Line: 3, Gate: &decision.Gate{Strict: c.strict}}, Recipe: &decision.Recipe{File: "r.yaml"}}
		var res Result
		judge(&s, &res, GateResult{Metric: c.metric, Value: c.value, Limit: c.limit, Error: c.err})
		require.Equal(t, c.held, res.Gates[0].Held, "%v", c)
		require.Equal(t, c.note, res.Gates[0].Note)
	}
}
