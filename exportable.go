package qwb

import (
	"fmt"
	"slices"

	"qwb/export"
	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// exportable refuses a configuration that breaks rules of the platform's reader which the plan kept before: what export would find, but before
// the plan is written. A finding without a rule, because no file has a form for it, is a warning. An open platform has no rules: its plans are
// checked by export alone.
func (c *change) exportable(out *derived) error {
	if c.p.Target.Export.Open {
		return nil
	}
	is := c.findings(out.Graph, out.Set)
	if len(is) == 0 {
		return nil
	}
	was := c.findings(c.p.Graph, c.p.Set)
	for _, f := range is {
		if f.Rule == unwritable {
			c.warn("export cannot write this plan: %s", f.Text)
			continue
		}
		if !slices.Contains(was, f) {
			return fmt.Errorf("%s would reject the exported model: %s (%s)", c.p.Target.Name, f, ruleDoc(f.Rule))
		}
	}
	return nil
}

// findings lists what the platform's reader would find in an export of a set. What cannot be built at all is one finding.
func (c *change) findings(g *graph.Graph, set *tqc.Set) []export.Finding {
	return refused(c.p.Model, g, set, c.p.Target)
}

// unwritable is the rule of the finding that a plan cannot be written at all.
const unwritable = "export"

func refused(m *Model, g *graph.Graph, set *tqc.Set, t *target.Target) []export.Finding {
	out, err := onnxqdq.Build(m.WithGraph(g), set, t, onnxqdq.Options{})
	if err != nil {
		return []export.Finding{{Rule: unwritable, Text: err.Error()}}
	}
	graph.InferShapes(out.Graph)
	return onnxqdq.Check(out.Graph, t, func(node string) bool {
		id, ok := g.LookupNode(node)
		return ok && set.Domains[id] == tqc.DomainInt
	})
}

// ruleDoc is what a rule says, empty for what is none.
func ruleDoc(name string) string {
	for _, r := range onnxqdq.Rules() {
		if r.Name == name {
			return r.Doc
		}
	}
	return "export cannot write it"
}
