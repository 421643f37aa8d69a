package analysis

import (
	"slices"

	"gonum.org/v1/gonum/mat"

	"qwb/analysis/assign"
)

// model predicts the losses of a choice, by output and part, each as a sum over units. It begins with the errors of the units alone, times
// one factor by part that makes the sum of the first options the loss that was measured of them; each measurement corrects it: the
// posterior mean of a linear model whose parameters are independent and whose deviations are proportional to what is expected of them.
type model struct {
	start  []assign.Unit
	scale  []float64   // by part, as all that follow
	floor  []float64   // the least deviation of an error that is not zero
	chosen [][]int     // of the measurements
	losses [][]float64 // by measurement
	fitted []assign.Unit
}

const (
	relativeDeviation = 0.5  // of a unit's error against what it is when measured alone
	relativeFloor     = 0.02 // of the mean error of a unit
	relativeNoise     = 0.02 // of a measurement: errors do not quite add up
)

func newModel(units []assign.Unit, losses []float64) *model {
	m := &model{start: units, scale: make([]float64, len(losses)), floor: make([]float64, len(losses))}
	for c, loss := range losses {
		var sum float64
		for i := range units {
			sum += units[i].Options[0].Part(c)
		}
		if sum > 0 {
			m.scale[c] = loss / sum
		}
		m.floor[c] = relativeFloor * loss / float64(max(len(units), 1))
	}
	return m
}

func (m *model) observe(chosen []int, losses []float64) {
	m.chosen, m.losses, m.fitted = append(m.chosen, chosen), append(m.losses, losses), nil
}

// predict is the loss of the part that loses most.
func (m *model) predict(chosen []int) float64 { return slices.Max(assign.Sums(m.units(), chosen)) }

// expected is an option's error before anything was measured, variance that of it: none where it is exactly zero.
func (m *model) expected(part, unit, option int) float64 {
	return m.scale[part] * m.start[unit].Options[option].Part(part)
}

func (m *model) variance(part, unit, option int) float64 {
	e := m.expected(part, unit, option)
	if e == 0 && option > 0 {
		return 0
	}
	d := relativeDeviation*e + m.floor[part]
	return d * d
}

// units are the units with the errors expected after all measurements.
func (m *model) units() []assign.Unit {
	if m.fitted != nil {
		return m.fitted
	}
	parts := len(m.scale)
	m.fitted = make([]assign.Unit, len(m.start))
	for i, u := range m.start {
		m.fitted[i] = assign.Unit{Name: u.Name, Options: make([]assign.Option, len(u.Options))}
		for k, o := range u.Options {
			m.fitted[i].Options[k] = assign.Option{Name: o.Name, Cost: o.Cost, Parts: make([]float64, parts)}
		}
	}
	for c := range parts {
		weights := m.weights(c)
		for i, u := range m.start {
			for k := range u.Options {
				e := m.expected(c, i, k)
				for j, chosen := range m.chosen {
					if chosen[i] == k && weights != nil {
						e += m.variance(c, i, k) * weights[j]
					}
				}
				m.fitted[i].Options[k].Parts[c] = max(e, 0)
			}
		}
	}
	return m.fitted
}

// weights solves for how much each measurement corrects a part; nil where that cannot be said.
func (m *model) weights(part int) []float64 {
	n := len(m.losses)
	if n == 0 {
		return nil
	}
	cov := mat.NewSymDense(n, nil)
	rest := mat.NewVecDense(n, nil)
	for a := range n {
		expected := 0.0
		for i, k := range m.chosen[a] {
			expected += m.expected(part, i, k)
		}
		rest.SetVec(a, m.losses[a][part]-expected)
		for b := a; b < n; b++ {
			var shared float64
			for i, k := range m.chosen[a] {
				if m.chosen[b][i] == k {
					shared += m.variance(part, i, k)
				}
			}
			if a == b {
				noise := relativeNoise * m.losses[a][part]
				shared += noise*noise + 1e-30
			}
			cov.SetSym(a, b, shared)
		}
	}
	var c mat.Cholesky
	if !c.Factorize(cov) {
		return nil
	}
	var w mat.VecDense
	if err := c.SolveVecTo(&w, rest); err != nil {
		return nil
	}
	return w.RawVector().Data
}
