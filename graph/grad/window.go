package grad

import (
	"slices"

	"qwb/graph"
)

// windows are convolutions. A Conv is turned round by ConvTranspose on the same weight, and the other way; the gradient of a weight is a
// product of what one of them reads with what arrives at the other, laid out tap by tap.
var windows = map[string]rule{"Conv": conv, "ConvTranspose": convTranspose}

func conv(t *tape, dy []graph.ValueID) []graph.ValueID {
	geo, err := graph.ConvGeometry(&t.n, t.G.Value(t.x(0)).Shape, t.G.Value(t.x(1)).Shape)
	if err != nil {
		t.fail(err)
		return nil
	}
	list := t.only(0, graph.NoValue)
	if t.wants(0) {
		list[0] = t.spread(dy[0], t.x(1), geo)
	}
	if t.wants(1) {
		list[1] = t.weight(dy[0], t.x(0), geo, t.shape(t.y()), t.shape(t.x(0)))
	}
	if t.wants(2) {
		list[2] = t.bias(dy[0])
	}
	return list
}

func convTranspose(t *tape, dy []graph.ValueID) []graph.ValueID {
	fwd, err := graph.ConvTransposeGeometry(&t.n, t.G.Value(t.x(0)).Shape, t.G.Value(t.x(1)).Shape)
	if err != nil {
		t.fail(err)
		return nil
	}
	geo := *fwd // the Conv that it turns round
	geo.In, geo.Out = fwd.Out, fwd.In
	x, y := t.shape(t.x(0)), t.shape(t.y())
	list := t.only(0, graph.NoValue)
	if t.wants(0) {
		var ends, from, to, axes, ones []int
		for d := range geo.In {
			e := end(&geo, d)
			ends = append(ends, max(e, 0))
			from, to, axes, ones = append(from, 0), append(to, geo.In[d]+min(e, 0)), append(axes, d+2), append(ones, 1)
		}
		read := dy[0]
		if !slices.Equal(to, geo.In) { // no input reaches the rest
			read = t.slice(read, from, to, axes, ones)
		}
		list[0] = t.with("Conv", geometry(&geo, ends), read, t.x(1))
	}
	if t.wants(1) {
		list[1] = t.weight(t.x(0), dy[0], &geo, x, y)
	}
	if t.wants(2) {
		list[2] = t.bias(dy[0])
	}
	return list
}

// bias sums over everything but the channels: over places as a pool, which reads them as they lie.
func (t *tape) bias(dy graph.ValueID) graph.ValueID {
	y, places := t.shape(t.y()), 1
	for _, d := range y[2:] {
		places *= d
	}
	return t.reshape(t.total(t.scale(t.op("GlobalAveragePool", dy), float64(places)), 0), y[1:2])
}

// end is how much padding the windows read behind the input; negative where some of the input is read by none.
func end(geo *graph.Geometry, d int) int {
	return (geo.Out[d]-1)*geo.Stride[d] + (geo.Kernel[d]-1)*geo.Dilation[d] + 1 - geo.PadBegin[d] - geo.In[d]
}

// geometry are the attributes of a window with padding of so many at the ends.
func geometry(geo *graph.Geometry, ends []int) []graph.Attr {
	return []graph.Attr{graph.Int("group", int64(geo.Group)), graph.Ints("strides", graph.Int64s(geo.Stride)...),
		graph.Ints("dilations", graph.Int64s(geo.Dilation)...), graph.Ints("pads", graph.Int64s(append(slices.Clone(geo.PadBegin), ends...))...)}
}

// spread brings what arrives at the outputs of windows back to where they read it: the ConvTranspose of a Conv.
func (t *tape) spread(dy, w graph.ValueID, geo *graph.Geometry) graph.ValueID {
	ends, more := make([]int, len(geo.In)), make([]int, len(geo.In))
	for d := range geo.In {
		e := end(geo, d)
		ends[d], more[d] = max(e, 0), max(-e, 0)
	}
	attrs := geometry(geo, ends)
	if slices.Max(more) > 0 {
		attrs = append(attrs, graph.Ints("output_padding", graph.Int64s(more)...))
	}
	return t.with("ConvTranspose", attrs, dy, w)
}

// taps are, for every position of the window, row-major, what windows over x [A,B,In...] read there: [A,B,Out...] each. fill stands in the
// padding.
func (t *tape) taps(x graph.ValueID, geo *graph.Geometry, fill float64) []graph.ValueID {
	rank := len(geo.In)
	begins, ends := make([]int, rank+2), make([]int, rank+2)
	for d := range rank {
		begins[d+2], ends[d+2] = geo.PadBegin[d], max(end(geo, d), 0)
	}
	if slices.Max(begins)+slices.Max(ends) > 0 {
		x = t.op("Pad", x, t.integers(append(begins, ends...)...), t.scalar(fill))
	}
	at, axes := make([]int, rank), make([]int, rank)
	for d := range axes {
		axes[d] = d + 2
	}
	var list []graph.ValueID
	for {
		from, to := make([]int, rank), make([]int, rank)
		for d := range at {
			from[d] = at[d] * geo.Dilation[d]
			to[d] = from[d] + (geo.Out[d]-1)*geo.Stride[d] + 1
		}
		list = append(list, t.slice(x, from, to, axes, geo.Stride))
		d := rank - 1
		for ; d >= 0; d-- {
			if at[d]++; at[d] < geo.Kernel[d] {
				break
			}
			at[d] = 0
		}
		if d < 0 {
			return list
		}
	}
}

// weight is the gradient of the weight of windows over x whose outputs are, or receive, y: [channels of y, channels of x / group, taps].
func (t *tape) weight(y, x graph.ValueID, geo *graph.Geometry, yShape, xShape []int) graph.ValueID {
	n, m, c, group := yShape[0], yShape[1], xShape[1], geo.Group
	if m == group && c == group {
		return t.depthwiseWeight(y, x, geo, n, c)
	}
	places := n
	for _, o := range geo.Out {
		places *= o
	}
	// Channels first, so that all samples are one sum.
	list := t.taps(t.channelsFirst(x, len(xShape)), geo, 0)
	taps := len(list)
	for i := range list {
		list[i] = t.reshape(list[i], []int{c, 1, places})
	}
	read := list[0]
	if taps > 1 {
		read = t.with("Concat", []graph.Attr{graph.Int("axis", 1)}, list...)
	}
	y = t.channelsFirst(y, len(yShape))
	shape := t.shape(t.x(1))
	if group == 1 { // the longer matrix in front: it is read where it lies, the other one is packed
		d := t.with("Gemm", []graph.Attr{graph.Int("transB", 1)}, t.reshape(read, []int{c * taps, places}), t.reshape(y, []int{m, places}))
		return t.reshape(t.transpose(d, 1, 0), shape)
	}
	y = t.reshape(y, []int{group, m / group, places})
	return t.reshape(t.op("MatMul", y, t.swapped(t.reshape(read, []int{group, c / group * taps, places}), 3)), shape)
}

// depthwiseWeight is weight of a channel each: the depthwise convolution of x by y, each channel of each sample apart, with strides and
// dilations exchanged; summed over samples.
func (t *tape) depthwiseWeight(y, x graph.ValueID, geo *graph.Geometry, n, c int) graph.ValueID {
	of := *geo
	of.Group, of.Stride, of.Dilation = n*c, geo.Dilation, geo.Stride
	var ends, from, axes, ones []int
	more := false // windows behind the kernel
	for d := range geo.In {
		e := end(geo, d)
		ends, more = append(ends, max(e, 0)), more || e < 0
		from, axes, ones = append(from, 0), append(axes, d+2), append(ones, 1)
	}
	x, y = t.reshape(x, append([]int{1, n * c}, geo.In...)), t.reshape(y, append([]int{n * c, 1}, geo.Out...))
	dw := t.with("Conv", geometry(&of, ends), x, y)
	if more {
		dw = t.slice(dw, from, geo.Kernel, axes, ones)
	}
	if n > 1 {
		dw = t.total(t.reshape(dw, append([]int{n, c}, geo.Kernel...)), 0)
	}
	return t.reshape(dw, t.shape(t.x(1)))
}

// channelsFirst exchanges samples and channels.
func (t *tape) channelsFirst(x graph.ValueID, rank int) graph.ValueID {
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = i
	}
	perm[0], perm[1] = 1, 0
	return t.transpose(x, perm...)
}
