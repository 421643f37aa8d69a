// Package graphjson writes the configured graph as JSON: every tensor with its encoding, every operator with its domain and its slots.
//
// Unstable: it may change without notice.
package graphjson

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/internal/strictjson"
	"qwb/quantizer/tqc"
)

// Document is the file. Names are those of the model in its normal form.
type Document struct {
	Format   string   `json:"format"` // "qwb graph 1"
	Model    string   `json:"model"`
	Platform string   `json:"platform"`
	Profile  string   `json:"profile"`
	Opset    int64    `json:"opset"`
	Inputs   []string `json:"inputs"`
	Outputs  []string `json:"outputs"`
	Tensors  []Tensor `json:"tensors"` // each once, in the order in which nodes read and compute them
	Nodes    []Node   `json:"nodes"`   // in an order in which they can run
}

// Tensor is a value of the graph.
type Tensor struct {
	Name     string  `json:"name"`
	DType    string  `json:"dtype"`
	Shape    []int64 `json:"shape"` // -1: open
	Constant bool    `json:"constant"`
}

// Node is an operator.
type Node struct {
	Name    string   `json:"name"`
	Op      string   `json:"op"` // DOMAIN::NAME of other domains than ai.onnx
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
	Domain  string   `json:"domain"` // where it is computed: INT8, FP32, ...
	Why     string   `json:"why"`
	With    string   `json:"with"` // the operator that it is computed together with; empty: alone
	Slots   []Slot   `json:"slots"`
}

// Slot is the configuration of one input or output. Scales and zero points stand where it governs itself.
type Slot struct {
	At     string     `json:"at"` // in0, out0
	Tensor string     `json:"tensor"`
	State  string     `json:"state"`
	Root   string     `json:"root"` // NODE.in0 of the slot whose scale it has
	Config tqc.Config `json:"config"`
	Scale  []float64  `json:"scale"`
	Zero   []int32    `json:"zero_point"`
}

const version = "qwb graph 1"

var rules = []export.Rule{
	{Name: "once", Doc: "tensors and nodes stand once", Fix: "take the second one away"},
	{Name: "tensor", Doc: "what nodes and slots name is a tensor of the file", Fix: "write the tensor"},
	{Name: "root", Doc: "the root of a slot is a slot of the file that has a scale, where the slot quantizes",
		Fix: "write the slot that governs"},
	{Name: "state", Doc: "states and domains are those of plans", Fix: "write a state that plans know"},
	{Name: "scale", Doc: "scales are positive and finite, zero points within the integers, as many as scales", Fix: "export the plan again"},
}

// Format is the configured graph in one file.
func Format() export.Format {
	return export.Format{Name: "json", Doc: "the configured graph as JSON: tensors, operators, slots with states and scales", Ext: ".json",
		From: export.Plan, Write: write, Back: back, Rules: rules, Doctor: doctor}
}

func write(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	d, err := describe(in)
	if err != nil {
		return nil, err
	}
	return nil, out.Write(out.Name(), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(d)
	})
}

func describe(in *export.Input) (*Document, error) {
	g := in.Model.Graph
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("export json: %w", err)
	}
	d := &Document{Format: version, Model: in.Title, Platform: in.Target.Name, Profile: in.Target.Profile, Opset: g.Opset(""),
		Inputs: []string{}, Outputs: []string{}}
	seen := map[graph.ValueID]bool{}
	name := func(v graph.ValueID) string {
		if v == graph.NoValue {
			return ""
		}
		val := g.Value(v)
		if !seen[v] {
			seen[v] = true
			t := Tensor{Name: val.Name, DType: val.DType.String(), Shape: []int64{}, Constant: g.Const(v) != nil}
			for _, n := range val.Shape {
				if !n.Known() {
					n.N = -1
				}
				t.Shape = append(t.Shape, n.N)
			}
			d.Tensors = append(d.Tensors, t)
		}
		return val.Name
	}
	for _, v := range g.Inputs {
		if g.Const(v) == nil {
			d.Inputs = append(d.Inputs, name(v))
		}
	}
	at := func(s tqc.SlotID) string {
		slot := in.Set.Slot(s)
		return fmt.Sprintf("%s%d", slot.Kind, slot.Index)
	}
	for _, id := range order {
		n := g.Node(id)
		node := Node{Name: n.Name, Op: n.Op, Inputs: []string{}, Outputs: []string{}, Domain: in.Set.Domains[id].String(), Why: in.Set.Why[id],
			Slots: []Slot{}}
		if !n.IsONNX() {
			node.Op = n.Domain + "::" + n.Op
		}
		if with := in.Set.Fused[id]; with != graph.NoNode {
			node.With = g.Node(with).Name
		}
		for _, v := range n.Inputs {
			node.Inputs = append(node.Inputs, name(v))
		}
		for _, v := range n.Outputs {
			node.Outputs = append(node.Outputs, name(v))
		}
		for _, s := range slices.Concat(in.Set.Inputs(id), in.Set.Outputs(id)) {
			if s == tqc.NoSlot || in.Set.Slot(s).State() == tqc.FP32 {
				continue
			}
			slot, root := in.Set.Slot(s), in.Set.Root(s)
			o := Slot{At: at(s), Tensor: g.Value(slot.Value).Name, State: slot.State().String(), Root: g.Node(in.Set.Slot(root).Node).Name +
				"." + at(root),
				Config: slot.Config, Scale: []float64{}, Zero: []int32{}}
			if root == s {
				for _, x := range in.Set.Params(s).Scale {
					o.Scale = append(o.Scale, float64(x))
				}
				o.Zero = append(o.Zero, in.Set.Params(s).ZeroPoint...)
			}
			node.Slots = append(node.Slots, o)
		}
		d.Nodes = append(d.Nodes, node)
	}
	for _, v := range g.Outputs {
		d.Outputs = append(d.Outputs, name(v))
	}
	return d, nil
}

// doctor reads the file by itself: no model is at hand.
func doctor(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
	b, err := in.Bytes()
	if err != nil {
		return nil, err
	}
	var d Document
	if err := strictjson.Decode(in.Name, b, &d); err != nil {
		return nil, err
	}
	if d.Format != version {
		return nil, fmt.Errorf("format %q, this program reads %q", d.Format, version)
	}
	var found []export.Finding
	report := func(rule, node, format string, args ...any) {
		found = append(found, export.Finding{Rule: rule, Node: node, Text: fmt.Sprintf(format, args...)})
	}
	tensors, nodes, roots := map[string]bool{"": true}, map[string]bool{}, map[string]*Slot{}
	for _, t := range d.Tensors {
		if tensors[t.Name] {
			report("once", t.Name, "it stands twice among the tensors")
		}
		tensors[t.Name] = true
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if nodes[n.Name] {
			report("once", n.Name, "it stands twice among the nodes")
		}
		nodes[n.Name] = true
		for k := range n.Slots {
			roots[n.Name+"."+n.Slots[k].At] = &n.Slots[k]
		}
	}
	for _, n := range d.Nodes {
		for _, name := range slices.Concat(n.Inputs, n.Outputs) {
			if !tensors[name] {
				report("tensor", n.Name, "%q is no tensor of the file", name)
			}
		}
		var domain tqc.Domain
		if err := domain.UnmarshalText([]byte(n.Domain)); err != nil {
			report("state", n.Name, "%v", err)
		}
		for _, s := range n.Slots {
			var state tqc.State
			if err := state.UnmarshalText([]byte(s.State)); err != nil {
				report("state", n.Name, "%s: %v", s.At, err)
			}
			if !tensors[s.Tensor] {
				report("tensor", n.Name, "%s: %q is no tensor of the file", s.At, s.Tensor)
			}
			if r := roots[s.Root]; r == nil || len(r.Scale) == 0 && state.Quantizes() && !s.Config.RunTime() {
				report("root", n.Name, "%s: no slot %q with a scale", s.At, s.Root)
			}
			if len(s.Scale) != len(s.Zero) {
				report("scale", n.Name, "%s: %d scales and %d zero points", s.At, len(s.Scale), len(s.Zero))
				continue
			}
			for i, x := range s.Scale {
				if !(x > 0) || math.IsInf(x, 0) || s.Zero[i] < s.Config.QMin || s.Zero[i] > s.Config.QMax {
					report("scale", n.Name, "%s: scale %g and zero point %d of [%d, %d]", s.At, x, s.Zero[i], s.Config.QMin, s.Config.QMax)
					break
				}
			}
		}
	}
	return found, nil
}
