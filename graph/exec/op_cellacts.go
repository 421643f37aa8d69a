package exec

import (
	"fmt"
	"math"

	"qwb/kernels/elementary"
	"qwb/kernels/ref"
)

// actParams are the parameters that the activations of a recurrent node take, one after the other.
type actParams struct{ alpha, beta []float32 }

// take returns the next number of a list, def at its end.
func take(list *[]float32, def float64) float64 {
	if len(*list) == 0 {
		return def
	}
	v := (*list)[0]
	*list = (*list)[1:]
	return float64(v)
}

// activation returns the function of a name. Functions without parameters take none from the lists.
func (p *actParams) activation(name string) (func(float64) float64, error) {
	switch name {
	case "Sigmoid":
		return ref.Sigmoid64, nil
	case "Tanh":
		return elementary.Tanh, nil
	case "Relu":
		return func(x float64) float64 { return max(x, 0) }, nil
	case "Softplus":
		return softplus, nil
	case "Softsign":
		return func(x float64) float64 { return x / (1 + math.Abs(x)) }, nil
	case "Affine":
		a, b := take(&p.alpha, 1), take(&p.beta, 0)
		return func(x float64) float64 { return a*x + b }, nil
	case "ScaledTanh":
		a, b := take(&p.alpha, 1), take(&p.beta, 1)
		return func(x float64) float64 { return a * elementary.Tanh(b*x) }, nil
	case "HardSigmoid":
		a, b := take(&p.alpha, 0.2), take(&p.beta, 0.5)
		return func(x float64) float64 { return max(0, min(1, a*x+b)) }, nil
	case "LeakyRelu":
		a := take(&p.alpha, 0.01)
		return func(x float64) float64 { return max(x, 0) + a*min(x, 0) }, nil
	case "ThresholdedRelu":
		a := take(&p.alpha, 1)
		return func(x float64) float64 {
			if x >= a {
				return x
			}
			return 0
		}, nil
	case "Elu":
		a := take(&p.alpha, 1)
		return func(x float64) float64 { return max(x, 0) + a*math.Expm1(min(x, 0)) }, nil
	}
	return nil, fmt.Errorf("activation %q is not supported", name)
}
