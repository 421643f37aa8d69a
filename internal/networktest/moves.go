package networktest

import (
	"slices"

	"qwb/graph"
)

func perm(b *builder, x value) graph.Attr { return graph.Ints("perm", ints(b.Perm(b.rank(x))...)...) }

// moves are the operators that only move elements, or leave some out.
var moves = []row{
	{"Reshape", func(b *builder, x value) []value {
		shape := slices.Clone(b.shape(x))
		if len(shape) == 0 {
			b.refuse("no axis")
		}
		switch n := len(shape); b.IntN(5) {
		case 0:
			shape = []int{shape[0], -1}
		case 1:
			shape = []int{-1}
		case 2:
			shape = append(shape[:n-1], 1, shape[n-1])
		case 3:
			if n > 1 {
				shape = append(shape[:n-2], shape[n-1], shape[n-2])
			}
		case 4:
			if last := shape[n-1]; last%2 == 0 && last > 0 {
				shape = append(shape[:n-1], last/2, 2)
			}
		}
		if b.chance(2) && shape[0] > 0 {
			shape[0] = 0 // as it is
		}
		return []value{b.node("Reshape", nil, x, b.ints(shape...))}
	}},
	{"Flatten", func(b *builder, x value) []value {
		return []value{b.node("Flatten", attrs{graph.Int("axis", int64(b.IntN(b.rank(x)+1)))}, x)}
	}},
	{"Transpose", func(b *builder, x value) []value { return []value{b.node("Transpose", attrs{perm(b, x)}, x)} }},
	{"Unsqueeze", func(b *builder, x value) []value {
		return []value{b.node("Unsqueeze", nil, x, b.ints(b.IntN(b.rank(x)+1)))}
	}},
	{"Squeeze", func(b *builder, x value) []value {
		for i, d := range b.shape(x) {
			if d == 1 && (i > 0 || b.chance(2)) {
				return []value{b.node("Squeeze", nil, x, b.ints(i-b.rank(x)*b.IntN(2)))}
			}
		}
		b.refuse("nothing to squeeze")
		return nil
	}},
	{"Slice", func(b *builder, x value) []value {
		axis := b.axis(x)
		n := b.shape(x)[at(axis, b.rank(x))]
		from, to, step := b.IntN(n+1), 1+b.IntN(n+2), 1
		switch b.IntN(4) {
		case 0:
			from, to = -1-b.IntN(n+1), 1<<30
		case 1:
			from, to, step = -1, -1<<30, -1-b.IntN(2)
		case 2:
			step = 2
		}
		return []value{b.node("Slice", nil, x, b.ints(from), b.ints(to), b.ints(axis), b.ints(step))}
	}},
	{"Split", func(b *builder, x value) []value {
		axis := b.axis(x)
		n := b.shape(x)[at(axis, b.rank(x))]
		first := b.IntN(n + 1)
		return b.nodes(2, "Split", attrs{graph.Int("axis", int64(axis))}, x, b.ints(first, n-first))
	}},
	{"Concat", func(b *builder, x value) []value {
		axis := b.axis(x)
		in := []value{x}
		for range b.IntN(3) {
			in = append(in, b.second(x))
		}
		if b.chance(4) {
			shape := slices.Clone(b.shape(x))
			shape[at(axis, len(shape))] = b.IntN(3)
			in = append(in, b.constant(1, 0, shape...))
		}
		b.Shuffle(len(in), func(i, k int) { in[i], in[k] = in[k], in[i] })
		return []value{b.node("Concat", attrs{graph.Int("axis", int64(axis))}, in...)}
	}},
	{"Pad", func(b *builder, x value) []value {
		n := b.rank(x)
		mode := one(b, "constant", "constant", "constant", "reflect", "edge")
		pads := make([]int, 2*n)
		for i, d := range b.shape(x) {
			if b.chance(2) && (i > 0 || b.chance(4)) {
				most := 3
				if mode == "reflect" {
					most = min(most, d)
				}
				if most > 0 && d > 0 {
					pads[i], pads[n+i] = b.IntN(most), b.IntN(most)
				}
				if b.chance(8) && d > 2 {
					pads[i] = -1
				}
			}
		}
		in := []value{x, b.ints(pads...)}
		if mode == "constant" && b.chance(2) {
			in = append(in, b.scalar(one(b, 0, 1, -0.4)))
		}
		return []value{b.node("Pad", attrs{graph.Str("mode", mode)}, in...)}
	}},
	{"Gather", func(b *builder, x value) []value {
		axis := b.axis(x)
		n := b.shape(x)[at(axis, b.rank(x))]
		if n == 0 {
			b.refuse("nothing there")
		}
		places := make([]int64, b.IntN(n+2))
		for i := range places {
			places[i] = int64(b.IntN(2*n) - n)
		}
		at := b.g.AddConst(b.g.FreshName("i"), i64(places, one(b, []int{len(places)}, []int{1, len(places)})...))
		if b.chance(4) {
			at = b.g.AddConst(b.g.FreshName("i"), i64([]int64{int64(b.IntN(n))}))
		}
		return []value{b.node("Gather", attrs{graph.Int("axis", int64(axis))}, x, at)}
	}},
	{"Expand", func(b *builder, x value) []value {
		shape := slices.Clone(b.shape(x))
		for i := range shape {
			if shape[i] == 1 && b.chance(2) {
				shape[i] = 1 + b.IntN(4)
			}
		}
		if b.chance(4) {
			shape = append([]int{1 + b.IntN(2)}, shape...)
		}
		return []value{b.node("Expand", nil, x, b.ints(shape...))}
	}},
	{"Tile", func(b *builder, x value) []value {
		times := make([]int, b.rank(x))
		for i := range times {
			times[i] = 1 + b.IntN(6)/5
		}
		return []value{b.node("Tile", nil, x, b.ints(times...))}
	}},
	{"DepthToSpace", func(b *builder, x value) []value {
		if b.channels(x)%4 != 0 || b.rank(x) != 4 {
			b.refuse("no blocks")
		}
		return []value{b.node("DepthToSpace", attrs{graph.Int("blocksize", 2), graph.Str("mode", one(b, "DCR", "CRD"))}, x)}
	}},
	{"SpaceToDepth", func(b *builder, x value) []value {
		if b.rank(x) != 4 || b.shape(x)[2]%2+b.shape(x)[3]%2 > 0 {
			b.refuse("no blocks")
		}
		return []value{b.node("SpaceToDepth", attrs{graph.Int("blocksize", 2)}, x)}
	}},
	{"Resize", func(b *builder, x value) []value {
		b.channels(x)
		scales := slices.Repeat([]float32{1}, b.rank(x))
		for i := 2; i < len(scales); i++ {
			scales[i] = one[float32](b, 1, 2, 2, 3, 0.5, 1.5)
		}
		if b.chance(3) {
			for i := 2; i < len(scales); i++ {
				scales[i] = 2
			}
		}
		mode := one(b, "nearest", "nearest", "linear", "linear", "cubic")
		list := attrs{graph.Str("mode", mode)}
		if !b.chance(3) {
			list = append(list, graph.Str("coordinate_transformation_mode", one(b, "asymmetric", "align_corners", "half_pixel",
				"pytorch_half_pixel")))
		}
		if mode == "nearest" && b.chance(2) {
			list = append(list, graph.Str("nearest_mode", one(b, "floor", "round_prefer_ceil", "ceil")))
		}
		return []value{b.node("Resize", list, x, graph.NoValue, b.g.AddConst(b.g.FreshName("r"), f32(scales, len(scales))))}
	}},
	{"Roll", func(b *builder, x value) []value {
		axis := b.axis(x)
		cut := b.ints(1)
		front := b.node("Slice", nil, x, b.ints(0), cut, b.ints(axis))
		back := b.node("Slice", nil, x, cut, b.ints(1<<30), b.ints(axis))
		return []value{b.node("Concat", attrs{graph.Int("axis", int64(axis))}, back, front)}
	}},
}

// structures are what several operators make together.
var structures = []row{
	{"constants", func(b *builder, x value) []value { // an activation that hangs on no input
		c := b.node("Relu", nil, b.constant(1, 0, b.shape(x)...))
		return []value{b.node(one(b, "Add", "Mul", "Sub"), nil, x, c)}
	}},
	{"residual", func(b *builder, x value) []value {
		c := b.channels(x)
		y := b.node("Conv", nil, x, b.weights(append([]int{c, c}, slices.Repeat([]int{1}, b.rank(x)-2)...)...), b.constant(0.2, 0, c))
		return []value{b.node("Relu", nil, b.node("Add", nil, y, x))}
	}},
	{"twins", func(b *builder, x value) []value { // two operators with the same constants
		c := b.channels(x)
		w := b.weights(append([]int{4, c}, slices.Repeat([]int{1}, b.rank(x)-2)...)...)
		return []value{b.node("Conv", nil, x, w), b.node("Conv", nil, b.node("Relu", nil, x), w)}
	}},
	{"attention", func(b *builder, x value) []value {
		if b.rank(x) != 3 {
			b.refuse("no tokens")
		}
		t, d := b.shape(x)[1], b.shape(x)[2]
		q, k := b.node("MatMul", nil, x, b.weights(d, 8)), b.node("MatMul", nil, x, b.weights(d, 8))
		s := b.node("MatMul", nil, q, b.node("Transpose", attrs{graph.Ints("perm", 0, 2, 1)}, k))
		if b.chance(2) {
			s = b.node("Add", nil, s, b.mask(t))
		}
		p := b.node("Softmax", attrs{graph.Int("axis", -1)}, b.node("Mul", nil, s, b.scalar(0.35)))
		return []value{b.node("MatMul", nil, p, b.node("MatMul", nil, x, b.weights(d, 8)))}
	}},
	{"squeeze and excite", func(b *builder, x value) []value {
		c := b.channels(x)
		if b.rank(x) != 4 {
			b.refuse("no image")
		}
		s := b.node("Conv", nil, b.node("GlobalAveragePool", nil, x), b.weights(c, c, 1, 1))
		return []value{b.node("Mul", nil, x, b.node(one(b, "Sigmoid", "HardSigmoid"), nil, s))}
	}},
	{"shape", func(b *builder, x value) []value { // a shape that is computed
		if b.rank(x) < 2 {
			b.refuse("one axis")
		}
		batch := b.node("Gather", nil, b.node("Shape", nil, x), b.ints(0))
		to := b.node("Concat", attrs{graph.Int("axis", 0)}, batch, b.ints(-1))
		return []value{b.node("Reshape", nil, x, to)}
	}},
}
