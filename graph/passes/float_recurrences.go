package passes

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// FloatRecurrences writes DynamicQuantizeLSTM with constant weights as LSTM of dequantized factors: IntegerRecurrences' form, and that of
// onnxruntime.quantization. Where the directions of a bidirectional one have scales of their own for every row, each becomes an LSTM.
// It returns how many it wrote.
func FloatRecurrences(g *graph.Graph) (int, error) {
	written := 0
	for _, id := range g.Nodes() {
		n := *g.Node(id)
		if n.Op != "DynamicQuantizeLSTM" || n.Domain != microsoft {
			continue
		}
		r := &recurrence{g: g, n: n, w: &nodeWriter{g: g, name: n.Name}}
		if err := r.read(); err != nil {
			return written, g.ErrorAt("", id, err)
		}
		r.n.Outputs = readOutputs(g, &r.n)
		g.RemoveNode(id)
		if err := r.write(); err != nil {
			return written, g.ErrorAt("", id, err)
		}
		written++
	}
	return written, nil
}

// recurrence is one DynamicQuantizeLSTM. Of W and R there are the codes as LSTM has them, scales and zero points.
type recurrence struct {
	g           *graph.Graph
	n           graph.Node
	w           *nodeWriter
	codes       [2]*tensor.Tensor
	scale, zero [2]*tensor.Tensor
}

func (r *recurrence) read() error {
	for k, at := range []int{graph.WeightScaleInput, graph.RecurrenceScaleInput} {
		codes, s, z := r.g.Const(r.n.Input(1+k)), r.g.Const(r.n.Input(at)), r.g.Const(r.n.Input(at+1))
		if codes == nil || s == nil || z == nil {
			return errors.New("weights, scales and zero points that are not constant")
		}
		if !isByte(codes.DType) || len(codes.Shape) != 3 || s.DType != tensor.Float32 || z.DType != codes.DType || s.Len() == 0 || z.Len() == 0 {
			return fmt.Errorf("weights %s, scales %s and zero points %s", codes.Type(), s.Type(), z.Type())
		}
		dirs, rows := codes.Shape[0], codes.Shape[2]
		for _, t := range []*tensor.Tensor{s, z} {
			if t.Len() != dirs && t.Len() != dirs*rows {
				return fmt.Errorf("%s of scales or zero points for %d directions and %d rows", t.Type(), dirs, rows)
			}
		}
		r.codes[k], r.scale[k] = turnedStack(codes), s.ToRowMajor()
		zeros := make([]int32, s.Len())
		for i := range zeros {
			own := z.ToRowMajor().Integers()
			zeros[i] = own[i*len(own)/len(zeros)]
		}
		r.zero[k] = tensor.New(z.DType, s.Len()).WithIntegers(zeros)
	}
	return nil
}

// shared reports whether the directions have the same scales, or one each.
func (r *recurrence) shared() bool {
	for k := range r.codes {
		dirs := r.codes[k].Shape[0]
		s, z := r.scale[k].F32(), r.zero[k].Integers()
		if n := len(s) / dirs; n > 1 && dirs == 2 && (!slices.Equal(s[:n], s[n:]) || !slices.Equal(z[:n], z[n:])) {
			return false
		}
	}
	return true
}

func (r *recurrence) write() error {
	g, w := r.g, r.w
	x := g.Value(r.n.Inputs[0]).Shape
	add := func(d tensor.DType, what string, shape graph.Shape) graph.ValueID {
		v, err := g.AddValue(graph.Value{Name: g.FreshName(r.n.Name + what), DType: d, Shape: shape})
		if w.err == nil {
			w.err = err
		}
		return v
	}
	q, scale, zero := add(tensor.Uint8, "_data_codes", x), add(tensor.Float32, "_data_scale", graph.Shape{}),
		add(tensor.Uint8, "_data_zero_point", graph.Shape{})
	if w.err == nil {
		_, w.err = g.AddNode(graph.Node{Name: g.FreshName(r.n.Name + "_data_DynamicQuantizeLinear"), Op: "DynamicQuantizeLinear",
			Inputs: []graph.ValueID{r.n.Inputs[0]}, Outputs: []graph.ValueID{q, scale, zero}})
	}
	data := w.dequantized("_data", q, scale, zero, -1)
	if r.shared() {
		r.lstm(r.n.Name, data, 0, r.codes[0].Shape[0], r.n.Outputs)
		return w.err
	}
	var parts [2][]graph.ValueID
	for d := range parts {
		for _, v := range r.n.Outputs {
			part := graph.NoValue
			if v != graph.NoValue {
				part = add(tensor.Float32, []string{"_forward", "_reverse"}[d]+"_output", nil)
			}
			parts[d] = append(parts[d], part)
		}
		r.lstm(r.n.Name+[]string{"_forward", "_reverse"}[d], data, d, 1, parts[d])
	}
	for i, v := range r.n.Outputs {
		axis := int64(0)
		if i == 0 {
			axis = 1 // Y has the steps in front
		}
		if v != graph.NoValue {
			w.node("Concat", fmt.Sprintf("_joined_%d", i), []graph.Attr{graph.Int("axis", axis)}, v, parts[0][i], parts[1][i])
		}
	}
	return w.err
}

// lstm adds the LSTM of some directions, from one on.
func (r *recurrence) lstm(name string, data graph.ValueID, from, dirs int, outputs []graph.ValueID) {
	g, all := r.g, r.codes[0].Shape[0]
	inputs := slices.Clone(r.n.Inputs[:min(len(r.n.Inputs), graph.WeightScaleInput)])
	inputs[0] = data
	for k := range r.codes {
		inputs[1+k] = r.weights(k, from, dirs)
	}
	for i := 3; i < len(inputs); i++ {
		if inputs[i] != graph.NoValue && dirs < all && i != 4 {
			inputs[i] = r.part(inputs[i], from)
		}
	}
	n := graph.Node{Name: name, Op: "LSTM", Inputs: inputs, Outputs: outputs, Attrs: slices.Clone(r.n.Attrs)}
	if dirs < all {
		for i := range n.Attrs {
			switch a := &n.Attrs[i]; a.Name {
			case "direction":
				*a = graph.Str("direction", []string{"forward", "reverse"}[from])
			case "activations":
				if len(a.Strings) > 3 {
					a.Strings = a.Strings[3*from:][:3]
				}
			case "activation_alpha", "activation_beta":
				if len(a.Floats) > 0 && r.w.err == nil {
					r.w.err = errors.New("numbers of activations of a bidirectional LSTM whose directions have scales of their own")
				}
			}
		}
	}
	for len(n.Inputs) > 3 && n.Inputs[len(n.Inputs)-1] == graph.NoValue {
		n.Inputs = n.Inputs[:len(n.Inputs)-1]
	}
	if r.w.err == nil {
		_, r.w.err = g.AddNode(n)
	}
}

// part is one direction of an input with the directions in front.
func (r *recurrence) part(v graph.ValueID, d int) graph.ValueID {
	vector := func(x int64) graph.ValueID { return r.g.AddConst(r.n.Name+"_part", tensor.FromI64([]int64{x}, 1)) }
	if t := r.g.Const(v); t != nil && t.F32() != nil {
		size := t.Len() / t.Shape[0]
		own := slices.Clone(t.ToRowMajor().F32()[d*size:][:size])
		return r.g.AddConst(r.n.Name+"_part", tensor.FromF32(own, append([]int{1}, t.Shape[1:]...)...))
	}
	return r.w.value("Slice", fmt.Sprintf("_part_%d_%d", v, d), tensor.Float32, nil, nil, v, vector(int64(d)), vector(int64(d+1)), vector(0))
}

// weights adds the DequantizeLinear of W or R for some directions.
func (r *recurrence) weights(k, from, dirs int) graph.ValueID {
	codes, s, z := r.codes[k], r.scale[k].F32(), r.zero[k].Integers()
	all := codes.Shape[0]
	size, per := codes.Len()/all, len(s)/all
	s, z = s[from*per:][:dirs*per], z[from*per:][:dirs*per]
	axis := 1
	if per == 1 {
		axis = 0
	} else {
		s, z = s[:per], z[:per] // those that all directions have
	}
	one := !slices.ContainsFunc(s, func(x float32) bool { return x != s[0] }) &&
		!slices.ContainsFunc(z, func(x int32) bool { return x != z[0] })
	name := fmt.Sprintf("%s_%s", r.n.Name, []string{"W", "R"}[k])
	shape := []int{len(s)}
	if one && per == 1 {
		s, z, shape, axis = s[:1], z[:1], nil, -1
	}
	part := tensor.New(codes.DType, dirs, codes.Shape[1], codes.Shape[2]).WithIntegers(codes.Integers()[from*size:][:dirs*size])
	return r.w.dequantized(fmt.Sprintf("_%s_%d", []string{"W", "R"}[k], from), r.g.AddConst(name, part),
		r.g.AddConst(name+"_scale", tensor.FromF32(slices.Clone(s), shape...)),
		r.g.AddConst(name+"_zero_point", tensor.New(codes.DType, shape...).WithIntegers(z)), axis)
}
