package onnxqdq

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/qdq"
)

// outputs makes the model return the codes of the plan, where an output is dequantized ones.
func (b *builder) outputs(o *Options) error {
	if o.Outputs != "integers" {
		return nil
	}
	done := 0
	for _, v := range b.g.Outputs {
		ok, err := b.givesCodes(v)
		if err != nil {
			return err
		}
		if ok {
			done++
		}
	}
	if done == 0 {
		v, made := b.g.Outputs[0], "no operator"
		if p := b.g.Producer(v); p != graph.NoNode {
			made = fmt.Sprintf("node %q (%s)", b.g.Node(p).Name, b.g.Node(p).Op)
		}
		return fmt.Errorf("no output of the model is dequantized from 8 or 16 bits: none can be integers (%q comes from %s, in float)",
			b.g.Value(v).Name, made)
	}
	return nil
}

// givesCodes lets an output be the codes that a DequantizeLinear at the end reads, at once or in front of what moves its elements, and
// reports whether it can be. Who else reads the numbers reads them as NAME_DequantizeLinear.
func (b *builder) givesCodes(v graph.ValueID) (bool, error) {
	path := b.g.HandedOn(v) // from the output to what DequantizeLinear gives
	numbers := path[len(path)-1]
	p := b.g.Producer(numbers)
	if p == graph.NoNode || b.g.Captured(v) || len(path) > 1 && len(b.g.Uses(v)) > 0 {
		return false, nil
	}
	dq := b.g.Node(p)
	if !is(dq, dequantizeLinear) || b.g.Const(dq.Inputs[0]) != nil || b.g.Const(dq.Input(1)) == nil || b.g.Const(dq.Input(1)).Len() != 1 {
		return false, nil
	}
	codes := dq.Inputs[0]
	d := b.g.Value(codes).DType
	if !slices.Contains(codeTypes, d) || b.g.IsOutput(codes) || b.g.IsInput(codes) {
		return false, nil
	}
	for _, u := range path[1:] {
		if _, sole := b.g.SoleUse(u); !sole && u != numbers || b.g.IsOutput(u) || b.g.Captured(u) {
			return false, nil
		}
	}
	if len(path) > 1 {
		for _, u := range path[:len(path)-1] {
			b.g.Value(u).DType = d
		}
		b.g.SetInput(b.g.Producer(path[len(path)-2]), 0, codes)
	} else if err := b.renamed(p, v, codes); err != nil {
		return false, err
	}
	if out := dq.Outputs[0]; len(b.g.Uses(out)) == 0 {
		b.g.RemoveNode(p)
	}
	return true, nil
}

// renamed gives the name of an output, which DequantizeLinear p computes, to the codes that it reads.
func (b *builder) renamed(p graph.NodeID, v, codes graph.ValueID) error {
	of := *b.g.Value(v)
	of.Name = b.g.FreshName(of.Name + "_DequantizeLinear")
	numbers, err := b.g.AddValue(of)
	if err == nil {
		err = b.g.SetOutput(p, 0, numbers)
	}
	if err != nil {
		return err
	}
	b.g.ReplaceUses(v, numbers)
	b.g.Value(v).DType = b.g.Value(codes).DType
	made := b.g.Producer(codes)
	if err := b.g.SetOutput(made, slices.Index(b.g.Node(made).Outputs, codes), v); err != nil {
		return err
	}
	b.g.ReplaceUses(codes, v)
	b.g.RemoveValue(codes)
	return nil
}

// floatOutputs undoes what givesCodes did, so that the graph returns what the plan's returns.
func (r *recoverer) floatOutputs() error {
	for _, v := range r.g.Outputs {
		of, ok := r.plan.Lookup(r.g.Value(v).Name)
		d := r.g.Value(v).DType
		if !ok || r.plan.Value(of).DType != tensor.Float32 || !slices.Contains(codeTypes, d) {
			continue
		}
		scale, zero := r.gridBehind(v)
		p := r.g.Producer(v)
		if scale == graph.NoValue || p == graph.NoNode {
			continue // codes of nothing: the comparison says so
		}
		w := &graph.NodeWriter{G: r.g, Name: r.g.Value(v).Name}
		codes := w.Value("codes", d, r.g.Value(v).Shape)
		if w.Err == nil {
			w.Err = r.g.SetOutput(p, slices.Index(r.g.Node(p).Outputs, v), codes)
		}
		r.g.ReplaceUses(v, codes)
		r.g.Value(v).DType = tensor.Float32
		if w.Add(dequantizeLinear, []graph.ValueID{codes, scale, zero}, v); w.Err != nil {
			return w.Err
		}
	}
	return nil
}

// gridBehind is the scale and zero point by which codes were made.
func (r *recoverer) gridBehind(v graph.ValueID) (scale, zero graph.ValueID) {
	for p := r.g.Producer(v); p != graph.NoNode; p = r.g.Producer(r.g.Node(p).Input(0)) {
		n := r.g.Node(p)
		if is(n, quantizeLinear) {
			return n.Input(1), n.Input(2)
		}
		if form, ok := qdq.QOperators[n.Op]; ok {
			return n.Input(form.Out[0]), n.Input(form.Out[1])
		}
	}
	return graph.NoValue, graph.NoValue
}
