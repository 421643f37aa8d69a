package onnxqdq

import (
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
)

// narrowed returns the type that a node of the file computes in, Undefined for float32. Nodes that raising the opset put in belong to the
// one whose name theirs begins with.
func (b *builder) narrowed(n *graph.Node) tensor.DType {
	if is(n, quantizeLinear, dequantizeLinear) {
		return tensor.Undefined
	}
	id, ok := b.src.LookupNode(n.Name)
	if i := strings.LastIndexByte(n.Name, '/'); !ok && i > 0 {
		id, ok = b.src.LookupNode(n.Name[:i])
	}
	if !ok {
		return tensor.Undefined
	}
	return b.set.Domains[id].Half()
}

// needHalves asks for the opset that has narrow forms of all operators that are to have one, where the target's readers know it.
func (b *builder) needHalves(form string) {
	if form == "rounded" || form == "float32" {
		return
	}
	for _, id := range b.src.Nodes() {
		if d := b.set.Domains[id].Half(); d != tensor.Undefined && (d != tensor.BFloat16 || !onRuntime(b.t)) {
			if since := passes.NarrowSince(b.src.Node(id), d); since <= passes.MaxOpset && reads(b.t, since) {
				b.need = max(b.need, since)
			}
		}
	}
}

// halves writes operators of the domains fp16 and bf16.
func (b *builder) halves(form string) error {
	any := false
	for _, id := range b.src.Nodes() {
		any = any || b.set.Domains[id].Half() != tensor.Undefined
	}
	if !any || form == "float32" {
		return nil
	}
	graph.InferShapes(b.g)
	narrowing := passes.Typed
	switch {
	case form == "rounded":
		narrowing = passes.Rounded
	case onRuntime(b.t):
		narrowing = passes.RoundedBrain
	}
	return passes.Narrow(b.g, narrowing, func(id graph.NodeID) tensor.DType { return b.narrowed(b.g.Node(id)) })
}

// movers are operators that ONNX Runtime's CPU provider has for every type of tensor: its own list, without
// Dropout.
var movers = []string{"Cast", "CastLike", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Gather",
	"Slice", "Split", "Shape", "Size", "If", "Loop", "Scan", "Constant"}

var brainRule = rule{Name: "bf16", meaning: true, Doc: "no operator computes in bfloat16, for which ONNX Runtime's CPU provider " +
	"has no kernels", Fix: "write float32 that pairs of Casts round: export with --half rounded",
	applies: onRuntime, check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if is(n, movers...) {
				return
			}
			for _, v := range append(slices.Clone(n.Inputs), n.Outputs...) {
				if v != graph.NoValue && c.g.Value(v).DType == tensor.BFloat16 {
					c.report(n, "%s of bfloat16", n.Op)
					return
				}
			}
		})
	}}
