package decode

import (
	"context"
	"math"

	"qwb/kernels/elementary"
)

// blockTokens is how many tokens of a text run through the model at once: enough for the products to be bound by arithmetic, few
// enough for their logits to stay small.
const blockTokens = 128

// LogLikelihood returns the natural logarithms of the probabilities that the model gives to ids[1:], each after those before it.
// It is computed in float64 from float32 logits. Fewer than two ids give none.
func (e *Engine) LogLikelihood(ctx context.Context, ids []int) ([]float64, error) {
	var out []float64
	cache := e.NewCache()
	for from := 0; from+1 < len(ids); from += blockTokens {
		part := ids[from:min(from+blockTokens, len(ids)-1)]
		logits, err := e.Forward(ctx, []Sequence{{cache, part, len(part)}})
		if err != nil {
			return nil, err
		}
		for i := range part {
			row := logits[i*e.Vocab:][:e.Vocab]
			out = append(out, float64(row[ids[from+i+1]])-LogSumExp(row))
		}
	}
	return out, nil
}

// LogSumExp returns log(sum(exp(x))) in float64; -Inf of nothing.
func LogSumExp(x []float32) float64 {
	most := math.Inf(-1)
	for _, v := range x {
		most = max(most, float64(v))
	}
	if math.IsInf(most, 0) {
		return most
	}
	sum := 0.0
	for _, v := range x {
		sum += elementary.Exp(float64(v) - most)
	}
	return most + math.Log(sum)
}
