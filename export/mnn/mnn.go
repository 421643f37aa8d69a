// Package mnn writes what MNNConvert needs to make a model on integers: the float model as ONNX, and its compression parameters as JSON.
//
// Field names are those of MNN's tools/converter/source/compression/MNN_compression.proto, in the JSON form of protobuf.
//
// Unstable: it may change without notice.
package mnn

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

const stage = "export mnn"

// version is that of the converter whose fields these are.
const version = "3.6.1"

// Suffix is what the name of the parameters has behind that of the model.
const Suffix = ".mnn.json"

// Format is a float model whose weights are those that the integers stand for,
// and beside it the parameters of every convolution on integers:
//
//	mnnconvert -f ONNX --modelFile m.onnx --MNNModel m.mnn --compressionParamsFile m.onnx.mnn.json
func Format() export.Format {
	return export.Format{Name: "mnn", Doc: "a float ONNX model, and beside it the compression parameters that MNNConvert reads, FILE" +
		Suffix, Ext: ".onnx",
		From: export.Plan, Targets: []string{"mnn_int8"}, Options: []export.Option{export.ExternalAbove, export.DocString},
		Note:  "mnnconvert -f ONNX --modelFile FILE --MNNModel FILE.mnn --compressionParamsFile FILE" + Suffix,
		Write: write, Rules: rules(), Doctor: doctor, Back: back}
}

// pipeline is the message Pipeline and what is in it.
type pipeline struct {
	Version string `json:"version"`
	Algo    []algo `json:"algo"`
}

type algo struct {
	Type   string   `json:"type"`
	Params quantize `json:"quantParams"`
}

type quantize struct {
	Round string  `json:"roundMode"`
	Layer []layer `json:"layer"`
}

type layer struct {
	Input  []scaled `json:"input"`
	Weight []scaled `json:"weight"`
	Output []scaled `json:"output"`
	Method string   `json:"method"`
	Name   string   `json:"opName"`
}

// scaled is ActivationParams, or WeightParams.
type scaled struct {
	Name      string    `json:"name"`
	Bits      int       `json:"bits"`
	Scales    []float32 `json:"scales"`
	ZeroPoint *int      `json:"zeroPoint,omitempty"` // of activations
	Min       int32     `json:"clampMin"`
	Max       int32     `json:"clampMax"`
}

func write(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	m, p, err := build(in)
	if err != nil {
		return nil, err
	}
	if err := export.WriteModel(m, in, out); err != nil {
		return nil, err
	}
	out.Figure("layers", int64(len(p.Algo[0].Params.Layer)))
	return pooled(in.Model.Graph, in.Set), out.Write(out.Name()+Suffix, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(p)
	})
}

// pooled warns of maximum pools before a convolution on integers: MNN takes the scale of its input for them too, and MNN 3.6.1 on x86 was
// found to compute other numbers then (examples/engines/mnn_int8.py: squeezenet, cnn_mnist).
func pooled(g *graph.Graph, set *tqc.Set) []tqc.Warning {
	for _, id := range g.Nodes() {
		if g.Node(id).Op != "Conv" || set.Domains[id] != tqc.DomainInt {
			continue
		}
		p := g.Producer(g.Node(id).Inputs[0])
		for p != graph.NoNode && (g.Node(p).Op == "Relu" || g.Node(p).Op == "Clip") {
			p = g.Producer(g.Node(p).Inputs[0])
		}
		if p != graph.NoNode && g.Node(p).Op == "MaxPool" {
			return []tqc.Warning{{Node: g.Node(p).Name,
				Text: "MNN computes a MaxPool before a convolution on integers on integers too, and MNN 3.6.1 on x86 gives wrong numbers there: " +
					"compare on the device, or keep the convolution in float (qwb dispatch --fp32)"}}
		}
	}
	return nil
}

// build returns the model with the numbers that weights stand for, and the parameters.
func build(in *export.Input) (*onnx.Model, *pipeline, error) {
	b := &builder{g: in.Model.Graph.Clone(), set: in.Set}
	order, err := b.g.Order()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", stage, err)
	}
	p := &pipeline{Version: version, Algo: []algo{{Type: "QUANTIZE", Params: quantize{Round: "ROUND_AWAY_FROM_ZERO", Layer: []layer{}}}}}
	for _, id := range order {
		if b.set.Domains[id] != tqc.DomainInt || b.g.Node(id).Op != "Conv" {
			continue
		}
		l, err := b.conv(id, order)
		if err != nil {
			return nil, nil, b.g.ErrorAt(stage, id, err)
		}
		p.Algo[0].Params.Layer = append(p.Algo[0].Params.Layer, *l)
	}
	if b.g.Name == "" {
		b.g.Name = "main" // ONNX wants a name
	}
	out := in.Model.WithGraph(b.g)
	out.ProducerName, out.ProducerVersion, out.IRVersion = in.Producer, in.Version, 0
	return out, p, nil
}

type builder struct {
	g   *graph.Graph
	set *tqc.Set
}

// conv returns the parameters of a convolution. MNN finds it by the tensor that it computes together with its activation.
func (b *builder) conv(id graph.NodeID, order []graph.NodeID) (*layer, error) {
	n := b.g.Node(id)
	nodes := b.set.Together(id, order)
	last := nodes[len(nodes)-1]
	x, err := b.activation(b.set.Input(id, 0))
	if err != nil {
		return nil, err
	}
	y, err := b.activation(b.set.Output(last, 0))
	if err != nil {
		return nil, err
	}
	w, err := b.weight(id)
	if err != nil {
		return nil, err
	}
	return &layer{Input: []scaled{*x}, Weight: []scaled{*w}, Output: []scaled{*y}, Method: "QAT", Name: n.Name}, nil
}

// activation is the form of a tensor between operators.
func (b *builder) activation(slot tqc.SlotID) (*scaled, error) {
	// Where the tensor is quantized already by who computes it, the slot is governed by that one.
	if slot == tqc.NoSlot || b.set.Slot(slot).State() == tqc.FP32 || !b.set.Params(slot).Ready() {
		return nil, fmt.Errorf("a tensor at the convolution is not quantized: MNN wants integers on both sides")
	}
	c, p := &b.set.Slot(slot).Config, b.set.Params(slot)
	if err := simple(c); err != nil {
		return nil, err
	}
	zero := int(p.ZeroPoint[0])
	return &scaled{Name: b.g.Value(b.set.Slot(slot).Value).Name, Bits: c.Bits, Scales: p.Scale[:1], ZeroPoint: &zero, Min: c.QMin,
		Max: c.QMax}, nil
}

func simple(c *tqc.Config) error {
	if s, err := tqc.SchemeOf(*c); err != nil || c.Type != qmath.Integers || c.Bits != 8 || s.Unsigned || s.Dynamic || s.Group > 0 {
		return fmt.Errorf("scheme %s: MNN has int8 with a scale for each tensor, or for each channel of weights", s)
	}
	return nil
}

// weight writes the numbers that the integers of a weight stand for into the model, and returns scales, one for each output channel.
func (b *builder) weight(id graph.NodeID) (*scaled, error) {
	slot := b.set.Input(id, 1)
	if slot == tqc.NoSlot || !b.set.Slot(slot).State().Quantizes() {
		return nil, fmt.Errorf("its weights are not quantized")
	}
	c, p := b.set.Slot(slot).Config, b.set.Params(slot)
	if err := simple(&c); err != nil {
		return nil, err
	}
	w := b.g.Const(b.g.Node(id).Inputs[1]).ToRowMajor()
	back := tensor.New(tensor.Float32, w.Shape...)
	codes := make([]int32, w.Len())
	err := tqc.Runs(w, &c, p, func(from, to int, codec qmath.Codec) bool {
		codec.QuantizeSlice(codes[from:to], w.F32()[from:to])
		codec.DequantizeSlice(back.F32()[from:to], codes[from:to])
		return true
	})
	if err != nil {
		return nil, err
	}
	b.g.OwnConst(id, 1, back)
	scales := p.Scale
	for len(scales) < w.Shape[0] { // one for all
		scales = append(scales[:len(scales):len(scales)], p.Scale[0])
	}
	return &scaled{Name: b.g.Value(b.g.Node(id).Inputs[1]).Name, Bits: c.Bits, Scales: scales, Min: c.QMin, Max: c.QMax}, nil
}

func rules() []export.Rule {
	const again = "export again, and keep the two files together"
	return []export.Rule{
		{Name: "method", Doc: "there is one algorithm, QUANTIZE", Fix: again},
		{Name: "layers", Doc: "the output of every layer is a tensor that a convolution of the model, or an activation behind one, " +
			"computes, each once", Fix: again},
		{Name: "scales", Doc: "there is one scale for input and output each, and one for each output channel of the weights, all " +
			"positive numbers", Fix: again},
		{Name: "clamp", Doc: "integers have 8 bits and go from clampMin to clampMax, with the zero point between them", Fix: again},
		{Name: "one-grid", Doc: "a tensor has the same scale and zero point wherever it stands: MNN keeps the first",
			Fix: "give the tensor one scale (qwb set)"},
	}
}

// doctor reads the model and the parameters beside it.
func doctor(_ context.Context, in *export.DoctorInput) (list []export.Finding, err error) {
	text, err := fs.ReadFile(in.FS, in.Name+Suffix)
	if err != nil {
		return nil, err
	}
	var p pipeline
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("mnn: %s: %w", in.Name+Suffix, err)
	}
	m, err := in.Model()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	report := func(rule, node, format string, a ...any) {
		list = append(list, export.Finding{Rule: rule, Node: node, Text: fmt.Sprintf(format, a...)})
	}
	if len(p.Algo) != 1 || p.Algo[0].Type != "QUANTIZE" {
		report("method", "", "%d algorithms", len(p.Algo))
	}
	seen := map[string]bool{}
	grids := map[string]string{}
	for _, a := range p.Algo {
		for i := range a.Params.Layer {
			l := &a.Params.Layer[i]
			if len(l.Input) != 1 || len(l.Output) != 1 || len(l.Weight) != 1 {
				report("layers", l.Name, "%d inputs, %d weights, %d outputs", len(l.Input), len(l.Weight), len(l.Output))
				continue
			}
			channels := outputs(m.Graph, l.Output[0].Name)
			if channels < 0 || seen[l.Output[0].Name] {
				report("layers", l.Name, "%q is no such tensor, or stands twice", l.Output[0].Name)
				continue
			}
			seen[l.Output[0].Name] = true
			for k, s := range []scaled{l.Input[0], l.Weight[0], l.Output[0]} {
				want := 1
				if k == 1 {
					want = channels
				}
				if len(s.Scales) != want || !positive(s.Scales) {
					report("scales", l.Name, "%q has %d scales for %d, or one that is no positive number", s.Name, len(s.Scales), want)
				}
				zero := 0
				if s.ZeroPoint != nil {
					zero = *s.ZeroPoint
				}
				if s.Bits != 8 || s.Min < -128 || s.Max > 127 || int32(zero) < s.Min || int32(zero) > s.Max {
					report("clamp", l.Name, "%q has %d bits from %d to %d around %d", s.Name, s.Bits, s.Min, s.Max, zero)
				}
				if k == 1 {
					continue
				}
				grid := fmt.Sprint(s.Scales, zero, s.Min, s.Max)
				if before, ok := grids[s.Name]; ok && before != grid {
					report("one-grid", l.Name, "%q: %s, and %s elsewhere", s.Name, grid, before)
				}
				grids[s.Name] = grid
			}
		}
	}
	return list, nil
}

func positive(list []float32) bool {
	for _, s := range list {
		if !(s > 0) || math.IsInf(float64(s), 0) {
			return false
		}
	}
	return true
}

// outputs is how many channels the convolution has that computes a tensor, itself or before an activation; -1 where there is none.
func outputs(g *graph.Graph, name string) int {
	v, ok := g.Lookup(name)
	for range 9 {
		p := graph.NoNode
		if ok {
			p = g.Producer(v)
		}
		if p == graph.NoNode {
			return -1
		}
		n := g.Node(p)
		if n.Op == "Conv" {
			if s := g.Value(n.Inputs[1]).Shape; len(s) > 0 {
				return int(s[0].N)
			}
			return -1
		}
		if strings.HasSuffix(n.Op, "Pool") || len(n.Inputs) == 0 {
			return -1
		}
		v = n.Inputs[0]
	}
	return -1
}
