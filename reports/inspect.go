package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/internal/arrange"
	"qwb/internal/plain"
)

// mostOps is how many operators the table shows unless every node is asked for.
const mostOps = 16

// InspectText writes what is in a model: what is not supported, inputs and outputs, operators with the most work first, what each
// platform would quantize. With nodes, all operators are listed, and every node follows.
func InspectText(w io.Writer, r *analysis.Inspection, nodes bool) error {
	t := &tables{w: w}
	t.printf("%s\nopset %d, %d nodes, %s parameters (%sB)", r.Model, r.Opset, len(r.Nodes), count(r.Parameters), count(r.Bytes))
	if r.MACs > 0 || r.Open == 0 {
		t.printf(", %s multiply-accumulates", atLeast(r.MACs, r.Open > 0))
	}
	if r.Open == 0 {
		t.printf(", activations: %sB at the peak", count(r.Peak))
	}
	t.printf("\n")
	if r.Open > 0 {
		t.printf("The MACs of %s depend on open dimensions and are not counted. qwb bind writes a copy with fixed dimensions.\n",
			plain.Count(r.Open, "node"))
	}
	t.printf("\n")
	unsupportedLines(t, r)
	t.begin("Inputs and outputs", "", "name", "type")
	for _, v := range r.Inputs {
		t.row("input", shorten(v.Name, 48), v.DType+shape(v.Shape))
	}
	for _, v := range r.Outputs {
		t.row("output", shorten(v.Name, 48), v.DType+shape(v.Shape))
	}
	t.end()
	operatorTable(t, r, nodes)
	if len(r.Bodies) > 0 {
		t.begin("Bodies of control flow; they stay in FP32. Counted: of If the larger branch, of Loop and Scan one iteration",
			"node", "op", "body", "nodes", "parameters", "MACs")
		for _, b := range r.Bodies {
			t.row(shorten(b.Node, 48), b.Op, b.Attribute, fmt.Sprint(b.Nodes), count(b.Parameters), atLeast(b.MACs, b.Open > 0))
		}
		t.end()
	}
	if r.Support != nil {
		supportTables(t, r.Support, nodes)
	} else if len(r.Platforms) > 0 {
		share := "MACs in INT8"
		if r.Open > 0 {
			share = "of the counted MACs"
		}
		t.begin("What each target would quantize", "INT8 nodes", "FP32 nodes", "shape nodes", "Q/DQ boundaries", "float",
			share, "platforms")
		for _, p := range alike(r.Platforms) {
			t.row(fmt.Sprint(p.INT8), fmt.Sprint(p.FP32), fmt.Sprint(p.SOI), fmt.Sprint(p.Borders), p.Float, percent(p.MACs), p.Platform)
		}
		t.end()
	}
	rooflineTable(t, r)
	if nodes {
		t.begin("Nodes", "name", "op", "shape", "MACs", "bytes", "ops/byte")
		for _, n := range r.Nodes {
			t.row(shorten(n.Name, 48), n.Op, shape(n.Shape), count(n.MACs), count(n.Bytes), Number(n.Intensity))
		}
		t.end()
	}
	return t.err
}

// alike joins platforms that would quantize a model alike, their names in one line. The order is that of the first of each.
func alike(list []analysis.PlatformInfo) []analysis.PlatformInfo {
	var rows []analysis.PlatformInfo
	for _, p := range list {
		i := slices.IndexFunc(rows, func(r analysis.PlatformInfo) bool {
			r.Platform = p.Platform
			return r == p
		})
		if i < 0 {
			rows = append(rows, p)
		} else {
			rows[i].Platform += ", " + p.Platform
		}
	}
	return rows
}

// operatorTable writes operators with the most work first, then those that move the most bytes.
func operatorTable(t *tables, r *analysis.Inspection, all bool) {
	ops := slices.Clone(r.Ops)
	arrange.Stable(ops, func(a, b analysis.OpCount) int {
		return cmp.Or(cmp.Compare(b.MACs, a.MACs), cmp.Compare(min(b.Open, 1), min(a.Open, 1)), cmp.Compare(b.Bytes, a.Bytes),
			cmp.Compare(b.Count, a.Count), cmp.Compare(a.Op, b.Op))
	})
	rest := 0
	t.begin("Operators", "op", "version", "count", "MACs", "share", "bytes")
	for i, o := range ops {
		if i >= mostOps && len(ops) > mostOps+1 && !all {
			rest += o.Count
			continue
		}
		share := "-"
		if r.MACs > 0 && o.MACs > 0 && r.Open == 0 {
			share = percent(float64(o.MACs) / float64(r.MACs))
		}
		macs := "-"
		if o.MACs > 0 || o.Open > 0 {
			macs = atLeast(o.MACs, o.Open > 0)
		}
		t.row(o.Op, fmt.Sprint(o.Version), fmt.Sprint(o.Count), macs, share, count(o.Bytes))
	}
	if rest > 0 {
		t.row(fmt.Sprintf("%d others", len(ops)-mostOps), "-", fmt.Sprint(rest), "-", "-", "-")
	}
	t.end()
}

// atLeast is a count that is not all of it where some of it is open, "?" where nothing is known.
func atLeast(n int64, open bool) string {
	switch {
	case !open:
		return count(n)
	case n == 0:
		return "?"
	}
	return "≥" + count(n)
}

// unsupportedLines names what cannot be executed.
func unsupportedLines(t *tables, r *analysis.Inspection) {
	for _, u := range r.Unsupported {
		domain := u.Domain
		if domain == "" {
			domain = "ai.onnx"
		}
		t.printf("unsupported: %s (%s %d), %s", u.Op, domain, u.Version, plain.Count(len(u.Nodes), "node"))
		if u.Reason != "" {
			t.printf(": %s", u.Reason)
		}
		t.printf("\n")
	}
	if len(r.Unsupported) > 0 {
		t.printf("\n")
	}
}

func shape(dims []any) string {
	if dims == nil {
		return "[...]"
	}
	parts := make([]string, len(dims))
	for i, d := range dims {
		parts[i] = fmt.Sprint(d)
	}
	return "[" + strings.Join(parts, ",") + "]"
}
