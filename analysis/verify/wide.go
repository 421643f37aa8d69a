package verify

import "math"

// wide reports whether the accumulators of a sum of 16-bit codes need 64 bits: some codes could bring a sum, or a part of it, out of
// 32, as far as weights and shapes tell. Sums of 8-bit codes have 32 bits whatever they need, as on the targets.
func (l *linear) wide() bool {
	if entries(l.x) == 1<<8 {
		return false
	}
	// The largest distances of a code from the zero point, to both sides.
	below, above := int64(l.x.ZeroPoint)-int64(l.x.QMin), int64(l.x.QMax)-int64(l.x.ZeroPoint)
	if w := l.weights; w != nil {
		least, most := make([]int64, len(w.scale)), make([]int64, len(w.scale))
		for c, b := range l.bias {
			least[c%len(least)], most[c%len(most)] = int64(min(b, 0)), int64(max(b, 0))
		}
		for i, q := range w.codes {
			c := w.channel(i)
			if d := int64(q) - int64(w.zero[c]); d > 0 {
				least[c], most[c] = least[c]-d*below, most[c]+d*above
			} else {
				least[c], most[c] = least[c]+d*above, most[c]-d*below
			}
		}
		for c := range least {
			if least[c] < math.MinInt32 || most[c] > math.MaxInt32 {
				return true
			}
		}
		return false
	}
	shape := l.g.Value(l.node.Inputs[0]).Shape
	axis := len(shape) - 1
	if l.node.Op == "Gemm" && l.node.AttrInt("transA", 0) != 0 {
		axis = 0
	}
	if axis < 0 || !shape[axis].Known() {
		return true
	}
	wBelow, wAbove := int64(l.w.ZeroPoint)-int64(l.w.QMin), int64(l.w.QMax)-int64(l.w.ZeroPoint)
	terms := shape[axis].N
	return terms*max(above*wAbove, below*wBelow) > math.MaxInt32 || -terms*max(above*wBelow, below*wAbove) < math.MinInt32
}
