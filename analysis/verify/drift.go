package verify

import (
	"math"

	"qwb/analysis"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// driftMeter compares an output of the free-running program with that of the simulation.
type driftMeter struct {
	nsr, mse, cosine, most float64
	n                      float64
}

func (d *driftMeter) add(simulated, got *tensor.Tensor) {
	if !simulated.DType.IsFloat() { // the share of whole numbers that differ
		m := analysis.Mismatch(got, simulated)
		d.n, d.nsr, d.cosine = d.n+1, d.nsr+m, d.cosine+1-m
		return
	}
	simulated, got = exec.Floats(simulated), exec.Floats(got)
	x, y := simulated.F32(), got.F32()
	if len(x) != len(y) || len(x) == 0 {
		return
	}
	var noise, xx, yy, xy float64
	for i := range x {
		a, b := float64(x[i]), float64(y[i])
		noise += (a - b) * (a - b)
		xx, yy, xy = xx+a*a, yy+b*b, xy+a*b
		d.most = max(d.most, math.Abs(a-b))
	}
	d.n++
	d.nsr += noise / (xx + 1e-7)
	d.mse += noise / float64(len(x))
	if xx == 0 && yy == 0 {
		d.cosine++
	} else if xx > 0 && yy > 0 {
		d.cosine += xy / math.Sqrt(xx*yy)
	}
}

// join adds what another one, of samples behind those of d, has seen.
func (d *driftMeter) join(o *driftMeter) {
	d.nsr, d.mse, d.cosine, d.most, d.n = d.nsr+o.nsr, d.mse+o.mse, d.cosine+o.cosine, max(d.most, o.most), d.n+o.n
}

// result is the mean over the samples that could be compared; without any there is none.
func (d *driftMeter) result(name string) analysis.Drift {
	if d.n == 0 {
		return analysis.Drift{Output: name, Error: analysis.Error{Cosine: 1}}
	}
	n := d.n
	return analysis.Drift{Output: name, Error: analysis.Error{NSR: d.nsr / n, MSE: d.mse / n, Cosine: d.cosine / n}, MaxDifference: d.most}
}
