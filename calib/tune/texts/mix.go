package texts

import (
	"context"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
)

// RelativeErrors quantizes the float matrices of a model to one type, as Weigh does, and returns of each what is lost: the squared error of
// its weights over the squares of the weights, each counting as the energy of its input. What Weigh leaves alone, as matrices whose rows
// are no whole blocks of the type, is not among them. The tensors are those of Weigh; keep says whether they are asked for.
func RelativeErrors(ctx context.Context, m *checkpoint.Model, imatrix *checkpoint.Importance, t checkpoint.Type, keep bool,
	threads int) (lost map[checkpoint.Part]float64, tensors map[checkpoint.Part]*checkpoint.Tensor, err error) {
	lost, tensors = map[checkpoint.Part]float64{}, map[checkpoint.Part]*checkpoint.Tensor{}
	_, err = weigh(ctx, m, imatrix, func(x *checkpoint.Tensor) weights.Encoding {
		if x.Role.Float() || x.Cols%t.BlockElements() != 0 {
			return weights.Float
		}
		return weights.Encoding{Type: t}
	}, 8, threads, func(q *checkpoint.Tensor) error {
		x := m.Of(q.Part)
		energy, err := imatrix.Means(q.Part, x.Cols)
		if err != nil {
			return err
		}
		if lost[q.Part] = relativeError(m, x, q, energy, strip); keep {
			tensors[q.Part] = m.Spill(q)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return lost, tensors, nil
}

// relativeError is that of a matrix whose columns have an energy, where that is known; 0 for a matrix of zeros. About strip weights are
// read at once.
func relativeError(m *checkpoint.Model, x, y *checkpoint.Tensor, energy []float64, strip int) float64 {
	var off, all float64
	rows := max(1, strip/x.Cols)
	one, other := make([]float32, rows*x.Cols), make([]float32, rows*x.Cols)
	for from := 0; from < x.Len(); from += len(one) {
		n := min(len(one), x.Len()-from)
		x.Read(one[:n], from)
		m.Forget(x.Strip(from/x.Cols, n/x.Cols))
		y.Read(other[:n], from)
		for i, v := range one[:n] {
			e := 1.0
			if len(energy) > 0 {
				e = energy[i%len(energy)]
			}
			d := float64(v) - float64(other[i])
			off += float64(e * d * d)
			all += float64(e * float64(v) * float64(v))
		}
	}
	if all == 0 {
		return 0
	}
	return off / all
}
