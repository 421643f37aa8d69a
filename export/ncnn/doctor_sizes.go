package ncnn

import "math"

// windowKeys says where the layers that move a window have its sizes: keys of width and height, of which the second has the first's number
// where it stands nowhere.
var windowKeys = map[string]struct{ size, dilation, stride int }{"Convolution": {1, 2, 3}, "ConvolutionDepthWise": {1, 2, 3},
	"Deconvolution": {1, 2, 3}, "DeconvolutionDepthWise": {1, 2, 3}, "Pooling": {1, 0, 2}}

const (
	global   = 4       // the key of a Pooling over all
	largest  = 1 << 28 // elements of a blob that no network has
	mostAxes = 4
)

// values applies the rule about numbers that the layers of ncnn refuse to load.
func (l *layer) values(report func(rule, node, format string, a ...any)) {
	between := func(key, low, high int, what string) {
		if v := l.integer(key, 0); v < low || v > high {
			report("values", l.name, "%s %d (%d=)", what, v, key)
		}
	}
	w, ok := windowKeys[l.typ]
	if ok && !(l.typ == "Pooling" && l.integer(global, 0) != 0) {
		for _, key := range []int{w.size, w.stride, w.dilation} {
			if x, y := l.pair(key, truth(key != w.size)); key > 0 && (x < 1 || y < 1) {
				report("values", l.name, "%d=%d, %d=%d: sizes, strides and dilations are above 0", key, x, key+10, y)
			}
		}
	}
	switch {
	case l.typ == "Pooling":
		between(0, 0, 1, "type")
		between(5, 0, 3, "padding")
	case l.typ == "BinaryOp":
		between(0, 0, 2*mostAxes+8, "type")
	case l.typ == "Concat" || l.typ == "Softmax":
		between(axisKey[l.typ], -mostAxes, mostAxes-1, "axis")
	case l.typ == "Reshape":
		if _, ok := l.get(0); !ok || !l.whole(0) {
			report("values", l.name, "the width (0=) is no whole number")
		}
	case ok:
		x, y := l.pair(w.size, 0)
		if n := times(times(x, y), l.integer(0, 0)); n > 0 && l.integer(keySize(l), 0)%n != 0 {
			report("values", l.name, "%d weights for %d outputs and windows of %d x %d", l.integer(keySize(l), 0), l.integer(0, 0), x, y)
		}
	}
}

// wires says how many blobs the layers read and make that do not have one of both; ncnn refuses to load others.
var wires = map[string]struct{ least, most, made int }{"Input": {0, 0, 1}, "MemoryData": {0, 0, 1}, "Split": {1, 1, math.MaxInt},
	"Slice": {1, 1, math.MaxInt}, "BinaryOp": {1, 2, 1}, "MatMul": {1, 2, 1}, "Concat": {1, math.MaxInt, 1}, "Eltwise": {1, math.MaxInt, 1},
	"Reshape": {1, math.MaxInt, 1}, "Crop": {1, math.MaxInt, 1}, "Interp": {1, math.MaxInt, 1}, "Noop": {0, math.MaxInt, math.MaxInt}}

const dynamic = 19 // the key of a convolution that reads its weights

// operands requires the numbers of blobs that a layer of the type reads and makes.
func (l *layer) operands(report func(rule, node, format string, a ...any)) {
	w, ok := wires[l.typ]
	if _, known := arrays[l.typ]; !ok && known {
		if w.least, w.most, w.made = 1, 1, 1; l.integer(dynamic, 0) != 0 {
			w.most = 3
		}
	} else if !ok {
		return
	}
	if in, out := len(l.bottoms), len(l.tops); in < w.least || in > w.most || out > w.made || out < 1 && l.typ != "Noop" {
		report("operands", l.name, "a %s that reads %d and makes %d blobs", l.typ, in, out)
	}
}

// finite requires numbers in the arrays that are no scales, which have a rule of their own.
func (l *layer) finite(report func(rule, node, format string, a ...any)) {
	list := l.weights
	if quantizes[l.typ] && l.integer(keyInt8, 0) != 0 {
		list = list[:min(1+truth(l.integer(keyBias(l), 0) != 0), len(list))]
	}
	for k, w := range list {
		for i, x := range w.floats {
			if d := float64(x); math.IsNaN(d) || math.IsInf(d, 0) {
				report("numbers", l.name, "number %d of array %d is %g", i, k, x)
				return
			}
		}
	}
}

var axisKey = map[string]int{"Concat": 0, "Softmax": 0}

// whole reports whether a parameter, where it stands there, is a whole number.
func (l *layer) whole(key int) bool {
	v, ok := l.get(key)
	_, is := v.(int)
	return is || !ok
}

// pair are the numbers of width and height of a key.
func (l *layer) pair(key, otherwise int) (x, y int) {
	if !l.whole(key) {
		return 0, 0
	}
	x = l.integer(key, otherwise)
	if _, ok := l.get(key + 10); !ok {
		return x, x
	}
	return x, l.integer(key+10, x)
}

// same are layers whose result has the size of what they read.
var same = map[string]bool{"Split": true, "Noop": true, "ReLU": true, "Clip": true, "Sigmoid": true, "Mish": true, "HardSwish": true,
	"HardSigmoid": true, "TanH": true, "ELU": true, "SELU": true, "Softplus": true, "Erf": true, "GELU": true, "Swish": true, "UnaryOp": true,
	"Softmax": true, "PReLU": true, "BatchNorm": true, "Dropout": true}

// area is width, height and channels of a blob.
type area struct{ w, h, c int }

// fit follows the sizes of blobs from the inputs on, as far as they are known: windows have to fit, and what is padded has to be a blob
// that there can be.
func (n *net) fit(report func(rule, node, format string, a ...any)) {
	known := map[string]area{}
	for i := range n.layers {
		l := &n.layers[i]
		var of area
		switch w, moves := windowKeys[l.typ]; {
		case l.typ == "Input" && l.integer(depth, 0) > 0: // four axes, which no layer here slides over
		case l.typ == "Input":
			of = area{l.integer(0, 0), l.integer(1, 0), l.integer(2, 0)}
		case l.typ == "Reshape":
			if l.integer(0, 0) > largest/max(l.integer(1, 1), 1)/max(l.integer(2, 1), 1) {
				report("values", l.name, "a shape of more than %d elements", largest)
			} else {
				l.reshapes(known, report)
			}
		case len(l.bottoms) == 0 || known[l.bottoms[0]] == (area{}):
		case same[l.typ]:
			of = known[l.bottoms[0]]
		case l.typ == "BinaryOp" && len(l.bottoms) == 2 && known[l.bottoms[1]] == known[l.bottoms[0]]:
			of = known[l.bottoms[0]]
		case l.typ == "Concat":
			of = l.joined(known, report)
		case l.typ == "Pooling" && l.integer(global, 0) != 0:
			of = area{w: known[l.bottoms[0]].c}
		case l.typ == "Deconvolution" || l.typ == "DeconvolutionDepthWise":
		case moves:
			of = l.moved(known[l.bottoms[0]], w.size, w.dilation, w.stride, report)
		}
		for _, t := range l.tops {
			known[t] = of
		}
	}
}

func (a area) elements() int { return max(a.w, 1) * max(a.h, 1) * max(a.c, 1) }

// reshapes requires that a shape that is there as a whole has the elements of what is read.
func (l *layer) reshapes(known map[string]area, report func(rule, node, format string, a ...any)) {
	n := 1
	for _, key := range []int{0, 1, 2, 11} {
		if v, ok := l.get(key); ok && v != any(missing) {
			if n = times(n, l.integer(key, -1)); n <= 0 {
				return // copied, or what is left
			}
		}
	}
	if len(l.bottoms) == 1 && known[l.bottoms[0]] != (area{}) && n != known[l.bottoms[0]].elements() {
		report("values", l.name, "%d elements become %d", known[l.bottoms[0]].elements(), n)
	}
}

const (
	missing = -233 // a size that a Reshape does not have
	depth   = 11   // the key of the depth of four axes
)

// joined is the size of a Concat along channels; that of others is not known.
func (l *layer) joined(known map[string]area, report func(rule, node, format string, a ...any)) area {
	of := known[l.bottoms[0]]
	if of.h > 0 && of.c > 0 && l.integer(0, 0) > 2 {
		report("values", l.name, "axis %d of three", l.integer(0, 0))
	}
	for _, b := range l.bottoms[1:] {
		x := known[b]
		if of.c += x.c; x.w != of.w || x.h != of.h {
			return area{}
		}
	}
	if l.integer(0, 0) != 0 {
		return area{}
	}
	return of
}

// moved is how often a window fits.
func (l *layer) moved(in area, size, dilation, stride int, report func(rule, node, format string, a ...any)) area {
	pads := [4]int{4, 15, 14, 16} // left, right, top, bottom: keys of a convolution
	if l.typ == "Pooling" {
		pads = [4]int{3, 14, 13, 15}
	}
	left := l.integer(pads[0], 0)
	top := l.integer(pads[2], left)
	if in.w <= 0 || in.h <= 0 || left < 0 || top < 0 || l.typ == "Pooling" && l.integer(5, 0) > 1 {
		return area{} // or pads are computed from the sizes
	}
	w, h := in.w+left+l.integer(pads[1], left), in.h+top+l.integer(pads[3], top)
	if c := max(in.c, 1); w > largest/c || h > largest/c/max(w, 1) {
		report("values", l.name, "pads make it larger than %d elements", largest)
		return area{}
	}
	kx, ky := l.pair(size, 1)
	dx, dy := 1, 1
	if dilation > 0 {
		dx, dy = l.pair(dilation, 1)
	}
	sx, sy := l.pair(stride, 1)
	if kx < 1 || ky < 1 || dx < 1 || dy < 1 || sx < 1 || sy < 1 {
		return area{}
	}
	if (kx-1)*dx >= w || (ky-1)*dy >= h {
		report("values", l.name, "a window of %d x %d, %d and %d apart, does not fit into %d x %d", kx, ky, dx, dy, w, h)
		return area{}
	}
	of := area{(w-(kx-1)*dx-1)/sx + 1, (h-(ky-1)*dy-1)/sy + 1, in.c}
	if l.typ == "Pooling" {
		return of
	}
	of.c = l.integer(0, 0)
	if n, group := l.integer(keySize(l), 0), l.integer(7, 1); in.c > 0 && group > 0 && n != of.c*kx*ky*(in.c/group) {
		report("values", l.name, "%d weights for %d outputs, windows of %d x %d and %d inputs in %d groups", n, of.c, kx, ky, in.c, group)
	}
	return of
}
