package reports_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/reports"
)

func TestSupportTables(t *testing.T) {
	node := func(name string, where analysis.Where, rule, reason string) analysis.NodeSupport {
		return analysis.NodeSupport{Node: name, Op: "Add", Tensor: name + "_y", Where: where, Rule: rule, Reason: reason}
	}
	s := &analysis.Support{Platform: "p", Format: "f", Engine: "E 1.2", Profile: "ort", Untried: "it is too large",
		Refused: []string{"no batch"},
		Counts:  []analysis.WhereCount{{Where: analysis.WhereFloat, Nodes: 2, MACs: 0.25}},
		Nodes: []analysis.NodeSupport{node("a", analysis.WhereInteger, "weighted", "a row"),
			node("b", analysis.WhereUnknown, "operator", "no"),
			node("c", analysis.WhereFloat, "cost", `input "x" is float`), node("d", analysis.WhereFloat, "cost", `input "y" is float`)}}
	var b strings.Builder
	require.NoError(t, reports.InspectText(&b, &analysis.Inspection{Support: s}, false))
	text := b.String()[strings.Index(b.String(), "On p"):]
	require.Equal(t, `On p, read by E 1.2, arithmetic ort, never compared with an engine's
The writer of format f was not asked for a form of the operators: it is too large.
format f: no batch
Where operators run
  where  nodes     MACs
  float      2  25.00 %

Why not on integers
  where    op   nodes  rule      first  reason
  float    Add      2  cost      c      input "x" is float
  unknown  Add      1  operator  b      no

`, text)
	b.Reset()
	require.NoError(t, reports.InspectText(&b, &analysis.Inspection{Support: s}, true))
	require.Contains(t, b.String(), "a     Add  integer  weighted  a row")
	b.Reset()
	require.NoError(t, reports.SupportData(&b, s))
	var data struct {
		Results map[string]struct{ Value, BgColor string }
	}
	require.NoError(t, json.Unmarshal([]byte(b.String()), &data))
	require.Len(t, data.Results, 4)
	require.Equal(t, "float (cost)", data.Results["c_y"].Value)
	require.NotEqual(t, data.Results["a_y"].BgColor, data.Results["b_y"].BgColor)
}
