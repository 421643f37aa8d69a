package pnnx

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// rule is how an operator is written with those of ONNX. inputs is how many it has; -1: one or more.
type rule struct {
	inputs int
	lift   func(c *call) error
}

// rules are those of all operators, by type. Modules (nn.) and functions (F., torch., Tensor.) of one meaning share a rule.
var rules = map[string]rule{
	"pnnx.Expression": {-1, expression},

	"nn.Conv1d": {1, conv}, "nn.Conv2d": {1, conv}, "nn.ConvTranspose2d": {1, deconv}, "nn.Linear": {1, linear},
	"torch.matmul": {2, func(c *call) error {
		c.result("MatMul", c.in)
		return nil
	}},
	"nn.BatchNorm1d": {1, batchNorm}, "nn.BatchNorm2d": {1, batchNorm}, "nn.LayerNorm": {1, layerNorm},

	"nn.ReLU": plain("Relu"), "F.relu": plain("Relu"), "nn.Sigmoid": plain("Sigmoid"), "F.sigmoid": plain("Sigmoid"),
	"torch.sigmoid": plain("Sigmoid"),
	"nn.Tanh":       plain("Tanh"), "F.tanh": plain("Tanh"), "torch.tanh": plain("Tanh"), "nn.Hardswish": plain("HardSwish"),
	"F.hardswish": plain("HardSwish"),
	"nn.Mish":     plain("Mish"), "F.mish": plain("Mish"), "nn.Softplus": {1, softplus}, "F.softplus": {1, softplus}, "nn.SELU": plain("Selu"),
	"F.selu":         plain("Selu"),
	"nn.Hardsigmoid": plain("HardSigmoid", graph.Float("alpha", float32(1)/6), graph.Float("beta", 0.5)),
	"F.hardsigmoid":  plain("HardSigmoid", graph.Float("alpha", float32(1)/6), graph.Float("beta", 0.5)),
	"nn.ReLU6":       {1, clip(0, 6)}, "F.relu6": {1, clip(0, 6)}, "nn.Hardtanh": {1, clipBy("min_val", "max_val")},
	"F.hardtanh":  {1, clipBy("min_val", "max_val")},
	"torch.clamp": {1, clipBy("min", "max")},
	"nn.SiLU":     {1, silu}, "F.silu": {1, silu}, "nn.GELU": {1, gelu}, "F.gelu": {1, gelu}, "nn.LeakyReLU": {1, leaky},
	"F.leaky_relu": {1, leaky},
	"nn.ELU":       {1, elu}, "F.elu": {1, elu}, "nn.PReLU": {1, prelu},
	"nn.Softmax": {1, softmax("Softmax")}, "F.softmax": {1, softmax("Softmax")}, "nn.LogSoftmax": {1, softmax("LogSoftmax")},
	"F.log_softmax": {1, softmax("LogSoftmax")},

	"nn.MaxPool2d": {1, pool("MaxPool")}, "F.max_pool2d": {1, pool("MaxPool")}, "nn.AvgPool2d": {1, pool("AveragePool")},
	"F.avg_pool2d":          {1, pool("AveragePool")},
	"nn.AdaptiveAvgPool2d":  {1, adaptive("GlobalAveragePool", "AveragePool")},
	"F.adaptive_avg_pool2d": {1, adaptive("GlobalAveragePool", "AveragePool")},
	"nn.AdaptiveMaxPool2d":  {1, adaptive("GlobalMaxPool", "MaxPool")}, "F.adaptive_max_pool2d": {1, adaptive("GlobalMaxPool", "MaxPool")},
	"nn.Upsample": {1, upsample}, "F.upsample": {1, upsample}, "F.interpolate": {1, upsample}, "F.upsample_nearest": {1, upsample},
	"F.upsample_bilinear": {1, upsample}, "nn.UpsamplingNearest2d": {1, upsample},
	"nn.UpsamplingBilinear2d": {1, upsample}, "nn.PixelShuffle": {1, shuffle}, "F.pixel_shuffle": {1, shuffle},

	"torch.cat":     {-1, func(c *call) error { c.result("Concat", c.in, graph.Int("axis", c.integer("dim", 0))); return nil }},
	"torch.flatten": {1, flatten}, "nn.Flatten": {1, flatten}, "Tensor.view": {1, reshape}, "Tensor.reshape": {1, reshape},
	"torch.reshape": {1, reshape},
	"torch.permute": {1, permute}, "Tensor.permute": {1, permute}, "torch.transpose": {1, transpose}, "Tensor.transpose": {1, transpose},
	"torch.squeeze": {1, axes("Squeeze")}, "torch.unsqueeze": {1, axes("Unsqueeze")}, "torch.mean": {1, reduce("ReduceMean")},
	"torch.sum":    {1, reduce("ReduceSum")},
	"Tensor.slice": {1, slice}, "torch.chunk": {1, split}, "torch.split": {1, split}, "torch.tensor_split": {1, split}, "F.pad": {1, pad},
	"nn.ZeroPad2d": {1, pad},
	"nn.Dropout":   plain("Identity"), "nn.Identity": plain("Identity"), "F.dropout": {1, dropout}, "torch.contiguous": plain("Identity"),
	"Tensor.contiguous": plain("Identity"), "torch.clone": plain("Identity"),
}

func plain(op string, attrs ...graph.Attr) rule {
	return rule{1, func(c *call) error { c.result(op, c.in, attrs...); return nil }}
}

// pads are paddings in front, and the same behind.
func pads(list []int64) graph.Attr { return graph.Ints("pads", slices.Concat(list, list)...) }

func conv(c *call) error {
	n := 2
	if c.op.typ == "nn.Conv1d" {
		n = 1
	}
	w := c.tensor("weight")
	in := []graph.ValueID{c.in[0], w}
	if c.flag("bias", true) {
		in = append(in, c.tensor("bias"))
	}
	attrs := []graph.Attr{graph.Ints("kernel_shape", c.list("kernel_size", n)...),
		graph.Ints("strides", c.list("stride", n, slices.Repeat([]int64{1}, n)...)...),
		graph.Ints("dilations", c.list("dilation", n, slices.Repeat([]int64{1}, n)...)...), graph.Int("group", c.integer("groups", 1))}
	c.only("padding_mode", "zeros")
	switch p := c.text("padding", "0"); p {
	case "same":
		attrs = append(attrs, graph.Str("auto_pad", "SAME_UPPER"))
	case "valid":
	default:
		attrs = append(attrs, pads(c.list("padding", n, slices.Repeat([]int64{0}, n)...)))
	}
	c.result("Conv", in, attrs...)
	return nil
}

func deconv(c *call) error {
	c.only("padding_mode", "zeros")
	in := []graph.ValueID{c.in[0], c.tensor("weight")}
	if c.flag("bias", true) {
		in = append(in, c.tensor("bias"))
	}
	c.result("ConvTranspose", in, graph.Ints("kernel_shape", c.list("kernel_size", 2)...), graph.Ints("strides", c.list("stride", 2, 1, 1)...),
		graph.Ints("dilations", c.list("dilation", 2, 1, 1)...), graph.Int("group", c.integer("groups", 1)), pads(c.list("padding", 2, 0, 0)),
		graph.Ints("output_padding", c.list("output_padding", 2, 0, 0)...))
	return nil
}

// linear is a Gemm of matrices, and a MatMul of what has more axes.
func linear(c *call) error {
	if len(c.shape()) == 2 {
		in := []graph.ValueID{c.in[0], c.tensor("weight")}
		if c.flag("bias", true) {
			in = append(in, c.tensor("bias"))
		}
		c.result("Gemm", in, graph.Int("transB", 1))
		return nil
	}
	w, err := c.weight(c.op, "weight")
	if err != nil {
		return err
	}
	if len(w.Shape) != 2 || w.DType != tensor.Float32 {
		return fmt.Errorf("its weights are %s", w.Type())
	}
	rows, cols := w.Shape[0], w.Shape[1]
	t := tensor.New(tensor.Float32, cols, rows)
	for i := range rows {
		for k := range cols {
			t.F32()[k*rows+i] = w.F32()[i*cols+k]
		}
	}
	in := []graph.ValueID{c.in[0], c.g.AddConst(c.g.FreshName(c.op.name+".weight"), t)}
	if !c.flag("bias", true) {
		c.result("MatMul", in)
		return nil
	}
	c.result("Add", []graph.ValueID{c.node("MatMul", in), c.tensor("bias")})
	return nil
}

func batchNorm(c *call) error {
	n := int(c.integer("num_features", 0))
	mean, variance := c.tensor("running_mean"), c.tensor("running_var")
	var gamma, beta graph.ValueID
	if c.flag("affine", true) {
		gamma, beta = c.tensor("weight"), c.tensor("bias")
	} else if t := c.g.Const(mean); t != nil && t.Len() == n {
		gamma, beta = c.floats([]int{n}, slices.Repeat([]float32{1}, n)...), c.floats([]int{n}, make([]float32, n)...)
	} else {
		return fmt.Errorf("num_features=%d", n)
	}
	c.result("BatchNormalization", []graph.ValueID{c.in[0], gamma, beta, mean, variance}, graph.Float("epsilon", c.float("eps", 1e-5)))
	return nil
}

func layerNorm(c *call) error {
	shape := c.list("normalized_shape", 0)
	if len(shape) == 0 {
		return fmt.Errorf("without normalized_shape: how many axes are normalized is not known")
	}
	if !c.flag("elementwise_affine", true) {
		return fmt.Errorf("without factors, which ONNX's LayerNormalization has")
	}
	in := []graph.ValueID{c.in[0], c.tensor("weight")}
	if _, ok := c.op.weights["bias"]; ok {
		in = append(in, c.tensor("bias"))
	}
	c.result("LayerNormalization", in, graph.Int("axis", -int64(len(shape))), graph.Float("epsilon", c.float("eps", 1e-5)))
	return nil
}

func clip(lo, hi float32) func(c *call) error {
	return func(c *call) error {
		c.result("Clip", []graph.ValueID{c.in[0], c.floats(nil, lo), c.floats(nil, hi)})
		return nil
	}
}

func clipBy(low, high string) func(c *call) error {
	return func(c *call) error {
		in := []graph.ValueID{c.in[0], graph.NoValue, graph.NoValue}
		for i, key := range []string{low, high} {
			if c.text(key, "") != "" {
				in[i+1] = c.floats(nil, c.float(key, 0))
			} else if low == "min_val" {
				in[i+1] = c.floats(nil, float32(2*i-1))
			}
		}
		c.result("Clip", in)
		return nil
	}
}

// softplus is ONNX's with the parameters that are PyTorch's defaults: above the threshold x itself, which float32 rounds the function to.
func softplus(c *call) error {
	if beta, threshold := c.float("beta", 1), c.float("threshold", 20); beta != 1 || threshold != 20 {
		return fmt.Errorf("beta=%v, threshold=%v: only 1 and 20 have a rule", beta, threshold)
	}
	c.result("Softplus", c.in)
	return nil
}

// dropout is the one of inference.
func dropout(c *call) error {
	c.only("training", "False")
	c.result("Identity", c.in)
	return nil
}

func silu(c *call) error {
	c.result("Mul", []graph.ValueID{c.in[0], c.node("Sigmoid", c.in)})
	return nil
}

func gelu(c *call) error {
	c.result("Gelu", c.in, graph.Str("approximate", strings.Trim(c.text("approximate", "none"), "'\"")))
	return nil
}

func leaky(c *call) error {
	c.result("LeakyRelu", c.in, graph.Float("alpha", c.float("negative_slope", 0.01)))
	return nil
}

func elu(c *call) error {
	c.result("Elu", c.in, graph.Float("alpha", c.float("alpha", 1)))
	return nil
}

// prelu has its slopes along axis 1.
func prelu(c *call) error {
	t, err := c.weight(c.op, "weight")
	if err != nil {
		return err
	}
	rank := len(c.shape())
	if t.Len() > 1 && rank < 2 {
		return fmt.Errorf("%d slopes for %v: which axis has them is not known", t.Len(), c.shape())
	}
	if t.Len() > 1 && rank > 2 {
		shape := slices.Repeat([]int{1}, rank-1)
		shape[0] = t.Len()
		t = &tensor.Tensor{DType: t.DType, Shape: shape, Data: t.Data}
	}
	c.result("PRelu", []graph.ValueID{c.in[0], c.g.AddConst(c.g.FreshName(c.op.name+".weight"), t)})
	return nil
}

// softmax without dim goes along the axis that PyTorch takes: the first of 0, 1 and 3 axes, else the second.
func softmax(op string) func(c *call) error {
	return func(c *call) error {
		var axis int64
		if c.text("dim", "") != "" {
			axis = c.integer("dim", 0)
		} else if s := c.shape(); s == nil {
			return fmt.Errorf("without dim, of a rank that is not known")
		} else if r := len(s); r != 0 && r != 1 && r != 3 {
			axis = 1
		}
		c.result(op, c.in, graph.Int("axis", axis))
		return nil
	}
}

func pool(op string) func(c *call) error {
	return func(c *call) error {
		if c.flag("return_indices", false) {
			return fmt.Errorf("its indices are returned")
		}
		kernel := c.list("kernel_size", 2)
		attrs := []graph.Attr{graph.Ints("kernel_shape", kernel...), graph.Ints("strides", c.list("stride", 2, kernel...)...),
			pads(c.list("padding", 2, 0, 0)), graph.Int("ceil_mode", truth(c.flag("ceil_mode", false)))}
		if op == "MaxPool" || c.text("dilation", "") != "" {
			attrs = append(attrs, graph.Ints("dilations", c.list("dilation", 2, 1, 1)...))
		}
		if op == "AveragePool" {
			attrs = append(attrs, graph.Int("count_include_pad", truth(c.flag("count_include_pad", true))))
			if c.text("divisor_override", "") != "" {
				return fmt.Errorf("divisor_override")
			}
		}
		c.result(op, c.in, attrs...)
		return nil
	}
}

func truth(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// adaptive is a global pool, or one of windows of the same size where the sizes say so.
func adaptive(global, windows string) func(c *call) error {
	return func(c *call) error {
		if len(c.op.out) > 1 { // indices, which a pool over all of a tensor does not have here: who reads them finds nothing
			c.op.out = c.op.out[:1]
		}
		c.flag("return_indices", false)
		out := c.list("output_size", 2)
		if c.err != nil {
			return c.err
		}
		if out[0] == 1 && out[1] == 1 {
			c.result(global, c.in)
			return nil
		}
		s := c.shape()
		if len(s) < 2 {
			return fmt.Errorf("to %v, of a size that is not known", out)
		}
		var kernel []int64
		for i, n := range s[len(s)-2:] {
			if out[i] < 1 || n < 0 || n%out[i] != 0 {
				return fmt.Errorf("from %v to %v: windows of one size do not cover it", s, out)
			}
			kernel = append(kernel, n/out[i])
		}
		c.result(windows, c.in, graph.Ints("kernel_shape", kernel...), graph.Ints("strides", kernel...))
		return nil
	}
}

func upsample(c *call) error {
	mode, corners := c.text("mode", "nearest"), c.flag("align_corners", false)
	if lower := strings.ToLower(c.op.typ); strings.Contains(lower, "bilinear") {
		mode, corners = "bilinear", true
	}
	c.only("antialias", "False")
	attrs := map[string][]graph.Attr{
		"nearest":  {graph.Str("mode", "nearest"), graph.Str("coordinate_transformation_mode", "asymmetric"), graph.Str("nearest_mode", "floor")},
		"bilinear": {graph.Str("mode", "linear"), graph.Str("coordinate_transformation_mode", "half_pixel")},
	}[mode]
	if attrs == nil || corners && mode == "nearest" {
		return fmt.Errorf("mode %s, align_corners=%v", mode, corners)
	}
	if corners {
		attrs[1] = graph.Str("coordinate_transformation_mode", "align_corners")
	}
	s := c.shape()
	if len(s) != 4 {
		return fmt.Errorf("of %v: only of four axes", s)
	}
	in := []graph.ValueID{c.in[0], graph.NoValue, graph.NoValue}
	size, need, sized := c.list("size", 2, 0, 0), s[:2], c.text("size", "") != ""
	if !sized {
		words := strings.Split(strings.Trim(c.text("scale_factor", ""), "()"), ",")
		var scale [2]float64
		for i := range scale {
			var err error
			if scale[i], err = strconv.ParseFloat(words[min(i, len(words)-1)], 64); err != nil || len(words) > 2 ||
				!(scale[i] > 0 && scale[i] < 1<<20) {
				return fmt.Errorf("scale_factor=%s", c.text("scale_factor", "None"))
			}
			size[i] = int64(float64(s[i+2]) * scale[i])
		}
		// The distance of elements is 1/scale_factor, but here that of the sizes, of which the result's is rounded down.
		bySizes := c.flag("recompute_scale_factor", false) || corners
		if sized = bySizes && (scale[0] != math.Trunc(scale[0]) || scale[1] != math.Trunc(scale[1])); !sized {
			in[2] = c.floats([]int{4}, 1, 1, float32(scale[0]), float32(scale[1]))
		}
		need = s
	}
	if sized {
		if slices.Min(need) < 0 {
			return fmt.Errorf("of %v: sizes that are not known", s)
		}
		in = append(in, c.integers(slices.Concat(s[:2], size)...))
	}
	c.result("Resize", in, attrs...)
	return nil
}

func shuffle(c *call) error {
	c.result("DepthToSpace", c.in, graph.Int("blocksize", c.integer("upscale_factor", 1)), graph.Str("mode", "CRD"))
	return nil
}

// flatten joins the axes from start_dim to end_dim.
func flatten(c *call) error {
	start, end := c.integer("start_dim", truth(c.op.typ == "nn.Flatten")), c.integer("end_dim", -1)
	if s := c.shape(); start == 1 && (end == -1 || s != nil && end == int64(len(s)-1)) {
		c.result("Flatten", c.in, graph.Int("axis", 1))
		return nil
	}
	s := c.shape()
	lo, ok := graph.Axis(int(start), len(s))
	hi, ok2 := graph.Axis(int(end), len(s))
	if !ok || !ok2 || lo > hi {
		return fmt.Errorf("axes %d to %d of %v", start, end, s)
	}
	to := append(make([]int64, lo), -1) // 0: as it is
	for _, n := range s[hi+1:] {
		if n < 0 {
			return fmt.Errorf("behind axis %d of %v, which is not known", hi, s)
		}
		to = append(to, n)
	}
	c.result("Reshape", []graph.ValueID{c.in[0], c.integers(to...)})
	return nil
}

func reshape(c *call) error {
	shape := c.list("shape", 0)
	if shape == nil {
		return fmt.Errorf("its shape is computed")
	}
	c.result("Reshape", []graph.ValueID{c.in[0], c.integers(shape...)}, graph.Int("allowzero", 1))
	return nil
}

func permute(c *call) error {
	dims := c.list("dims", 0)
	if dims == nil {
		return fmt.Errorf("without dims")
	}
	for i := range dims {
		if dims[i] < 0 {
			dims[i] += int64(len(dims))
		}
	}
	c.result("Transpose", c.in, graph.Ints("perm", dims...))
	return nil
}

func transpose(c *call) error {
	rank := len(c.shape())
	a, ok := graph.Axis(int(c.integer("dim0", 0)), rank)
	b, ok2 := graph.Axis(int(c.integer("dim1", 1)), rank)
	if !ok || !ok2 {
		return fmt.Errorf("axes of %v", c.shape())
	}
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[a], perm[b] = perm[b], perm[a]
	c.result("Transpose", c.in, graph.Ints("perm", perm...))
	return nil
}

func axes(op string) func(c *call) error {
	return func(c *call) error {
		in := []graph.ValueID{c.in[0]}
		if dims := c.list("dim", 0); dims != nil {
			in = append(in, c.integers(dims...))
		}
		c.result(op, in)
		return nil
	}
}

func reduce(op string) func(c *call) error {
	return func(c *call) error {
		in := []graph.ValueID{c.in[0]}
		if dims := c.list("dim", 0); dims != nil {
			in = append(in, c.integers(dims...))
		}
		c.result(op, in, graph.Int("keepdims", truth(c.flag("keepdim", false))))
		return nil
	}
}

// slice cuts one axis (dim, start, end, step) or several (dims, starts, ends, steps). An axis with a number in selects is cut to that
// element, and is gone.
func slice(c *call) error {
	dims, starts, ends, steps := c.list("dims", 0), c.list("starts", 0), c.list("ends", 0), c.list("steps", 0)
	if dims == nil {
		const end = 1<<63 - 1
		dims, starts, ends, steps = []int64{c.integer("dim", 0)}, []int64{c.integer("start", 0)}, []int64{c.integer("end", end)},
			[]int64{c.integer("step", 1)}
	}
	selects := c.list("selects", 0, slices.Repeat([]int64{math.MaxInt32}, len(dims))...)
	if n := len(dims); n == 0 || len(starts) != n || len(ends) != n || len(steps) != n || len(selects) != n {
		return fmt.Errorf("what it cuts is computed")
	}
	var gone []int64
	for i, element := range selects {
		if element != math.MaxInt32 {
			starts[i], ends[i], steps[i], gone = element, element+1, 1, append(gone, dims[i])
			if element == -1 {
				ends[i] = math.MaxInt32
			}
		}
	}
	in := []graph.ValueID{c.in[0], c.integers(starts...), c.integers(ends...), c.integers(dims...), c.integers(steps...)}
	if gone == nil {
		c.result("Slice", in)
	} else {
		c.result("Squeeze", []graph.ValueID{c.node("Slice", in), c.integers(gone...)})
	}
	return nil
}

// split cuts into as many parts as it has results: equal ones, or of the sizes that the file says of them.
func split(c *call) error {
	dim := c.integer("dim", 0)
	var sizes []int64
	for _, name := range c.op.out {
		t, ok := c.operands[name]
		a, valid := graph.Axis(int(dim), len(t.shape))
		if !ok || !valid || t.shape[a] < 0 {
			return fmt.Errorf("the size of result %q is not known", name)
		}
		sizes = append(sizes, t.shape[a])
	}
	c.result("Split", []graph.ValueID{c.in[0], c.integers(sizes...)}, graph.Int("axis", dim))
	return nil
}

// pad adds to the last axes: pairs of numbers from the last axis on.
func pad(c *call) error {
	key := map[bool]string{true: "padding", false: "pad"}[c.op.typ == "nn.ZeroPad2d"]
	list, rank := c.list(key, 0), len(c.shape())
	if len(list)%2 != 0 || len(list) == 0 || len(list)/2 > rank {
		return fmt.Errorf("%s=%s for %v", key, c.text(key, "None"), c.shape())
	}
	mode := map[string]string{"constant": "constant", "reflect": "reflect", "replicate": "edge"}[c.text("mode", "constant")]
	if mode == "" {
		return fmt.Errorf("mode %s", c.text("mode", ""))
	}
	amounts := make([]int64, 2*rank)
	for i := 0; i < len(list)/2; i++ {
		amounts[rank-1-i], amounts[2*rank-1-i] = list[2*i], list[2*i+1]
	}
	c.result("Pad", []graph.ValueID{c.in[0], c.integers(amounts...), c.floats(nil, c.float("value", 0))}, graph.Str("mode", mode))
	return nil
}
