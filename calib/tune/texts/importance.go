package texts

import (
	"context"
	"fmt"
	"slices"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/kernels/qmath"
)

// Importance is what the inputs of the matrices are on texts, in the model that the engine runs, by the names that GGUF has for matrices.
// Sums are added in float64 in the order of the texts.
func Importance(ctx context.Context, e *decode.Engine, texts [][]int) (*checkpoint.Importance, error) {
	m := &checkpoint.Importance{Chunks: uint32(len(texts))}
	var sums []float64
	rows := 0
	err := e.Walk(ctx, texts, decode.Walker{
		Inputs: func(_ []checkpoint.Part, x []float32, cols int) error {
			if rows == 0 {
				sums = make([]float64, cols)
			}
			for i, v := range x {
				sums[i%cols] += float64(v) * float64(v)
			}
			rows += len(x) / cols
			return nil
		},
		Ready: func(parts []checkpoint.Part) error {
			for _, p := range parts {
				if rows == 0 {
					_, cols := e.Shape(p.Role)
					sums = make([]float64, cols)
				}
				i := slices.IndexFunc(m.Entries, func(x checkpoint.InputSquares) bool { return x.Name == checkpoint.GGUFName(p) })
				if i < 0 {
					i = len(m.Entries)
					m.Entries = append(m.Entries, checkpoint.InputSquares{Name: checkpoint.GGUFName(p)})
				}
				entry := &m.Entries[i] // of all experts
				entry.Counts = append(entry.Counts, float32(rows))
				for _, v := range sums {
					entry.Sums = append(entry.Sums, float32(v))
				}
			}
			rows = 0
			return nil
		},
	})
	m.Sort()
	return m, err
}

// Largest is the largest magnitude that each matrix reads on texts, in the model that the engine runs; 0 where no token comes to it. An
// input that is not finite is an error.
func Largest(ctx context.Context, e *decode.Engine, texts [][]int) (map[checkpoint.Part]float32, error) {
	all, most := map[checkpoint.Part]float32{}, float32(0)
	err := e.Walk(ctx, texts, decode.Walker{
		Inputs: func(parts []checkpoint.Part, x []float32, _ int) error {
			for _, v := range x {
				if v-v != 0 {
					return fmt.Errorf("%s reads %g on the text", parts[0], v)
				}
				most = max(most, qmath.Abs32(v))
			}
			return nil
		},
		Ready: func(parts []checkpoint.Part) error {
			for _, p := range parts {
				all[p] = most
			}
			most = 0
			return nil
		},
	})
	return all, err
}

// Weigh chooses the factors of matrices under an importance matrix, and the nearest codes. It returns the tensors, for Model.With, which
// lie in files of the system as far as they can, and the matrices of which the importance matrix has nothing: their weights count alike.
func Weigh(ctx context.Context, m *checkpoint.Model, imatrix *checkpoint.Importance, encoding func(*checkpoint.Tensor) weights.Encoding,
	bits, threads int) (done map[checkpoint.Part]*checkpoint.Tensor, without []string, err error) {
	done = map[checkpoint.Part]*checkpoint.Tensor{}
	without, err = weigh(ctx, m, imatrix, encoding, bits, threads, func(t *checkpoint.Tensor) error {
		done[t.Part] = m.Spill(t)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return done, without, nil
}

// weigh is Weigh, and hands out one tensor after the other.
func weigh(ctx context.Context, m *checkpoint.Model, imatrix *checkpoint.Importance, encoding func(*checkpoint.Tensor) weights.Encoding,
	bits, threads int, give func(t *checkpoint.Tensor) error) (without []string, err error) {
	for _, t := range m.Tensors() {
		e := encoding(t)
		if !e.Quantized() || !t.Floats() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := m.Finite(t); err != nil {
			return nil, err
		}
		importance, err := imatrix.Means(t.Part, t.Cols)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Part, err)
		}
		if importance == nil {
			importance = diagonal(nil, t.Cols)
			without = append(without, t.Part.String())
		}
		x, err := stripped(m, t, strip, threads, func(_ int, rows *checkpoint.Tensor, threads int) (target, error) {
			x := newTarget(rows, e, importance, bits, threads)
			x.take(x.problem().Nearest())
			return x, nil
		})
		if err == nil {
			err = give(x)
		}
		if err != nil {
			return nil, err
		}
	}
	return without, nil
}
