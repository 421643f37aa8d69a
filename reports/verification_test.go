package reports

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
)

// A report lists what was simulated instead of compared, with the share of the work that was verified.
func TestVerificationSaysWhatWasSimulated(t *testing.T) {
	v := &analysis.Verification{Verdict: analysis.VerdictPartial, Share: &analysis.Share{Of: "macs", Verified: 9_312, All: 10_001},
		Simulated: []analysis.SimulatedStep{{Node: "fc", Op: "Gemm", MACs: 689, Why: "weights are <wider>"}}}
	var text, page bytes.Buffer
	require.NoError(t, VerificationText(&text, v))
	require.Contains(t, text.String(), "93.11 % of the multiply-accumulates")
	require.Contains(t, text.String(), "weights are <wider>")
	require.NoError(t, VerificationHTML(&page, "model", v))
	require.NotContains(t, page.String(), "<wider>")
	var shown analysis.Verification
	inside(t, page.String(), "verification", &shown)
	require.Equal(t, v, &shown)

	require.NoError(t, VerificationText(&text, &analysis.Verification{Verdict: analysis.VerdictNothing}))
	require.Contains(t, text.String(), "nothing was compared")
	require.Equal(t, "50.00 % of the operators (1 of 2)", ShareText(&analysis.Share{Of: "operators", Verified: 1, All: 2}))
}
