package verify

import (
	"math"
	"math/bits"

	"qwb/analysis"
	"qwb/quantizer/lower"
)

// safety lists the sums of products of a program.
func (r *runner) safety() []analysis.SafetyRow {
	var rows []analysis.SafetyRow
	for i := range r.program.Safety {
		s := &r.program.Safety[i]
		l := r.layers[s.Step]
		row := analysis.SafetyRow{Node: l.name(), Op: l.op(), Fits: s.Fits, Min: math.MaxInt64, Max: math.MinInt64}
		for c := range s.Min {
			row.Min, row.Max = min(row.Min, s.Min[c]), max(row.Max, s.Max[c])
		}
		row.Bits = 1 + max(bits.Len64(uint64(max(row.Max, 0))), bits.Len64(uint64(-min(row.Min+1, 0))))
		if op, ok := r.program.Steps[s.Step].Op.(*lower.Linear); ok {
			for _, b := range op.Bias {
				row.Bias = max(row.Bias, b, -b)
			}
		}
		for _, n := range s.AtRisk {
			row.Pairs += int64(s.Pairs)
			row.AtRisk += int64(n)
		}
		row.Sums, row.Saturated, row.Affected = r.pairs[i].sums, r.pairs[i].saturated, r.pairs[i].affected
		if row.Cure = cure(&row); !row.Fits && r.wide(s.Step) {
			row.Cure = "none needed: it has accumulators of 64 bits"
		}
		rows = append(rows, row)
	}
	return rows
}

// wide reports whether a step has accumulators of 64 bits.
func (r *runner) wide(id lower.StepID) bool {
	op, ok := r.program.Steps[id].Op.(*lower.Linear)
	return ok && op.Wide
}

// cure proposes what to do about sums that do not fit.
func cure(row *analysis.SafetyRow) string {
	switch {
	case !row.Fits:
		return "split the sum or dispatch the operator to float: its accumulator leaves int32 for some inputs"
	case row.Saturated > 0:
		return "x86 without VNNI only: reduce_range=true or domain=fp32"
	case row.AtRisk > 0:
		return "none needed on this data; reducing the range of its weights to 7 bits makes it safe for any"
	}
	return ""
}
