package texts

import (
	"context"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
)

// RelativeErrors quantizes the float matrices of a model to one type, as Weigh does, and returns of each what is lost: the squared error of
// its weights over the squares of the weights, each counting as the energy of its input. What Weigh leaves alone, as matrices whose rows
// are no whole blocks of the type, is not among them. The tensors are those of Weigh.
func RelativeErrors(ctx context.Context, m *checkpoint.Model, imatrix *checkpoint.Importance, t checkpoint.Type,
	threads int) (lost map[checkpoint.Part]float64, tensors map[checkpoint.Part]*checkpoint.Tensor, err error) {
	tensors, _, err = Weigh(ctx, m, imatrix, func(x *checkpoint.Tensor) weights.Encoding {
		if x.Role.Float() || x.Cols%t.BlockElements() != 0 {
			return weights.Float
		}
		return weights.Encoding{Type: t}
	}, 8, threads)
	if err != nil {
		return nil, nil, err
	}
	lost = map[checkpoint.Part]float64{}
	for part, q := range tensors {
		x := m.Of(part)
		energy, err := imatrix.Means(part, x.Cols)
		if err != nil {
			return nil, nil, err
		}
		lost[part] = relativeError(x.All(), q.All(), energy)
	}
	return lost, tensors, nil
}

// relativeError is that of rows as long as energy, where that is known; 0 for a matrix of zeros.
func relativeError(x, y []float32, energy []float64) float64 {
	var off, all float64
	for i, v := range x {
		e := 1.0
		if len(energy) > 0 {
			e = energy[i%len(energy)]
		}
		d := float64(v) - float64(y[i])
		off += float64(e * d * d)
		all += float64(e * float64(v) * float64(v))
	}
	if all == 0 {
		return 0
	}
	return off / all
}
