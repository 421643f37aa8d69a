package tflite

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"qwb/export"
	tf "qwb/graph/tflite"
)

// form is what the kernel of an operator asks of its operands and options, as its Prepare function does.
type form struct {
	least, most int      // inputs
	optional    []int    // inputs that may be left out
	positive    []string // options
	measured    bool     // its integers have scales, also where they are moved only
	alike       bool     // its inputs have the type of its output
}

var (
	strides  = []string{"stride_w", "stride_h"}
	dilated  = append(slices.Clone(strides), "dilation_w_factor", "dilation_h_factor")
	filtered = append(slices.Clone(strides), "filter_width", "filter_height")
)

// forms are of the operators of nearly all quantized files; others are not looked at.
var forms = map[string]form{
	"CONV_2D":           {least: 2, most: 3, optional: []int{2}, positive: dilated, measured: true},
	"DEPTHWISE_CONV_2D": {least: 2, most: 3, optional: []int{2}, positive: dilated, measured: true},
	"FULLY_CONNECTED":   {least: 2, most: 3, optional: []int{2}, measured: true},
	"TRANSPOSE_CONV":    {least: 3, most: 4, optional: []int{3}, positive: strides, measured: true},
	"MAX_POOL_2D":       {least: 1, most: 1, positive: filtered, alike: true},
	"AVERAGE_POOL_2D":   {least: 1, most: 1, positive: filtered, alike: true},
	"ADD":               {least: 2, most: 2, measured: true},
	"SUB":               {least: 2, most: 2, measured: true},
	"MUL":               {least: 2, most: 2, measured: true},
	"CONCATENATION":     {least: 1, most: math.MaxInt, measured: true, alike: true},
	"SOFTMAX":           {least: 1, most: 1, measured: true},
	"LOGISTIC":          {least: 1, most: 1, measured: true, alike: true},
	"TANH":              {least: 1, most: 1, measured: true, alike: true},
	"HARD_SWISH":        {least: 1, most: 1, measured: true, alike: true},
	"LEAKY_RELU":        {least: 1, most: 1, measured: true, alike: true},
	"MEAN":              {least: 2, most: 2, measured: true},
	"QUANTIZE":          {least: 1, most: 1, measured: true},
	"DEQUANTIZE":        {least: 1, most: 1, measured: true},
	"RESHAPE":           {least: 1, most: 2},
	"PAD":               {least: 2, most: 2},
	"PADV2":             {least: 3, most: 3},
}

// newest are the highest versions of operators that LiteRT 2.3 has a kernel for, asked one by one; those that are not named have 1.
const newest = `ADD 6 AVERAGE_POOL_2D 3 CONCATENATION 7 CONV_2D 8 DEPTHWISE_CONV_2D 7 DEPTH_TO_SPACE 2 DEQUANTIZE 9 EMBEDDING_LOOKUP 5
FULLY_CONNECTED 14 L2_NORMALIZATION 2 LOGISTIC 3 LSTM 4 MAX_POOL_2D 3 MUL 8 RELU 3 RELU6 3 RESIZE_BILINEAR 4 RNN 3 SOFTMAX 4
SPACE_TO_DEPTH 2 SVDF 4 TANH 3 PAD 6 UNIDIRECTIONAL_SEQUENCE_RNN 3 GATHER 8 BATCH_TO_SPACE_ND 4 SPACE_TO_BATCH_ND 4 TRANSPOSE 9 MEAN 3
SUB 5 DIV 2 SQUEEZE 2 UNIDIRECTIONAL_SEQUENCE_LSTM 4 STRIDED_SLICE 8 BIDIRECTIONAL_SEQUENCE_RNN 3 EXP 2 TOPK_V2 3 SPLIT 5 LOG_SOFTMAX 2
BIDIRECTIONAL_SEQUENCE_LSTM 3 CAST 9 MAXIMUM 4 ARG_MAX 3 MINIMUM 4 LESS 3 PADV2 6 GREATER 2 GREATER_EQUAL 3 LESS_EQUAL 2 SELECT 4 SLICE 8
SIN 2 TRANSPOSE_CONV 5 SPARSE_TO_DENSE 3 TILE 3 EQUAL 5 NOT_EQUAL 4 LOG 2 SUM 2 RSQRT 3 ARG_MIN 3 FAKE_QUANT 2 REDUCE_PROD 2 REDUCE_MAX 3
PACK 5 UNPACK 6 REDUCE_MIN 3 FLOOR_DIV 3 FILL 5 FLOOR_MOD 2 RANGE 2 RESIZE_NEAREST_NEIGHBOR 4 LEAKY_RELU 2 SQUARED_DIFFERENCE 2
MIRROR_PAD 3 ABS 5 SPLIT_V 3 REVERSE_V2 4 GATHER_ND 6 COS 2 WHERE 2 QUANTIZE 6 SELECT_V2 2 BATCH_MATMUL 4 BROADCAST_TO 4 GELU 3
DYNAMIC_UPDATE_SLICE 6 SIGN 2`

var newestOf = sync.OnceValue(func() map[string]int {
	of, words := map[string]int{}, strings.Fields(newest)
	for i := 0; i < len(words); i += 2 {
		of[words[i]], _ = strconv.Atoi(words[i+1])
	}
	return of
})

// bounds are the zero points of a type.
var bounds = map[tf.Type][2]int{tf.Int8: {-128, 127}, tf.Uint8: {0, 255}, tf.Int32: {0, 0}, tf.Int64: {0, 0}}

var kernelChecks = []rule{
	{export.Rule{Name: "version", Doc: "operators have a version that there is", Fix: "write the version of the kernels that are meant"},
		func(c *checker) {
			for i := range c.sub.Operators {
				switch o := &c.sub.Operators[i]; {
				case o.Op == "CUSTOM" && o.Custom == "":
					c.report(i, "an operator without a name")
				case o.Op == "CUSTOM":
				case o.Version < 1 || o.Op == "PLACEHOLDER_FOR_GREATER_OP_CODES":
					c.report(i, "version %d", o.Version)
				case o.Version > max(newestOf()[o.Op], 1):
					c.report(i, "version %d, LiteRT 2.3 has up to %d", o.Version, max(newestOf()[o.Op], 1))
				}
			}
		}},
	{export.Rule{Name: "tensors", Doc: "what a tensor says of itself can be true: as many zero points as scales, an axis that it has, zero " +
		"points of its type, " +
		"data in the file, none of a variable or of what is computed, less than 2 GiB", Fix: "write the tensor anew"}, checkTensors},
	{export.Rule{Name: "operands", Doc: "an operator has the operands that its kernel reads, with their scales and in types that it has",
		Fix: "write the operand, or quantize it"}, func(c *checker) {
		c.each(nil, func(op int, in, out []*tf.Tensor) { c.operands(op, in, out) })
	}},
	{export.Rule{Name: "options", Doc: "strides, windows and dilations are above 0, paddings are SAME or VALID",
		Fix: "write the options of the operator"}, func(c *checker) {
		for i := range c.sub.Operators {
			o := &c.sub.Operators[i]
			for _, name := range forms[o.Op].positive {
				if o.Options.Int(name) <= 0 {
					c.report(i, "%s is %d", name, o.Options.Int(name))
				}
			}
			if p := o.Options.Int("padding"); len(forms[o.Op].positive) > 0 && p != tf.Same && p != tf.Valid {
				c.report(i, "padding is %d", p)
			}
			if w := o.Options.Int("weights_format"); o.Op == "FULLY_CONNECTED" && w != 0 {
				c.report(i, "weights_format is %d, the file has one result", w)
			}
			if t := tf.Type(o.Options.Int("quantized_bias_type")); t < 0 || t.String() == fmt.Sprintf("type %d", t) {
				c.report(i, "quantized_bias_type is %d", t)
			}
		}
	}},
	{export.Rule{Name: "sizes", Doc: "operands have sizes that fit each other, from the inputs on",
		Fix: "write the sizes that the operator needs"}, func(c *checker) { newSizes(c).all() }},
	{export.Rule{Name: "factor", Doc: "ADD and SUB add at most 2^19 steps of the result at once: kernels end the process beyond that; a " +
		"product of CONV_2D is less than 256 steps of the result: XNNPACK (2.3) does not open the file otherwise",
		Fix: "give the result a scale nearer to those that are added or multiplied, or leave the operator float"}, func(c *checker) {
		c.each([]string{"CONV_2D"}, func(op int, in, out []*tf.Tensor) {
			if len(in) < 2 || !integers(in[0]) || !integers(in[1]) || !integers(out[0]) {
				return
			}
			x, w, y := in[0].Quantization.Scale[0], slices.Max(in[1].Quantization.Scale), out[0].Quantization.Scale[0]
			if f := float64(x) * float64(w) / float64(y); !(f < 256) {
				c.report(op, "products of scale %g are rounded to scale %g", float64(x)*float64(w), y)
			}
		})
		c.each([]string{"ADD", "SUB"}, func(op int, in, out []*tf.Tensor) {
			if len(in) != 2 || !integers(in[0]) || !integers(in[1]) || !integers(out[0]) {
				return
			}
			a, b, y := in[0].Quantization.Scale[0], in[1].Quantization.Scale[0], out[0].Quantization.Scale[0]
			if f := 2 * float64(max(a, b)) / float64(y); !(f < 1<<20) {
				c.report(op, "scales %g and %g are added for scale %g", a, b, y)
			}
		})
	}},
}

func checkTensors(c *checker) {
	for i := range c.sub.Tensors {
		t := &c.sub.Tensors[i]
		if n, err := t.Elements(); err == nil && n*max(t.Type.Bits(), 8)/8 > math.MaxInt32 {
			c.report(-1, "%q is %v%v, more than 2 GiB", t.Name, t.Type, t.Shape)
		}
		switch {
		case t.Unread == tf.Outside || t.Unread == tf.Undetailed:
			c.report(-1, "%q has %s", t.Name, t.Unread)
		case t.Data == nil && !t.Variable:
		// RESHAPE leaves its result where its operand lies, and a variable lies elsewhere.
		case slices.ContainsFunc(c.sub.Operators, func(o tf.Operator) bool {
			return slices.Contains(o.Outputs, i) && (t.Data != nil || o.Op == "RESHAPE")
		}):
			c.report(-1, "%q is computed, and has data or is a variable that RESHAPE cannot write", t.Name)
		case t.Data != nil && t.Variable:
			c.report(-1, "%q is a variable, and has data", t.Name)
		}
		q := t.Quantization
		if !q.Quantized() {
			continue
		}
		if len(q.ZeroPoint) != len(q.Scale) {
			c.report(-1, "%q has %d scales and %d zero points", t.Name, len(q.Scale), len(q.ZeroPoint))
		}
		if q.Axis < 0 || q.Axis >= max(len(t.Shape), 1) {
			c.report(-1, "%q has axis %d of %v", t.Name, q.Axis, t.Shape)
		}
		if b, ok := bounds[t.Type]; ok {
			for k := range q.ZeroPoint {
				if z := q.ZeroPoint[k]; z < b[0] || z > b[1] {
					c.report(-1, "%q is %v and has zero point %d", t.Name, t.Type, z)
					break
				}
			}
		}
		for _, s := range q.Scale {
			if s > 0 && s < smallestNormal {
				c.report(-1, "%q has scale %g, which kernels take for 0", t.Name, s)
				break
			}
		}
	}
}

const smallestNormal = 0x1p-126

// operands checks number, presence, scales and types of what an operator reads and computes.
func (c *checker) operands(op int, in, out []*tf.Tensor) {
	o := &c.sub.Operators[op]
	f, ok := forms[o.Op]
	if !ok {
		return
	}
	if len(in) < f.least || len(in) > f.most {
		c.report(op, "has %d inputs", len(in))
		return
	}
	for i, t := range in {
		if t == nil && !slices.Contains(f.optional, i) {
			c.report(op, "input %d is left out", i)
			return
		}
	}
	s, sums := sums[o.Op]
	x := in[0]
	if sums {
		x = in[s.x]
	}
	if whole(x) && (o.Op == "CONV_2D" || o.Op == "DEPTHWISE_CONV_2D") && (len(in) < 3 || in[2] == nil) {
		c.report(op, "has no bias, which kernels of integers read")
	}
	if o.Op != "RESHAPE" && x.Type == tf.Bool {
		c.report(op, "%q is %v", x.Name, x.Type)
		return
	}
	if o.Op == "DEQUANTIZE" {
		out = nil // the kernel makes it float32
	}
	c.scaled(op, f, in, out)
	if text := mistyped(o.Op, f, x, in, &c.sub.Tensors[o.Outputs[0]]); text != "" {
		c.report(op, "%s", text)
	}
}

// whole reports whether a tensor has integers of 8 or 16 bits.
func whole(t *tf.Tensor) bool {
	return t != nil && (t.Type == tf.Int8 || t.Type == tf.Uint8 || t.Type == tf.Int16)
}

// scaled requires scales of integers that are numbers.
func (c *checker) scaled(op int, f form, in, out []*tf.Tensor) {
	if !f.measured {
		return
	}
	for _, t := range slices.Concat(in, out) {
		if whole(t) && !t.Quantization.Quantized() {
			c.report(op, "%q is %v and has no scale", t.Name, t.Type)
		}
	}
}

// mistyped says what types an operator has no kernel for; empty: it may have one.
func mistyped(name string, f form, x *tf.Tensor, in []*tf.Tensor, y *tf.Tensor) string {
	is := func(t *tf.Tensor, list ...tf.Type) bool { return slices.Contains(list, t.Type) }
	s, sums := sums[name]
	switch {
	case name == "QUANTIZE" && !is(x, tf.Float32, tf.Int8, tf.Uint8, tf.Int16, tf.Int32):
		return fmt.Sprintf("%q is %v", x.Name, x.Type)
	case name == "QUANTIZE" && !is(y, tf.Int8, tf.Uint8, tf.Int16, tf.Int32, tf.Int4):
		return fmt.Sprintf("%q is %v", y.Name, y.Type)
	case name == "DEQUANTIZE" && !is(x, tf.Int8, tf.Uint8, tf.Int16, tf.Float16, tf.Int4, tf.Int2):
		return fmt.Sprintf("%q is %v", x.Name, x.Type)
	case sums && !is(x, tf.Float32, tf.Int8, tf.Uint8, tf.Int16):
		return fmt.Sprintf("%q is %v", x.Name, x.Type)
	case sums && x.Type != y.Type && !(name == "FULLY_CONNECTED" && whole(x) && is(y, tf.Int16)):
		return fmt.Sprintf("from %v to %v", x.Type, y.Type)
	case sums && is(x, tf.Int8, tf.Int16) && !is(in[s.w], tf.Int8, tf.Int4, tf.Int2), sums && is(x, tf.Uint8) && !is(in[s.w], tf.Uint8),
		sums && is(in[s.w], tf.Bool, tf.Int32, tf.Int64):
		return fmt.Sprintf("%q is %v, its weights are %v", x.Name, x.Type, in[s.w].Type)
	case name == "MEAN" && !is(in[1], tf.Int32):
		return fmt.Sprintf("the axes %q are %v", in[1].Name, in[1].Type)
	case name == "SOFTMAX" && x.Type == tf.Int8 && !is(y, tf.Int8, tf.Int16):
		return fmt.Sprintf("from %v to %v", x.Type, y.Type)
	case f.alike:
		for _, t := range in {
			if t.Type != y.Type {
				return fmt.Sprintf("%q is %v, %q %v", t.Name, t.Type, y.Name, y.Type)
			}
		}
	case len(in) == 2 && (name == "ADD" || name == "SUB" || name == "MUL") && in[0].Type != in[1].Type:
		return fmt.Sprintf("%q is %v, %q %v", in[0].Name, in[0].Type, in[1].Name, in[1].Type)
	}
	return ""
}
