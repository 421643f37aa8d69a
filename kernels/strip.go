package kernels

import "qwb/kernels/ref"

// one returns what repeats tiles by means of a function that knows one tile whose rows are evenly spaced, its bias and its
// limits: it is called for each half of each tile, and what is to be added is added afterwards.
func one(f func(*tile)) func(*tile) {
	return func(t *tile) {
		whole, half := *t, (t.rows+1)/2
		for c := range t.strip.count {
			for h, rows := range [2]int{half, whole.rows - half} {
				if rows == 0 {
					continue
				}
				t.rows = rows
				t.a = whole.a[c*t.strip.stepA+h*t.strip.secondA:]
				t.dst = whole.dst[c*t.strip.stepD+h*t.strip.secondD:]
				if t.strip.add == nil {
					f(t)
					continue
				}
				t.lo, t.hi = Epilogue{}.Limits()
				f(t)
				t.lo, t.hi = whole.lo, whole.hi
				t.addRows(t.strip.add[c*t.strip.stepR+h*t.strip.secondR:])
			}
		}
		*t = whole
	}
}

// addRows adds rows of add to those of dst and applies the limits.
func (t *tile) addRows(add []float32) {
	for i := range t.rows {
		dst := t.dst[i*t.ldd:][:t.cols]
		for j, v := range add[i*t.strip.ldr:][:t.cols] {
			dst[j] = ref.Limit(dst[j]+v, t.lo, t.hi)
		}
	}
}

// columns returns what computes window tiles of any number of columns by means of a function that knows nr of them.
func columns(nr int, f func(*tile)) func(*tile) {
	return func(t *tile) {
		whole := *t
		for col := 0; col < whole.cols; col += nr {
			t.cols = min(nr, whole.cols-col)
			t.a, t.dst = whole.a[col:], whole.dst[col:]
			t.panel = whole.panel[col*len(t.segs):][:nr*len(t.segs)]
			if whole.bias != nil {
				t.bias = whole.bias[col:][:t.cols]
			}
			f(t)
		}
		*t = whole
	}
}
