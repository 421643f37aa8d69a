package analysis

import "qwb/graph/tensor"

// lossMeter averages the parts of a chain over samples.
type lossMeter struct {
	parts [stages]float64 // by the stage that they lead to; that of stageFloat is the whole
	n     float64
}

// add splits one sample's error. All tensors are float32 of one shape, row-major.
func (m *lossMeter) add(chain *[stages]*tensor.Tensor) error {
	first := chain[stageFloat].ToRowMajor()
	y, _, err := aligned(chain[stageIntegers].ToRowMajor(), first)
	if err != nil {
		return err
	}
	float := first.F32()
	signal, whole := nsrFloor, 0.0
	for i, f := range float {
		d := float64(y[i]) - float64(f)
		signal += float64(f) * float64(f)
		whole += d * d
	}
	if !finite(signal + whole) {
		return ErrNotFinite
	}
	before := float
	for stage := stageWeights; stage < stages; stage++ {
		now, _, err := aligned(chain[stage].ToRowMajor(), first)
		if err != nil {
			return err
		}
		part := 0.0
		for i := range now {
			part += (float64(now[i]) - float64(before[i])) * (float64(y[i]) - float64(float[i]))
		}
		if !finite(part) {
			return ErrNotFinite
		}
		m.parts[stage] += part / signal
		before = now
	}
	m.parts[stageFloat] += whole / signal
	m.n++
	return nil
}

// mean returns the average over the samples.
func (m *lossMeter) mean() Loss {
	p := m.parts
	for i := range p {
		p[i] /= max(m.n, 1)
	}
	l := Loss{NSR: p[stageFloat], Weights: p[stageWeights], Clip: p[stageClip], Round: p[stageRound], Bias: p[stageBias],
		Tables: p[stageTables], Profile: p[stageIntegers]}
	l.Rest = l.NSR - (l.Weights + l.Clip + l.Round + l.Bias + l.Tables + l.Profile)
	return l
}

// stageBefore is what a change is compared with: rounding clips too, and biases are rounded with the weights.
var stageBefore = [stages]int{stageRound: stageClip, stageBias: stageWeights}

// aloneMeter averages what single changes do by themselves.
type aloneMeter struct {
	parts [stages]float64 // that of stageFloat is the whole
	n     float64
}

// add adds one sample: the outputs of the float network with one change each, and what the integers give.
func (m *aloneMeter) add(alone *[stages]*tensor.Tensor, whole *tensor.Tensor) error {
	first := alone[stageFloat]
	part, _, err := energy(whole, first, first)
	if err != nil {
		return err
	}
	m.parts[stageFloat] += part
	for stage := stageWeights; stage < stages; stage++ {
		if part, _, err = energy(alone[stage], alone[stageBefore[stage]], first); err != nil {
			return err
		}
		m.parts[stage] += part
	}
	m.n++
	return nil
}

// energy returns the sum of squares of y-x over that of signal.
func energy(y, x, signal *tensor.Tensor) (nsr, size float64, err error) {
	a, b, err := aligned(y.ToRowMajor(), x.ToRowMajor())
	if err != nil {
		return 0, 0, err
	}
	size = nsrFloor
	for _, v := range signal.F32() {
		size += float64(v) * float64(v)
	}
	sum := 0.0
	for i, v := range a {
		d := float64(v) - float64(b[i])
		sum += d * d
	}
	if !finite(sum + size) {
		return 0, 0, ErrNotFinite
	}
	return sum / size, size, nil
}

// mean returns the average over the samples.
func (m *aloneMeter) mean() Loss {
	l := lossMeter{m.parts, m.n}
	return l.mean()
}
