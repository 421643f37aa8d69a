package onnxqdq

import (
	"strings"

	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
)

// narrowed returns the type that a node of the file computes in, Undefined for float32. Nodes that raising the opset put in belong to the one
// whose name theirs begins with.
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
		if d := b.set.Domains[id].Half(); d != tensor.Undefined {
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
	if form == "rounded" {
		narrowing = passes.Rounded
	}
	return passes.Narrow(b.g, narrowing, func(id graph.NodeID) tensor.DType { return b.narrowed(b.g.Node(id)) })
}
