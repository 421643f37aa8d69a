package verify

import (
	"slices"

	"qwb/analysis"
	"qwb/quantizer/lower"
)

// crossings lists where a program passes between integers and float.
func crossings(p *lower.Program) []analysis.CrossingRow {
	var rows []analysis.CrossingRow
	for _, c := range p.Crossings {
		rows = append(rows, analysis.CrossingRow{Step: p.Name(c.Step), Op: p.Steps[c.Step].Op.Name(), Tensor: p.Tensors[c.Tensor].Name,
			ToFloat: c.ToFloat, Bytes: c.Bytes, Island: !slices.Contains(p.Inputs, c.Tensor) && !onlyOutput(p, c.Tensor)})
	}
	return rows
}

// onlyOutput reports whether a tensor is an output of the program that no island reads or computes.
func onlyOutput(p *lower.Program, id lower.TensorID) bool {
	if !slices.Contains(p.Outputs, id) {
		return false
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		if _, island := s.Op.(*lower.Island); island && (slices.Contains(s.Inputs, id) || slices.Contains(s.Outputs, id)) {
			return false
		}
	}
	return true
}
