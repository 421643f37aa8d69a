package open

import (
	"slices"

	"qwb/analysis/verify"
	"qwb/export"
	"qwb/quantizer/lower"
)

// OperatorInfo says who has something of its own for an operator on integers.
type OperatorInfo struct {
	Op   string `json:"op"`   // of ai.onnx; empty for steps that no operator of a graph asks for
	Step string `json:"step"` // the operation that a program has for it
	Doc  string `json:"doc"`  // of the step
	// Definition is what says which integers come out: reference, by its row, or operator, by itself.
	Definition string `json:"definition"`
	Verified   bool   `json:"verified"` // verify derives it a second time
	// Backends have kernels of their own; ByDefinition, beside the reference, run it by its definition, with the same integers, slower.
	Backends     []string `json:"backends"`
	ByDefinition []string `json:"by_definition"`
	// Formats of programs have it; writing it in those Without is an error that names it.
	Formats []string `json:"formats"`
	Without []string `json:"formats_without"`
}

// ListOperators lists the operators that have integers, and the steps beside them, with what the catalog's backends and formats have for
// each.
func (c *Catalog) ListOperators() []OperatorInfo {
	var list []OperatorInfo
	verified := verify.Operators()
	for _, o := range lower.Operators() {
		ops := o.Ops
		if ops == nil {
			ops = []string{""}
		}
		for _, op := range ops {
			x := OperatorInfo{Op: op, Step: o.Name, Doc: o.Doc, Definition: "reference", Verified: slices.Contains(verified, o.Name),
				Backends: []string{}, ByDefinition: []string{}, Formats: []string{}, Without: []string{}}
			if o.Computed {
				x.Definition = "operator"
			}
			for _, b := range c.Backends {
				to := &x.ByDefinition
				if lower.Has(b.Own, o.Name, op) {
					to = &x.Backends
				}
				*to = append(*to, b.Name)
			}
			for i := range c.Formats {
				f := &c.Formats[i]
				if f.From != export.Program {
					continue
				}
				to := &x.Without
				if f.Own == nil || lower.Has(f.Own, o.Name, op) {
					to = &x.Formats
				}
				*to = append(*to, f.Name)
			}
			list = append(list, x)
		}
	}
	return list
}
