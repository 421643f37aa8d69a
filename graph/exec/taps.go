package exec

import "math"

// axisTap are the elements of one axis that a point between them is made of: n offsets, -1 outside of the axis, and weights.
type axisTap struct {
	n      int
	at     [4]int
	weight [4]float64
}

// taps are the elements that points of a tensor are made of, and their weights: those of point i end at ends[i].
type taps struct {
	at     []int
	weight []float64
	ends   []int
}

func (t *taps) reset() { t.at, t.weight, t.ends = t.at[:0], t.weight[:0], t.ends[:0] }

// add appends a point: the product of its taps along every axis, those outside left out.
func (t *taps) add(axes []axisTap, strides []int) {
	begin := len(t.at)
	t.at, t.weight = append(t.at, 0), append(t.weight, 1)
	for a := range axes {
		tap, end := &axes[a], len(t.at)
		for i := begin; i < end; i++ {
			for k, at := range tap.at[:tap.n] {
				if at >= 0 {
					t.at, t.weight = append(t.at, t.at[i]+at*strides[a]), append(t.weight, t.weight[i]*tap.weight[k])
				}
			}
		}
		n := begin + copy(t.at[begin:], t.at[end:])
		copy(t.weight[begin:], t.weight[end:])
		t.at, t.weight = t.at[:n], t.weight[:n]
	}
	t.ends = append(t.ends, len(t.at))
}

// sample sets each element of dst to the weighted sum of one point, accumulated in float64.
func sample[T number](t *taps, dst, src []T) {
	i := 0
	for p, end := range t.ends {
		sum := 0.0
		for ; i < end; i++ {
			sum += t.weight[i] * float64(src[t.at[i]])
		}
		dst[p] = T(sum)
	}
}

// linear makes the point v of an axis of n elements out of its two neighbours; what lies outside counts as 0.
func (t *axisTap) linear(v float64, n int) {
	if v = min(max(v, -2), float64(n)+1); math.IsNaN(v) { // out there all is 0
		v = -2
	}
	below := math.Floor(v)
	t.n, t.weight[0], t.weight[1] = 2, 1-(v-below), v-below
	for k := range 2 {
		if t.at[k] = int(below) + k; t.at[k] >= n || t.at[k] < 0 {
			t.at[k] = -1
		}
	}
}
