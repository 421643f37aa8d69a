package exec

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/kernels"
	"qwb/kernels/qmath"
)

// buildHybridLSTM is the LSTM of TensorFlow Lite's kernels with weights of 8 bits and real data. It differs from DynamicQuantizeLSTM in
// that every row of the data and of the state has a scale, and that the bias comes first:
//
//	gates = ((Wb + Rb) + float32(sums of X and W) * (scale of X * scale of W)) + float32(sums of H and R) * (scale of H * scale of R)
func buildHybridLSTM(n *graph.Node, _ int64) (evalFunc, error) {
	r, err := buildRecurrence[float32](n, lstmGates, []string{"Sigmoid", "Tanh", "Tanh"})
	if err != nil {
		return nil, err
	}
	l := &dynamicLSTM{recurrence: r, hybrid: true}
	for _, acts := range r.acts {
		var list []func(float32) float32
		for _, f := range acts {
			list = append(list, func(x float32) float32 { return float32(f(float64(x))) })
		}
		l.float = append(l.float, list)
	}
	return l.run, nil
}

// multiplyRows writes float32(sums) * (scale of the row of a * scale of the weights), as TensorFlow Lite's kernels quantize a: codes from
// -127 to 127, x * (127 / most) rounded half away from 0. codes are those of a, nil: nobody wants them.
func (w *codedWeights) multiplyRows(c *call, dst, a []float32, codes []int8) error {
	k, n := w.matrix.Size()
	rows := len(a) / max(k, 1)
	mem, scales := &c.run.codes, make([]float32, rows)
	mem.left = resize(mem.left, len(a))
	for r := range rows {
		row, most := a[r*k:][:k], float32(0)
		for _, x := range row {
			most = max(most, x, -x)
		}
		if !(most <= math.MaxFloat32) {
			return fmt.Errorf("row %d of the data or of the state is not finite", r)
		}
		inverse := float32(0)
		if scales[r] = 1; most > 0 {
			scales[r], inverse = most/127, 127/most
		}
		for j, x := range row {
			q := qmath.HalfAwayFromZero.Round(float64(x * inverse))
			mem.left[r*k+j] = uint8(max(-127, min(127, q)) + 128)
			if codes != nil {
				codes[r*k+j] = int8(max(-127, min(127, q)))
			}
		}
	}
	p := codeProduct{za: []int32{128}, zb: []int32{w.zero}}
	one := kernels.Scale{Factor: slices.Repeat([]float32{1}, n)}
	c.multiplyPacked(&p, w.matrix, mem.left, rows, &kernels.StoreF32{Dst: dst, Ldd: n, Scale: one})
	for i := range dst[:rows*n] {
		dst[i] *= scales[i/n] * w.scale[i%n%len(w.scale)]
	}
	return nil
}
