package qoperator

import (
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// rule is one thing that readers of the file insist on: what export.Rule says, and how it is found.
type rule struct {
	export.Rule
	check func(*checker)
}

// rules lists what Check looks for: the definitions of the operators (ONNX's operator list; ContribOperators.md of ONNX Runtime) and what
// its kernels refuse when they are made or run (contrib_ops/cpu/quantization, core/providers/cpu/quantization, release 1.32).
var rules = []rule{
	{export.Rule{Name: "structure", Doc: "the graph is well formed and its shapes fit", Fix: "write the file again"}, structure},
	{export.Rule{Name: "domain", Doc: "the opset of com.microsoft is imported where its operators are used, and no operator is unknown",
		Fix: "import com.microsoft, version 1"}, domain},
	{export.Rule{Name: "opset", Doc: "the opset is one that the platform's readers know", Fix: "export for a platform that reads it"}, opset},
	{export.Rule{Name: "type", Doc: "codes are uint8 or int8; input, result and zero points have one type; uint8 weights need uint8 inputs",
		Fix: "choose one type for the operator"}, types},
	{export.Rule{Name: "scale", Doc: "scales are constants of float32, above 0, not subnormal, and 127 steps of them are finite; those of " +
		"a QLinearGlobalAveragePool are at most 2^8 or 2^32 apart, by its elements", Fix: "calibrate again"}, scales},
	{export.Rule{Name: "granularity", Doc: "only weights have several scales, one for each output channel, and one zero point for all",
		Fix: "one scale per tensor, or weights per channel"}, granularity},
	{export.Rule{Name: "bias", Doc: "a bias is int32, with one number per output channel",
		Fix: "quantize the bias with input scale * weight scale"}, biases},
	{export.Rule{Name: "attribute", Doc: "an operator has no attribute that its definition does not know; QLinearSoftmax states its opset",
		Fix: "remove the attribute"}, attributes},
	{export.Rule{Name: "blocks", Doc: "codes, scales and zero points of a MatMulNBits are as many as N, K, bits and block_size say; blocks " +
		"are a power of two, 16 or more", Fix: "write the weights again"}, blocks},
}

// Rules lists what Check looks for, in words.
func Rules() []export.Rule {
	list := make([]export.Rule, len(rules))
	for i, r := range rules {
		list[i] = r.Rule
	}
	return list
}

// Check applies the rules to a graph read back from a file. It returns what it finds in the order of Rules and, within a rule,
// in graph order.
func Check(g *graph.Graph, t *target.Target) []export.Finding {
	c := &checker{g: g, t: t}
	var err error
	if c.order, err = g.Order(); err != nil {
		return []export.Finding{{Rule: rules[0].Name, Text: err.Error(), Fix: rules[0].Fix}}
	}
	c.inferred = graph.InferShapes(g)
	for i := range rules {
		c.rule = &rules[i]
		c.rule.check(c)
	}
	return c.found
}

type checker struct {
	g        *graph.Graph
	t        *target.Target
	order    []graph.NodeID
	inferred []error
	rule     *rule
	found    []export.Finding
}

func (c *checker) report(n *graph.Node, format string, args ...any) {
	f := export.Finding{Rule: c.rule.Name, Text: fmt.Sprintf(format, args...), Fix: c.rule.Fix}
	if n != nil {
		f.Node = n.Name
	}
	c.found = append(c.found, f)
}

// each calls f for the operators on integers.
func (c *checker) each(f func(n *graph.Node, form *qdq.QOperator)) {
	for _, id := range c.order {
		n := c.g.Node(id)
		if form, ok := qdq.QOperators[n.Op]; ok {
			f(n, &form)
		}
	}
}

// input returns the constant and the type of input i, nil and Undefined where there is none.
func (c *checker) input(n *graph.Node, i int) (*tensor.Tensor, tensor.DType) {
	v := n.Input(i)
	if v == graph.NoValue {
		return nil, tensor.Undefined
	}
	return c.g.Const(v), c.g.Value(v).DType
}

func structure(c *checker) {
	if err := c.g.Check(); err != nil {
		c.report(nil, "%v", err)
	}
	for _, w := range c.inferred {
		c.report(nil, "%v", w)
	}
}

func domain(c *checker) {
	imported := c.g.Opset(microsoft) != 0
	for _, id := range c.order {
		n := c.g.Node(id)
		switch {
		case n.Spec() == nil:
			c.report(n, "there is no operator %s in domain %q", n.Op, n.Domain)
		case n.Domain == microsoft && !imported:
			c.report(n, "%s is of %s, which the file does not import", n.Op, microsoft)
			imported = true // once
		}
	}
}

func opset(c *checker) {
	have, e := c.g.Opset(""), &c.t.Export
	if have < e.MinOpset || e.MaxOpset > 0 && have > e.MaxOpset {
		c.report(nil, "opset %d: %s reads %d to %d", have, c.t.Name, e.MinOpset, e.MaxOpset)
	}
}

func types(c *checker) {
	c.each(func(n *graph.Node, form *qdq.QOperator) {
		operands := form.Operands(len(n.Inputs))
		var first tensor.DType
		for k, o := range operands {
			_, x := c.input(n, o.X)
			_, zero := c.input(n, o.Zero)
			if k == 0 {
				first = x
			}
			weight := form.Weights > 0 && k == form.Weights
			switch _, ok := limits[x]; {
			case !ok:
				c.report(n, "input %d is %s", o.X, x)
			case zero != x:
				c.report(n, "input %d is %s, its zero point %s", o.X, x, zero)
			case !weight && x != first:
				c.report(n, "input %d is %s, input %d %s", o.X, x, operands[0].X, first)
			case weight && x == tensor.Uint8 && first == tensor.Int8:
				c.report(n, "weights of uint8 with int8")
			}
		}
		if n.Input(form.Out[0]) == graph.NoValue {
			return // a QGemm that gives floats
		}
		y := c.g.Value(n.Outputs[0]).DType
		if _, zero := c.input(n, form.Out[1]); zero != first || y != first {
			c.report(n, "the result is %s with a zero point of %s, the input %s", y, zero, first)
		}
	})
}

func scales(c *checker) {
	c.each(func(n *graph.Node, form *qdq.QOperator) {
		at := make([]int, 0, len(n.Inputs))
		for _, o := range form.Operands(len(n.Inputs)) {
			at = append(at, o.Scale)
		}
		if n.Input(form.Out[0]) != graph.NoValue {
			at = append(at, form.Out[0])
		}
		for _, i := range at {
			s, d := c.input(n, i)
			if d != tensor.Float32 || s == nil {
				c.report(n, "the scale at input %d is not a constant of float32", i)
				continue
			}
			if k := slices.IndexFunc(s.F32(), func(x float32) bool { return !qmath.Workable(x) }); k >= 0 || s.Len() == 0 {
				c.report(n, "scale %d at input %d is 0 or below, too small or too large", k, i)
			}
		}
		if n.Op == "QLinearGlobalAveragePool" {
			c.poolScale(n)
		}
	})
}

// poolScale applies the rule about the scales of a pool over all, which stand at inputs 1 and 3.
func (c *checker) poolScale(n *graph.Node) {
	in, _ := c.input(n, 1)
	out, _ := c.input(n, 3)
	x, ok := c.g.Value(n.Input(0)).Shape.Ints()
	if in == nil || out == nil || in.DType != tensor.Float32 || out.DType != tensor.Float32 || in.Len() != 1 || out.Len() != 1 ||
		!ok || len(x) < 3 {
		return
	}
	size := tensor.Count(x[2:])
	if n.AttrInt("channels_last", 0) != 0 {
		size = tensor.Count(x[1 : len(x)-1])
	}
	if a, b := in.F32()[0], out.F32()[0]; !qmath.PoolFactor(a, b, size) {
		c.report(n, "scale %g for what it reads, %g for what it gives, and %d elements", a, b, size)
	}
}

func granularity(c *checker) {
	c.each(func(n *graph.Node, form *qdq.QOperator) {
		for k, o := range form.Operands(len(n.Inputs)) {
			s, _ := c.input(n, o.Scale)
			z, _ := c.input(n, o.Zero)
			if s == nil || z == nil {
				continue
			}
			switch channels, known := c.channels(n, form); {
			case s.Len() != z.Len():
				c.report(n, "input %d has %d scales and %d zero points", o.X, s.Len(), z.Len())
			case s.Len() == 1:
			case form.Weights == 0 || k != form.Weights:
				c.report(n, "input %d has %d scales", o.X, s.Len())
			case known && int64(s.Len()) != channels:
				c.report(n, "%d scales for %d output channels", s.Len(), channels)
			case slices.ContainsFunc(z.Integers(), func(x int32) bool { return x != z.Integers()[0] }):
				c.report(n, "the zero points of the weights differ by channel")
			}
		}
	})
}

// channels returns the number of output channels of an operator with weights, if it is known.
func (c *checker) channels(n *graph.Node, form *qdq.QOperator) (int64, bool) {
	if form.Weights == 0 {
		return 0, false
	}
	shape := c.g.Value(n.Inputs[form.In[form.Weights].X]).Shape
	float := graph.Node{Op: form.Op, Attrs: n.Attrs}
	axis, ok := graph.OutAxis(&float, len(shape))
	if !ok || !shape[axis].Known() {
		return 0, false
	}
	return shape[axis].N, true
}

func biases(c *checker) {
	c.each(func(n *graph.Node, form *qdq.QOperator) {
		v := n.Input(form.Bias)
		if form.Bias == 0 || v == graph.NoValue {
			return
		}
		b, d := c.input(n, form.Bias)
		if d != tensor.Int32 {
			c.report(n, "the bias is %s", d)
		} else if m, known := c.channels(n, form); known && b != nil && int64(b.Len()) != m {
			c.report(n, "a bias of %d numbers for %d output channels", b.Len(), m)
		}
	})
}

func attributes(c *checker) {
	c.each(func(n *graph.Node, form *qdq.QOperator) {
		known := append([]string{"channels_last", "opset"}, form.Attrs...)
		for _, a := range n.Attrs {
			if !slices.Contains(known, a.Name) || n.Op == "QLinearAveragePool" && a.Name == "dilations" {
				c.report(n, "%s has no attribute %s", n.Op, a.Name)
			}
		}
		if n.Op == "QLinearSoftmax" && n.Attr("opset") == nil {
			c.report(n, "it does not say which opset its axis follows")
		}
	})
}

func blocks(c *checker) {
	for _, id := range c.order {
		n := c.g.Node(id)
		if n.Op != matMulNBits {
			continue
		}
		rows, k, width, block := n.AttrInt("N", 0), n.AttrInt("K", 0), n.AttrInt("bits", 4), n.AttrInt("block_size", 0)
		if rows < 1 || k < 1 || width != 4 && width != 8 || block < 16 || block&(block-1) != 0 {
			c.report(n, "N %d, K %d, %d bits, blocks of %d", rows, k, width, block)
			continue
		}
		perRow := (k + block - 1) / block
		for i, want := range []int64{1: rows * perRow * block * width / 8, 2: rows * perRow} {
			if t, _ := c.input(n, i); i > 0 && (t == nil || int64(t.Len()) != want) {
				c.report(n, "input %d is not a constant of %d elements", i, want)
			}
		}
		if t, _ := c.input(n, 3); n.Input(3) != graph.NoValue && (t == nil || int64(t.Len()) != rows*((perRow*width+7)/8)) {
			c.report(n, "the zero points are not a constant of %d bytes", rows*((perRow*width+7)/8))
		}
	}
}

// integers reports whether any operator of a graph is one on integers.
func integers(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes(), func(id graph.NodeID) bool {
		_, ok := qdq.QOperators[g.Node(id).Op]
		return ok || g.Node(id).Op == matMulNBits
	})
}

// warnings says what keeps its Q/DQ form.
func warnings(left []Left) []tqc.Warning {
	list := make([]tqc.Warning, 0, len(left))
	for _, l := range left {
		list = append(list, tqc.Warning{Node: l.Node, Text: fmt.Sprintf("keeps its Q/DQ form: %v", l.Why)})
	}
	return list
}
