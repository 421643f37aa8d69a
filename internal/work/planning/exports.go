package planning

import (
	"fmt"
	"slices"

	"qwb/export"
	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/internal/work/open"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Exportable refuses a configuration that breaks rules of the platform's reader which the plan kept before: what export would find, but
// before the plan is written. A finding without a rule, because no file has a form for it, is a warning. An open platform, and one with a
// format of its own, has no rules here: its plans are checked by export alone.
func (c *Change) Exportable(out *Derived) error {
	if t := c.Planned.Target; t.Export.Open || t.Format != "" {
		return nil
	}
	is := c.Findings(out.Graph, out.Set)
	if len(is) == 0 {
		return nil
	}
	was := c.Findings(c.Planned.Graph, c.Planned.Set)
	for _, f := range is {
		if f.Rule == unwritable {
			c.Warn("export cannot write this plan: %s", f.Text)
			continue
		}
		if !slices.Contains(was, f) {
			return fmt.Errorf("%s would reject the exported model: %s (%s)", c.Planned.Target.Name, f, ruleDoc(f.Rule))
		}
	}
	return nil
}

// Findings lists what the platform's reader would find in an export of a set. What cannot be built at all is one finding.
func (c *Change) Findings(g *graph.Graph, set *tqc.Set) []export.Finding {
	return refused(c.Planned.Model, g, set, c.Planned.Target)
}

// unwritable is the rule of the finding that a plan cannot be written at all.
const unwritable = "export"

func refused(m *open.Model, g *graph.Graph, set *tqc.Set, t *target.Target) []export.Finding {
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
