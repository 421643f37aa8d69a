package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// written returns g with a Q/DQ pair at every slot that quantizes, as an exporter writes it: at an input for this reader alone,
// at an output for all readers. Integer biases are initializers with a DQ.
func written(t testing.TB, g *graph.Graph, set *tqc.Set) *graph.Graph {
	c := g.Clone()
	for id := range tqc.SlotID(set.NumSlots()) {
		sl := set.Slot(id)
		if !sl.State().Quantizes() {
			continue
		}
		v := sl.Value
		if sl.Weight && sl.Config.QMin != -128 { // QuantizeLinear would not stop at -127, and does not make int32
			c.SetInput(sl.Node, sl.Index, pair(t, c, g, set, sl, graph.NoValue, codes(g, set, sl)))
			continue
		}
		if sl.Kind == tqc.Input {
			c.SetInput(sl.Node, sl.Index, pair(t, c, g, set, sl, v, nil))
			continue
		}
		raw, err := c.AddValue(graph.Value{DType: tensor.Float32, Shape: g.Value(v).Shape})
		require.NoError(t, err)
		require.NoError(t, c.SetOutput(sl.Node, sl.Index, raw))
		d := pair(t, c, g, set, sl, raw, nil)
		require.NoError(t, c.SetOutput(c.Producer(d), 0, v))
	}
	require.NoError(t, c.Check())
	return c
}

// codes returns the integers of a parameter.
func codes(g *graph.Graph, set *tqc.Set, sl *tqc.Slot) *tensor.Tensor {
	w, p := g.Const(sl.Value), set.Params(sl.ID)
	outer, n, inner := 1, 1, w.Len()
	if sl.Config.Policy.Has(tqc.PerChannel) {
		outer, n, inner = w.Blocks(sl.Config.Axis)
	}
	if sl.Config.Bits == 32 {
		q := tensor.New(tensor.Int32, w.Shape...)
		for i, x := range w.F32() {
			tensor.Of[int32](q)[i], _ = qmath.QuantizeBias(x, p.Scale[i/inner%n])
		}
		return q
	}
	d := tensor.Int8
	if !sl.Config.Signed() {
		d = tensor.Uint8
	}
	q := tensor.New(d, w.Shape...)
	for i := range outer * n * inner {
		code := p.Grid(&sl.Config, i/inner%n).Quantize(w.F32()[i])
		if d == tensor.Int8 {
			tensor.Of[int8](q)[i] = int8(code)
		} else {
			tensor.Of[uint8](q)[i] = uint8(code)
		}
	}
	return q
}

// pair adds Q and DQ behind raw, or a DQ behind the integers codes, and returns the DQ's output.
func pair(t testing.TB, c, g *graph.Graph, set *tqc.Set, sl *tqc.Slot, raw graph.ValueID, codes *tensor.Tensor) graph.ValueID {
	p := set.Params(sl.ID)
	dt, shape := tensor.Int8, []int{}
	if !sl.Config.Signed() {
		dt = tensor.Uint8
	}
	if codes != nil {
		dt = codes.DType
	}
	if sl.Config.Policy.Has(tqc.PerChannel) {
		shape = []int{len(p.Scale)}
	}
	zero := tensor.New(dt, shape...)
	for i, z := range p.ZeroPoint {
		switch d := zero.Data.(type) {
		case []int8:
			d[i] = int8(z)
		case []uint8:
			d[i] = uint8(z)
		case []int32:
			d[i] = z
		}
	}
	scale := c.AddConst("scale", tensor.FromF32(p.Scale, shape...))
	z := c.AddConst("zero", zero)
	axis := graph.Int("axis", int64(sl.Config.Axis))
	var q graph.ValueID
	var err error
	if codes != nil {
		q = c.AddConst("codes", codes)
	} else {
		q, err = c.AddValue(graph.Value{DType: dt, Shape: g.Value(sl.Value).Shape})
		require.NoError(t, err)
		_, err = c.AddNode(graph.Node{Name: c.FreshName("q"), Op: "QuantizeLinear", Attrs: []graph.Attr{axis},
			Inputs: []graph.ValueID{raw, scale, z}, Outputs: []graph.ValueID{q}})
		require.NoError(t, err)
	}
	d, err := c.AddValue(graph.Value{DType: tensor.Float32, Shape: g.Value(sl.Value).Shape})
	require.NoError(t, err)
	_, err = c.AddNode(graph.Node{Name: c.FreshName("dq"), Op: "DequantizeLinear", Attrs: []graph.Attr{axis},
		Inputs: []graph.ValueID{q, scale, z}, Outputs: []graph.ValueID{d}})
	require.NoError(t, err)
	return d
}
