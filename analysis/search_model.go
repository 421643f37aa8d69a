package analysis

import (
	"gonum.org/v1/gonum/mat"

	"qwb/analysis/assign"
)

// model predicts the loss of a choice as a sum over units. It begins with the errors of the units alone, times one factor that makes the sum
// of the first options the loss that was measured of them; each measurement corrects it: the posterior mean of a linear model whose
// parameters are independent and whose deviations are proportional to what is expected of them.
type model struct {
	start  []assign.Unit
	scale  float64
	floor  float64 // the least deviation of an error that is not zero
	chosen [][]int // of the measurements
	losses []float64
	fitted []assign.Unit // nil: to be computed
}

const (
	relativeDeviation = 0.5  // of a unit's error against what it is when measured alone
	relativeFloor     = 0.02 // of the mean error of a unit
	relativeNoise     = 0.02 // of a measurement: errors do not quite add up
)

func newModel(units []assign.Unit, loss float64) *model {
	m := &model{start: units}
	var sum float64
	for _, u := range units {
		sum += u.Options[0].Error
	}
	if sum > 0 {
		m.scale = loss / sum
	}
	m.floor = relativeFloor * loss / float64(max(len(units), 1))
	return m
}

func (m *model) observe(chosen []int, loss float64) {
	m.chosen, m.losses, m.fitted = append(m.chosen, chosen), append(m.losses, loss), nil
}

func (m *model) predict(chosen []int) (loss float64) {
	units := m.units()
	for i, k := range chosen {
		loss += units[i].Options[k].Error
	}
	return loss
}

// variance is that of an option's error before anything was measured: none where it is exactly zero.
func (m *model) variance(unit, option int) float64 {
	e := m.scale * m.start[unit].Options[option].Error
	if e == 0 && option > 0 {
		return 0
	}
	d := relativeDeviation*e + m.floor
	return d * d
}

// units are the units with the errors expected after all measurements.
func (m *model) units() []assign.Unit {
	if m.fitted != nil {
		return m.fitted
	}
	weights := m.weights()
	m.fitted = make([]assign.Unit, len(m.start))
	for i, u := range m.start {
		m.fitted[i] = assign.Unit{Name: u.Name, Options: make([]assign.Option, len(u.Options))}
		for k, o := range u.Options {
			e := m.scale * o.Error
			for j, chosen := range m.chosen {
				if chosen[i] == k && weights != nil {
					e += m.variance(i, k) * weights[j]
				}
			}
			m.fitted[i].Options[k] = assign.Option{Name: o.Name, Error: max(e, 0), Cost: o.Cost}
		}
	}
	return m.fitted
}

// weights solves for how much each measurement corrects; nil where that cannot be said.
func (m *model) weights() []float64 {
	n := len(m.losses)
	if n == 0 {
		return nil
	}
	cov := mat.NewSymDense(n, nil)
	rest := mat.NewVecDense(n, nil)
	for a := range n {
		expected := 0.0
		for i, k := range m.chosen[a] {
			expected += m.scale * m.start[i].Options[k].Error
		}
		rest.SetVec(a, m.losses[a]-expected)
		for b := a; b < n; b++ {
			var shared float64
			for i, k := range m.chosen[a] {
				if m.chosen[b][i] == k {
					shared += m.variance(i, k)
				}
			}
			if a == b {
				noise := relativeNoise * m.losses[a]
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
