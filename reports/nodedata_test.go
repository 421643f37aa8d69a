package reports_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/reports"
)

// Every operator has its figure under the tensor that it computes; thresholds rise, and the last has room for all of them.
func TestNodeData(t *testing.T) {
	r := &analysis.Report{Platform: "onnxruntime"}
	for tensor, v := range map[string]float64{"a": 0.5, "b": 40, "c": math.NaN(), "d": math.Inf(1), "e": 0} {
		p := analysis.GraphwisePoint{Tensor: tensor}
		p.NSR = v
		r.Graphwise = append(r.Graphwise, p)
	}
	var b bytes.Buffer
	require.NoError(t, reports.NodeData(&b, r))
	var d struct {
		Name       string
		Results    map[string]struct{ Value float64 }
		Thresholds []struct {
			Value   float64
			BgColor string
		}
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &d))
	require.Len(t, d.Results, 3, "what is no number is left out")
	require.Equal(t, 0.5, d.Results["a"].Value)
	last := 0.0
	for _, l := range d.Thresholds {
		require.Greater(t, l.Value, last)
		require.Regexp(t, `^rgb\(`, l.BgColor)
		last = l.Value
	}
	require.Equal(t, 40.0, last)
}
