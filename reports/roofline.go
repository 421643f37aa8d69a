package reports

import (
	"cmp"
	"fmt"
	"strings"

	"qwb/analysis"
	"qwb/internal/arrange"
)

// mostNodes is how many nodes the table of the roofline shows.
const mostNodes = 12

// rooflineTable writes what the machine can do, and the nodes that take the longest at least.
func rooflineTable(t *tables, r *analysis.Inspection) {
	roof := r.Roofline
	if roof == nil {
		return
	}
	reads := make([]string, len(roof.Read))
	for i, b := range roof.Read {
		reads[i] = fmt.Sprintf("%.0f GB/s up to %sB", b.GBps, count(int64(b.Bytes)))
	}
	if n := len(roof.Read); n > 0 {
		reads[n-1] = fmt.Sprintf("%.0f GB/s beyond", roof.Read[n-1].GBps)
	}
	of := fmt.Sprintf("as measured on %d thread(s)", roof.Threads)
	if roof.Device != "" {
		of = "of " + roof.Device
	}
	t.printf("Roofline, %s:\n  f32 %.0f GOPS (%s), int8 %.0f GOPS (%s)\n  reading %s\n", of, roof.FloatGOPS,
		roof.FloatPeak, roof.IntegerGOPS, roof.IntegerPeak, strings.Join(reads, ", "))
	if roof.Seconds == 0 {
		t.printf("No node's sizes are known\n\n")
		return
	}
	if roof.Open > 0 {
		t.printf("Left out are %d node(s) whose sizes are open or which run graphs of their own. ", roof.Open)
	}
	t.printf("At least %s for one sample in float32; INT8 can be %.2f times as fast at most\n\n", Seconds(roof.Seconds), roof.Gain)
	var nodes []analysis.NodeInfo
	for _, n := range r.Nodes {
		if n.Seconds > 0 {
			nodes = append(nodes, n)
		}
	}
	arrange.Stable(nodes, func(a, b analysis.NodeInfo) int { return cmp.Compare(b.Seconds, a.Seconds) })
	t.begin("Nodes that take the longest at least", "name", "op", "MACs", "bytes", "ops/byte", "bound by", "time", "share", "INT8 gains")
	for _, n := range nodes[:min(mostNodes, len(nodes))] {
		t.row(shorten(n.Name, 40), n.Op, count(n.MACs), count(n.Bytes), Number(n.Intensity), n.Bound, Seconds(n.Seconds),
			percent(n.Seconds/roof.Seconds), fmt.Sprintf("%.2fx", n.Gain))
	}
	t.end()
}

// Seconds formats a duration.
func Seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.3g us", s*1e6)
}
