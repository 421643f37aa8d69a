package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"qwb/analysis"
)

// InspectText writes what is in a model: what is not supported, inputs and outputs, operators with the most work first, totals, and what each platform
// would quantize. With nodes, every node follows.
func InspectText(w io.Writer, r *analysis.Inspection, nodes bool) error {
	t := &tables{w: w}
	t.printf("%s: opset %d, %d nodes, %s parameters (%sB), %s multiply-accumulates, activations of %sB at most at a time\n\n", r.Model, r.Opset, len(r.Nodes),
		count(r.Parameters), count(r.Bytes), count(r.MACs), count(r.Peak))
	unsupportedLines(t, r)
	t.begin("Inputs and outputs", "", "name", "type")
	for _, v := range r.Inputs {
		t.row("input", v.Name, v.DType+shape(v.Shape))
	}
	for _, v := range r.Outputs {
		t.row("output", v.Name, v.DType+shape(v.Shape))
	}
	t.end()
	ops := slices.Clone(r.Ops)
	slices.SortStableFunc(ops, func(a, b analysis.OpCount) int {
		switch {
		case a.MACs != b.MACs:
			return int(min(max(b.MACs-a.MACs, -1), 1))
		case a.Count != b.Count:
			return b.Count - a.Count
		}
		return strings.Compare(a.Op, b.Op)
	})
	t.begin("Operators", "op", "version", "count", "MACs", "share", "bytes")
	for _, o := range ops {
		share := "-"
		if r.MACs > 0 && o.MACs > 0 {
			share = percent(float64(o.MACs) / float64(r.MACs))
		}
		t.row(o.Op, fmt.Sprint(o.Version), fmt.Sprint(o.Count), count(o.MACs), share, count(o.Bytes))
	}
	t.end()
	if len(r.Bodies) > 0 {
		t.begin("Bodies of control flow, which stay in float", "node", "op", "body", "nodes", "parameters", "MACs")
		for _, b := range r.Bodies {
			t.row(shorten(b.Node, 48), b.Op, b.Attribute, fmt.Sprint(b.Nodes), count(b.Parameters), count(b.MACs))
		}
		t.end()
	}
	rooflineTable(t, r)
	if nodes {
		t.begin("Nodes", "name", "op", "shape", "MACs", "bytes", "ops/byte")
		for _, n := range r.Nodes {
			t.row(shorten(n.Name, 48), n.Op, shape(n.Shape), count(n.MACs), count(n.Bytes), number(n.Intensity))
		}
		t.end()
	}
	if len(r.Platforms) > 0 {
		t.begin("What each platform would quantize", "platform", "INT8 nodes", "FP32", "shape", "borders", "float", "MACs in INT8")
		for _, p := range r.Platforms {
			t.row(p.Platform, fmt.Sprint(p.INT8), fmt.Sprint(p.FP32), fmt.Sprint(p.SOI), fmt.Sprint(p.Borders), p.Float, percent(p.MACs))
		}
		t.end()
	}
	return t.err
}

// unsupportedLines names what cannot be executed.
func unsupportedLines(t *tables, r *analysis.Inspection) {
	for _, u := range r.Unsupported {
		domain := u.Domain
		if domain == "" {
			domain = "ai.onnx"
		}
		t.printf("unsupported: %s (%s %d), %d nodes", u.Op, domain, u.Version, len(u.Nodes))
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
