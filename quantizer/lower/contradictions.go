package lower

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Contradictions lists what a valid target says of itself that cannot all be true, a line each: its tables against its arithmetic, and
// against what integer programs can compute. notes are what holds all the same but should be known: operators whose integers are
// simulated, roundings that are not the same.
func Contradictions(t *target.Target) (list, notes []string, err error) {
	p, err := t.ProfileNamed("")
	if err != nil {
		return nil, nil, err
	}
	c := &contradictions{t: t, p: p}
	c.schemes()
	c.widths()
	for i := range t.Ops {
		c.operator(&t.Ops[i])
	}
	for _, f := range t.Fusions {
		switch {
		case f.Island && t.Float == target.FloatAbsent:
			c.add("fusion %s is an island in float, and there is no float unit", f.Family.Name)
		case !f.Island && !p.FloatBias():
			c.add("fusion %s is an activation behind a sum, and profile %s has no float epilogue to compute it in", f.Family.Name, p.Name)
		}
	}
	return c.list, c.notes, nil
}

type contradictions struct {
	t     *target.Target
	p     qmath.Profile
	list  []string
	notes []string
}

func (c *contradictions) add(format string, args ...any) {
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

// schemes holds the number formats against the arithmetic.
func (c *contradictions) schemes() {
	d := c.t.Defaults()
	lists := []struct {
		what string
		list []tqc.Scheme
	}{{"activations", d.Activation}, {"weights", d.Weight}}
	for i := range c.t.Ops {
		op := &c.t.Ops[i]
		lists = append(lists, struct {
			what string
			list []tqc.Scheme
		}{"activations of " + op.Type, op.Schemes.Activation}, struct {
			what string
			list []tqc.Scheme
		}{"weights of " + op.Type, op.Schemes.Weight})
	}
	for _, l := range lists {
		for _, s := range l.list {
			if c.p.Form == qmath.ShiftOnly && !s.PowerOf2 && s.Type == qmath.Integers {
				c.add("%s may be %s, and profile %s only shifts: their scales have to be powers of two (%s-pow2)", l.what, s, c.p.Name, s)
			}
			if s.Type == qmath.Integers && (s.Bits == 4 || s.Bits == 16) && c.t.Export.MaxOpset < 21 && !c.t.Export.Open {
				c.add("%s may be %s, which Q/DQ files have from opset 21 on, and export ends at opset %d", l.what, s, c.t.Export.MaxOpset)
			}
		}
	}
	if c.t.Bias.Bits == 0 && !c.p.FloatBias() {
		c.add("biases stay float, and profile %s adds them to the integer accumulator: bias needs a scheme", c.p.Name)
	}
	grid := qmath.Grid{Scale: 1, QMin: c.t.Activation.QMin, QMax: c.t.Activation.QMax}
	q := c.p.Quantizer(grid)
	if !c.p.Own && q.Rounding != c.t.Activation.Rounding { // of an Arithmetic both stand in the plan
		c.notes = append(c.notes, fmt.Sprintf("activations are rounded %s, and profile %s rounds what it quantizes %s: simulation and integers "+
			"differ at ties",
			c.t.Activation.Rounding, c.p.Name, q.Rounding))
	}
	if q.QMin != c.t.Activation.QMin {
		c.add("activations go down to %d, and codes of profile %s to %d", c.t.Activation.QMin, c.p.Name, q.QMin)
	}
}

// widths holds the widths of an arithmetic against the formats.
func (c *contradictions) widths() {
	d := c.t.Defaults()
	bits := func(list []tqc.Scheme) (most int) {
		for _, s := range list {
			if s.Type == qmath.Integers {
				most = max(most, int(s.Bits))
			}
		}
		return most
	}
	activation, weight := bits(d.Activation[:min(1, len(d.Activation))]), bits(d.Weight[:min(1, len(d.Weight))])
	if n := c.p.Accumulator; n != 0 && n < activation+weight {
		c.add("accumulators of %d bits do not hold one product of %d by %d bits", n, activation, weight)
	}
	if n := int(c.p.Scaling.Bits); n != 0 && n < activation {
		c.add("multipliers of %d bits scale results to codes of %d: they would be more than one step off", n, activation)
	}
	switch most := int(c.p.Most); {
	case c.p.Scaling.Bits == 0:
	case most < activation:
		c.add("right shifts of up to %d leave %d bits of a factor just below 1, and codes have %d: results would be more than one step off", most,
			most, activation)
	case most < activation+weight:
		c.notes = append(c.notes, fmt.Sprintf("right shifts of up to %d leave %d bits of the factor 2^-%d, a usual one for weights of %d bits: "+
			"verify counts what that moves by more than 1.5 steps as different", most, most-weight, weight, weight))
	}
	if b := int(c.t.Bias.Bits); b != 0 && b < min(c.p.Bias, 32) { // no scheme has more than 32
		c.add("biases have %d bits by their scheme, and %d by the arithmetic of profile %s: sums want those of the arithmetic", b,
			c.p.Bias, c.p.Name)
	}
	if c.p.Step > 1 && bits(d.Activation) < 16 {
		c.add("tables have entries %d codes apart, and no activation has 16 bits", c.p.Step)
	}
}

// operator holds a row against the arithmetic and against what programs can compute.
func (c *contradictions) operator(op *target.Op) {
	if strings.Contains(op.Type, "::") {
		return
	}
	known := familyNamed(op.Type) != nil
	clamps := slices.Contains(clampFamily.ops, op.Type)
	switch {
	case op.Role == target.Activation && !clamps && !c.p.FloatBias():
		c.add("operator %s is an activation behind a sum, and profile %s has no float epilogue to compute it in: as arithmetic it is a table",
			op.Type, c.p.Name)
	case !known && (op.Role != target.Activation || op.Alone):
		c.notes = append(c.notes, fmt.Sprintf("operator %s runs on integers, and no integer program computes it: it is simulated", op.Type))
	case op.Type == "Add" && op.Role == target.Arithmetic && c.t.Placement.Residual() && !c.p.FusesAdd():
		c.add("operator Add is the end of a residual branch where quantizers stand %s, and profile %s does not add before it rounds",
			c.t.Placement, c.p.Name)
	}
	if s := op.FixedScale; s != 0 && c.p.Form == qmath.ShiftOnly {
		if frac, _ := math.Frexp(float64(s)); frac != 0.5 {
			c.add("operator %s has the scale %g, and profile %s only shifts: it is not a power of two", op.Type, s, c.p.Name)
		}
	}
}
