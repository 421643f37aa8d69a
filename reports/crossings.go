package reports

import (
	"cmp"
	"fmt"

	"qwb/analysis"
	"qwb/internal/arrange"
)

// crossingTable counts the places where a tensor changes between integers and float, and their bytes. It lists those inside the graph, the
// largest first, at most 20.
func crossingTable(t *tables, v *analysis.Verification) {
	if v.Float == "" {
		return
	}
	var islands []analysis.CrossingRow
	ends, all := int64(0), int64(0)
	for _, c := range v.Crossings {
		all += c.Bytes
		if c.Island {
			islands = append(islands, c)
		} else {
			ends += c.Bytes
		}
	}
	t.printf("Precision boundaries, where tensors change between integers and float: %d at the ends of the graph (%s bytes), %d at "+
		"FP32 parts inside (%s bytes). Float on this target: %s.\n\n", len(v.Crossings)-len(islands), count(ends), len(islands),
		count(all-ends), v.Float)
	if len(islands) == 0 {
		return
	}
	arrange.Stable(islands, func(a, b analysis.CrossingRow) int { return cmp.Compare(b.Bytes, a.Bytes) })
	t.begin("Precision boundaries inside the graph, largest first", "step", "op", "tensor", "to", "bytes")
	for _, c := range islands[:min(len(islands), 20)] {
		to := "integers"
		if c.ToFloat {
			to = "float"
		}
		t.row(shorten(c.Step, 36), c.Op, shorten(c.Tensor, 40), to, fmt.Sprint(c.Bytes))
	}
	t.end()
}
