package tflite

import (
	"context"
	"fmt"
	"math"
	"slices"

	"qwb/export"
	tf "qwb/graph/tflite"
)

// rule is a requirement of TensorFlow Lite's integer kernels, as their Prepare functions and the quantization specification state it.
type rule struct {
	export.Rule
	check func(c *checker)
}

// checker looks at one subgraph.
type checker struct {
	sub   *tf.Subgraph
	rule  *rule
	found []export.Finding
}

func (c *checker) report(op int, format string, args ...any) {
	name := ""
	if op >= 0 {
		name = fmt.Sprintf("%d %s", op, c.sub.Operators[op].Op)
	}
	c.found = append(c.found, export.Finding{Rule: c.rule.Name, Node: name, Text: fmt.Sprintf(format, args...), Fix: c.rule.Fix})
}

// integers reports whether a tensor is there and holds quantized numbers of 8 or 16 bits.
func integers(t *tf.Tensor) bool {
	return t != nil && (t.Type == tf.Int8 || t.Type == tf.Int16) && t.Quantization.Quantized()
}

func zero(q *tf.Quantization, i int) int {
	if len(q.ZeroPoint) == 0 {
		return 0
	}
	return q.ZeroPoint[min(i, len(q.ZeroPoint)-1)]
}

// each calls f for operators of the given names, or of all, that have an output. Inputs that are left out are nil.
func (c *checker) each(names []string, f func(op int, in, out []*tf.Tensor)) {
	tensors := func(ids []int) []*tf.Tensor {
		var list []*tf.Tensor
		for _, i := range ids {
			if i < 0 {
				list = append(list, nil)
				continue
			}
			list = append(list, &c.sub.Tensors[i])
		}
		return list
	}
	for i := range c.sub.Operators {
		if o := &c.sub.Operators[i]; len(o.Outputs) > 0 && (names == nil || slices.Contains(names, o.Op)) {
			f(i, tensors(o.Inputs), tensors(o.Outputs))
		}
	}
}

// keepers are the operators whose integers have one grid on both sides, by the place of the input.
var keepers = map[string]int{"AVERAGE_POOL_2D": 0, "MAX_POOL_2D": 0, "CONCATENATION": -1, "RESHAPE": 0, "TRANSPOSE": 0, "PAD": 0,
	"PADV2": 0, "MIRROR_PAD": 0, "STRIDED_SLICE": 0,
	"SLICE": 0, "SPLIT": 1, "GATHER": 0, "TILE": 0, "RESIZE_NEAREST_NEIGHBOR": 0, "RESIZE_BILINEAR": 0, "DEPTH_TO_SPACE": 0,
	"SPACE_TO_DEPTH": 0, "SQUEEZE": 0, "EXPAND_DIMS": 0,
	"REDUCE_MAX": 0, "REDUCE_MIN": 0, "MAXIMUM": -1, "MINIMUM": -1, "BROADCAST_TO": 0, "PACK": -1, "UNPACK": 0, "SPLIT_V": 0}

// sumRow says where an operator with weights has data, weights and bias, and the axis of output channels.
type sumRow struct{ x, w, bias, axis int }

// sums are the operators with weights and bias.
var sums = map[string]sumRow{"CONV_2D": {0, 1, 2, 0}, "DEPTHWISE_CONV_2D": {0, 1, 2, 3},
	"FULLY_CONNECTED": {0, 1, 2, 0}, "TRANSPOSE_CONV": {2, 1, 3, 0}}

var checks = []rule{
	{export.Rule{Name: "order", Doc: "operators read what was computed before them",
		Fix: "write the operators in an order in which they can run"}, func(c *checker) {
		have := make([]bool, len(c.sub.Tensors))
		for i, t := range c.sub.Tensors {
			have[i] = t.Data != nil || t.Variable || len(t.Shape) == 1 && t.Shape[0] == 0
		}
		for _, i := range c.sub.Inputs {
			have[i] = true
		}
		for i, o := range c.sub.Operators {
			for _, k := range o.Inputs {
				if k >= 0 && !have[k] {
					c.report(i, "reads %q, which nothing has computed", c.sub.Tensors[k].Name)
				}
			}
			for _, k := range o.Outputs {
				have[k] = true
			}
		}
		if len(c.sub.Outputs) == 0 {
			c.report(-1, "it has no outputs")
		}
		for _, k := range c.sub.Outputs {
			if !have[k] {
				c.report(-1, "output %q is not computed", c.sub.Tensors[k].Name)
			}
		}
	}},
	{export.Rule{Name: "scale", Doc: "scales are positive and finite", Fix: "give the tensor a positive scale"}, func(c *checker) {
		for i := range c.sub.Tensors {
			t := &c.sub.Tensors[i]
			if !t.Quantization.Quantized() {
				continue
			}
			for _, s := range t.Quantization.Scale {
				if !(s > 0) || math.IsInf(float64(s), 1) {
					c.report(-1, "%q has scale %g", t.Name, s)
					break
				}
			}
		}
	}},
	{export.Rule{Name: "weight-zero-point", Doc: "weights are symmetric: zero point 0", Fix: "quantize the weights symmetrically"},
		func(c *checker) {
			c.weights(func(op int, x, w *tf.Tensor) {
				for i := range w.Quantization.Scale {
					if z := zero(w.Quantization, i); z != 0 {
						c.report(op, "weights %q have zero point %d", w.Name, z)
						return
					}
				}
			})
		}},
	{export.Rule{Name: "axis", Doc: "scales per channel lie along the output channels",
		Fix: "give the weights one scale, or one per output channel"}, func(c *checker) {
		c.weights(func(op int, x, w *tf.Tensor) {
			if axis := sums[c.sub.Operators[op].Op].axis; len(w.Quantization.Scale) > 1 && w.Quantization.Axis != axis {
				c.report(op, "weights %q have scales along axis %d, their output channels are axis %d", w.Name, w.Quantization.Axis, axis)
			}
		})
	}},
	{export.Rule{Name: "bias", Doc: "biases are int32 (int64 behind int16) with scale input scale * weight scale",
		Fix: "quantize the bias with the scale of the sum"}, func(c *checker) {
		c.weights(func(op int, x, w *tf.Tensor) {
			o := &c.sub.Operators[op]
			k := sums[o.Op].bias
			if k >= len(o.Inputs) || o.Inputs[k] < 0 {
				return
			}
			b := &c.sub.Tensors[o.Inputs[k]]
			if b.Type != tf.Int32 && (x.Type != tf.Int16 || b.Type != tf.Int64) {
				c.report(op, "bias %q is %s", b.Name, b.Type)
				return
			}
			if !b.Quantization.Quantized() {
				return // kernels take the product
			}
			for i, s := range b.Quantization.Scale {
				want := float64(x.Quantization.Scale[0]) * float64(w.Quantization.Scale[min(i, len(w.Quantization.Scale)-1)])
				if math.Abs(float64(s)-want) > 1e-5*want {
					c.report(op, "bias %q has scale %g for channel %d, the sum %g", b.Name, s, i, want)
					return
				}
			}
		})
	}},
	{export.Rule{Name: "fixed-scale", Doc: "outputs of SOFTMAX and LOGISTIC have scale 1/256 and zero point -128, of TANH 1/128 and 0; in " +
		"16 bits 1/32768 and 0", Fix: "give the output the prescribed scale and zero point"}, func(c *checker) {
		c.each([]string{"SOFTMAX", "LOGISTIC", "TANH"}, func(op int, in, out []*tf.Tensor) {
			y := out[0]
			if len(in) == 0 || !integers(in[0]) || !integers(y) {
				return
			}
			scale, z := float32(1.0/256), -128
			if c.sub.Operators[op].Op == "TANH" {
				scale, z = 1.0/128, 0
			}
			if y.Type == tf.Int16 {
				scale, z = 1.0/32768, 0
			}
			if y.Quantization.Scale[0] != scale || zero(y.Quantization, 0) != z {
				c.report(op, "%q has scale %g and zero point %d, not %g and %d", y.Name, y.Quantization.Scale[0], zero(y.Quantization, 0), scale, z)
			}
		})
	}},
	{export.Rule{Name: "one-grid", Doc: "pools, CONCATENATION and operators that move integers have one scale and zero point on both sides",
		Fix: "give both sides one scale, or write a QUANTIZE between"}, func(c *checker) {
		c.each(nil, func(op int, in, out []*tf.Tensor) {
			k, ok := keepers[c.sub.Operators[op].Op]
			if !ok {
				return
			}
			if k >= 0 {
				if k >= len(in) {
					return
				}
				in = in[k : k+1]
			}
			for _, x := range in {
				for _, y := range out {
					if integers(x) && integers(y) &&
						(x.Quantization.Scale[0] != y.Quantization.Scale[0] || zero(x.Quantization, 0) != zero(y.Quantization, 0)) {
						c.report(op, "%q has scale %g and zero point %d, %q %g and %d", x.Name, x.Quantization.Scale[0], zero(x.Quantization, 0), y.Name,
							y.Quantization.Scale[0], zero(y.Quantization, 0))
						return
					}
				}
			}
		})
	}},
	{export.Rule{Name: "int16-zero-point", Doc: "activations of 16 bits are symmetric", Fix: "quantize int16 symmetrically"},
		func(c *checker) {
			for i := range c.sub.Tensors {
				if t := &c.sub.Tensors[i]; t.Type == tf.Int16 && t.Quantization.Quantized() && zero(t.Quantization, 0) != 0 {
					c.report(-1, "%q has zero point %d", t.Name, zero(t.Quantization, 0))
				}
			}
		}},
	{export.Rule{Name: "types", Doc: "float and integer tensors meet in QUANTIZE, DEQUANTIZE, LSTM and the weights of FULLY_CONNECTED " +
		"and convolutions alone",
		Fix: "write a QUANTIZE or a DEQUANTIZE between"}, func(c *checker) {
		c.each(nil, func(op int, in, out []*tf.Tensor) {
			name := c.sub.Operators[op].Op
			if slices.Contains([]string{"QUANTIZE", "DEQUANTIZE", "CAST", "UNIDIRECTIONAL_SEQUENCE_LSTM"}, name) {
				return
			}
			if row, ok := sums[name]; ok && row.w == 1 && len(in) > 1 && in[0] != nil && in[1] != nil && hybrid(in[0], in[1]) {
				in = slices.Delete(slices.Clone(in), 1, 2) // the kernel makes codes of the data
			}
			var float, whole string
			for _, t := range append(in, out...) {
				switch {
				case t == nil:
				case t.Type == tf.Float32:
					float = t.Name
				case integers(t):
					whole = t.Name
				}
			}
			if float != "" && whole != "" {
				c.report(op, "%q is float32, %q has integers: kernels of both kinds do not exist, or quantize at run time", float, whole)
			}
		})
	}},
	{export.Rule{Name: "one-type", Doc: "operators of several integer inputs have one type",
		Fix: "give all activations of the operator one type"}, func(c *checker) {
		c.each([]string{"ADD", "SUB", "MUL", "CONCATENATION", "MAXIMUM", "MINIMUM"}, func(op int, in, out []*tf.Tensor) {
			for _, x := range in {
				if integers(x) && x.Type != out[0].Type {
					c.report(op, "%q is %s, %q is %s", x.Name, x.Type, out[0].Name, out[0].Type)
				}
			}
		})
	}},
}

// weights calls f for the sums of quantized input and constant weights.
func (c *checker) weights(f func(op int, x, w *tf.Tensor)) {
	c.each(nil, func(op int, in, _ []*tf.Tensor) {
		s, ok := sums[c.sub.Operators[op].Op]
		if !ok || len(in) <= max(s.x, s.w) || in[s.x] == nil || in[s.w] == nil {
			return
		}
		if x, w := in[s.x], in[s.w]; integers(x) && w.Quantization.Quantized() {
			f(op, x, w)
		}
	})
}

func rules() []export.Rule {
	list := []export.Rule{{Name: "layout", Doc: "numbers lie at multiples of their size and texts end with 0: the interpreter verifies files",
		Fix: "write the file anew, with a library of FlatBuffers"}}
	for _, r := range slices.Concat(checks, kernelChecks) {
		list = append(list, r.Rule)
	}
	return list
}

const schemaVersion = 3

// Check reads a file and says what TensorFlow Lite's integer kernels would refuse, or compute otherwise than the file says.
func Check(b []byte) ([]export.Finding, error) {
	m, err := tf.Read(b)
	if err != nil {
		return nil, err
	}
	var found []export.Finding
	if m.Version != schemaVersion {
		found = append(found, export.Finding{Rule: "version", Text: fmt.Sprintf("the file has version %d of the schema, not %d", m.Version,
			schemaVersion)})
	}
	if m.Loose {
		found = append(found, export.Finding{Rule: "layout", Text: "numbers lie at no multiples of their size, or a text does not end"})
	}
	for i := range m.Subgraphs {
		for _, r := range slices.Concat(checks, kernelChecks) {
			c := &checker{sub: &m.Subgraphs[i], rule: &r}
			c.rule.check(c)
			found = append(found, c.found...)
		}
	}
	return found, nil
}

func doctor(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
	b, err := in.Bytes()
	if err != nil {
		return nil, err
	}
	return Check(b)
}

// look says what a file is as a whole.
func look(_ context.Context, in *export.DoctorInput) (*export.AsWhole, error) {
	b, err := in.Bytes()
	if err != nil {
		return nil, err
	}
	m, err := tf.Read(b)
	if err != nil {
		return nil, err
	}
	w := &export.AsWhole{}
	for _, kv := range m.Metadata {
		if kv.Name == "qwb.platform" {
			w.Platform = string(kv.Data)
		}
	}
	for i := range m.Subgraphs {
		for k := range m.Subgraphs[i].Tensors {
			t := &m.Subgraphs[i].Tensors[k]
			w.Narrow = w.Narrow || t.Quantization.Quantized() || t.Type == tf.Float16
			if bits := map[bool]int{true: 8, false: 16}[t.Type == tf.Int8]; t.Data == nil && integers(t) && !slices.Contains(w.Bits, bits) {
				w.Bits = append(w.Bits, bits)
			}
		}
	}
	return w, nil
}
