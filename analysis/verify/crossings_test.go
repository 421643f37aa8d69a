package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// Crossings at the ends of the graph are the caller's, those at islands the target's.
func TestCrossings(t *testing.T) {
	g, set, _ := lowertest.Configured(t, lowertest.Networks["mobilenet"], "trt_int8")
	pr, err := qmath.ProfileNamed("trt")
	require.NoError(t, err)
	p, err := lower.Compile(g, set, &target.TRTInt8, pr)
	require.NoError(t, err)
	var got []analysis.CrossingRow
	for _, c := range crossings(p) {
		c.Step, c.Op = "", ""
		got = append(got, c)
	}
	require.Equal(t, []analysis.CrossingRow{
		{Tensor: "x", Bytes: 243 + 972},
		{Tensor: "c2", ToFloat: true, Island: true, Bytes: 4 * 12 * 81},
		{Tensor: "f", Island: true, Bytes: 12 + 48},
		{Tensor: "y", ToFloat: true, Island: true, Bytes: 20},
	}, got)

	// Without its last island the program ends in integers: what the caller reads.
	last := &p.Steps[len(p.Steps)-1]
	p.Outputs, p.Steps = last.Inputs, p.Steps[:len(p.Steps)-1]
	rows := crossings(p)
	require.False(t, rows[len(rows)-1].Island)
}
