package networktest

import (
	"qwb/graph"
)

// window draws attributes of windows over the axes of x behind the second, with kernel sizes up to most.
func (b *builder) window(x value, most int) (kernel []int, list attrs) {
	b.channels(x)
	spatial := b.shape(x)[2:]
	n := len(spatial)
	begin, end, strides, dilations := make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	for i := range spatial {
		k := 1 + b.IntN(most)
		if b.chance(3) {
			k = 3
		}
		kernel, strides[i], dilations[i] = append(kernel, k), 1, 1
		if !b.chance(3) {
			begin[i], end[i] = b.IntN(k), b.IntN(k)
		}
	}
	if b.chance(3) {
		strides[b.IntN(n)] = 2
	}
	if b.chance(12) {
		copy(strides, kernel)
	}
	if b.chance(6) {
		dilations[b.IntN(n)] = 2
		list = append(list, graph.Ints("dilations", ints(dilations...)...))
	}
	list = append(list, graph.Ints("strides", ints(strides...)...))
	if b.chance(5) && len(list) == 1 { // ONNX Runtime takes no dilations there
		return kernel, append(list, graph.Str("auto_pad", one(b, "SAME_UPPER", "SAME_LOWER", "VALID")))
	}
	return kernel, append(list, graph.Ints("pads", ints(append(begin, end...)...)...))
}

var sums = []row{
	{"Conv", func(b *builder, x value) []value {
		c := b.channels(x)
		kernel, list := b.window(x, 4)
		group, out := 1, one(b, 1, 3, 4, 8, 16, 17, 32)
		switch b.IntN(4) {
		case 0:
			group, out = c, c*(1+b.IntN(6)/5)
		case 1:
			for _, g := range []int{2, 3} {
				if c > 0 && c%g == 0 {
					group, out = g, g*(1+b.IntN(4))
				}
			}
		}
		if c == 0 {
			b.refuse("no channels")
		}
		in := []value{x, b.weights(append([]int{out, c / group}, kernel...)...)}
		if !b.chance(3) {
			in = append(in, b.constant(0.3, 0, out))
		}
		return []value{b.node("Conv", append(list, graph.Int("group", int64(group))), in...)}
	}},
	{"ConvTranspose", func(b *builder, x value) []value {
		c := b.channels(x)
		kernel, list := b.window(x, 4)
		group, out := 1, 1+b.IntN(5)
		if b.chance(4) {
			group = c
		}
		if c == 0 {
			b.refuse("no channels")
		}
		in := []value{x, b.weights(append([]int{c, out}, kernel...)...)}
		if b.chance(2) {
			in = append(in, b.constant(0.3, 0, out*group))
		}
		return []value{b.node("ConvTranspose", append(list, graph.Int("group", int64(group))), in...)}
	}},
	{"Conv and activation", func(b *builder, x value) []value {
		c := b.channels(x)
		kernel, list := b.window(x, 3)
		out := one(b, 2, 8, 16)
		if c == 0 {
			b.refuse("no channels")
		}
		y := b.node("Conv", list, x, b.weights(append([]int{out, c}, kernel...)...), b.constant(0.3, 0, out))
		if b.chance(3) {
			y = b.node("BatchNormalization", nil, y, b.constant(0.5, 1, out), b.constant(0.5, 0, out), b.constant(0.5, 0, out),
				b.node("Abs", nil, b.constant(0.3, 1, out)))
		}
		return []value{b.node(one(b, "Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Tanh"), nil, y)}
	}},
	{"Gemm", func(b *builder, x value) []value {
		if b.rank(x) != 2 {
			b.refuse("no matrix")
		}
		m, k := b.shape(x)[0], b.shape(x)[1]
		n := one(b, 1, 3, 8, 10, 16, 17, 32)
		var list attrs
		if b.chance(8) {
			list, m, k = append(list, graph.Int("transA", 1)), k, m
		}
		shape := []int{k, n}
		if b.chance(2) {
			list, shape = append(list, graph.Int("transB", 1)), []int{n, k}
		}
		if b.chance(8) {
			list = append(list, graph.Float("alpha", 0.5))
		}
		in := []value{x, b.weights(shape...)}
		if !b.chance(3) {
			in = append(in, b.constant(0.3, 0, one(b, []int{n}, []int{n}, []int{1, n}, []int{1}, []int{}, []int{m, 1}, []int{m, n})...))
			if b.chance(8) {
				list = append(list, graph.Float("beta", 2))
			}
		}
		return []value{b.node("Gemm", list, in...)}
	}},
	{"MatMul", func(b *builder, x value) []value {
		shape := b.shape(x)
		if len(shape) == 0 {
			b.refuse("no axis")
		}
		k, n := shape[len(shape)-1], one(b, 1, 3, 8, 16, 17, 32)
		w := b.weights(one(b, []int{k, n}, []int{k, n}, []int{k, n}, []int{k}, []int{1, k, n})...)
		if b.chance(8) && len(shape) > 1 { // the constant on the left
			return []value{b.node("MatMul", nil, b.weights(n, shape[len(shape)-2]), x)}
		}
		y := b.node("MatMul", nil, x, w)
		if b.chance(2) && b.rank(y) == len(shape) {
			y = b.node("Add", nil, y, b.constant(0.3, 0, one(b, []int{n}, []int{1}, []int{})...))
		}
		return []value{y}
	}},
	{"MatMul of tensors", func(b *builder, x value) []value {
		n := b.rank(x)
		if n < 2 {
			b.refuse("no matrix")
		}
		perm := make([]int, n)
		for i := range perm {
			perm[i] = i
		}
		perm[n-1], perm[n-2] = n-2, n-1
		return []value{b.node("MatMul", nil, x, b.node("Transpose", attrs{graph.Ints("perm", ints(perm...)...)}, b.second(x)))}
	}},
	{"Einsum", func(b *builder, x value) []value {
		shape := b.shape(x)
		if len(shape) != 3 {
			b.refuse("not three axes")
		}
		return []value{b.node("Einsum", attrs{graph.Str("equation", "bij,jk->bik")}, x, b.weights(shape[2], 4))}
	}},
}

func pool(op string) row {
	return row{op, func(b *builder, x value) []value {
		kernel, list := b.window(x, 4)
		for i, a := range list { // dilations of averages are new, and of opset 19
			if a.Name == "dilations" && (op != "MaxPool") {
				list = append(list[:i], list[i+1:]...)
				break
			}
		}
		list = append(list, graph.Ints("kernel_shape", ints(kernel...)...))
		if b.chance(3) {
			list = append(list, graph.Int("ceil_mode", 1))
		}
		if op == "AveragePool" && b.chance(2) {
			list = append(list, graph.Int("count_include_pad", 1))
		}
		return []value{b.node(op, list, x)}
	}}
}

func global(op string) row {
	return row{op, func(b *builder, x value) []value {
		b.channels(x)
		return []value{b.node(op, nil, x)}
	}}
}

var pools = []row{pool("MaxPool"), pool("AveragePool"), global("GlobalAveragePool"), global("GlobalMaxPool")}
