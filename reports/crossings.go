package reports

import (
	"cmp"
	"fmt"
	"slices"

	"qwb/analysis"
)

// crossingTable says where floats are computed on the target and how many bytes pass between floats and integers. It lists the
// crossings at float islands, the largest first, at most 20.
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
	t.printf("Float is %s on the target: %d crossings of %s bytes at the ends of the graph, %d of %s bytes at float islands\n\n", v.Float,
		len(v.Crossings)-len(islands), count(ends), len(islands), count(all-ends))
	if len(islands) == 0 {
		return
	}
	slices.SortStableFunc(islands, func(a, b analysis.CrossingRow) int { return cmp.Compare(b.Bytes, a.Bytes) })
	t.begin("Crossings at float islands, the largest first", "step", "op", "tensor", "to", "bytes")
	for _, c := range islands[:min(len(islands), 20)] {
		to := "integers"
		if c.ToFloat {
			to = "float"
		}
		t.row(shorten(c.Step, 36), c.Op, shorten(c.Tensor, 40), to, fmt.Sprint(c.Bytes))
	}
	t.end()
}
