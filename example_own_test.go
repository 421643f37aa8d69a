package qwb_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"

	"qwb"
	"qwb/analysis"
	"qwb/calib/data/npy"
	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/observers"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// swoosh is an operator that ONNX does not have: x * sigmoid(slope * x), element by element.
var swoosh = &graph.Operator{
	OpSpec: graph.OpSpec{Domain: "acme", Name: "Swoosh", Doc: "x * sigmoid(slope * x)", Since: 1, MinIn: 1,
		Infer: func(c *graph.InferCtx) error { c.SetOut(0, c.DType(0), c.Shape(0)); return nil }},
	Eval: func(n *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		slope := float64(n.AttrFloat("slope", 1))
		out := in[0].Clone()
		for i, x := range out.F32() {
			out.F32()[i] = float32(float64(x) / (1 + math.Exp(-slope*float64(x))))
		}
		return []*tensor.Tensor{out}, nil
	},
}

// flip reverses the order of channels: every element of its output is one of its input.
var flip = &graph.Operator{
	OpSpec: graph.OpSpec{Domain: "acme", Name: "Flip", Doc: "channels in reverse order", Since: 1, MinIn: 1,
		Infer:   func(c *graph.InferCtx) error { c.SetOut(0, c.DType(0), c.Shape(0)); return nil },
		Passive: func(*graph.Graph, *graph.Node) bool { return true }},
	Eval: func(_ *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		out := in[0].Clone()
		outer, channels, inner := in[0].Blocks(1)
		for o := range outer {
			for c := range channels {
				copy(out.F32()[(o*channels+c)*inner:][:inner], in[0].F32()[(o*channels+channels-1-c)*inner:][:inner])
			}
		}
		return []*tensor.Tensor{out}, nil
	},
}

// deviations is an observer: the mean of the values and so many standard deviations on both sides.
var deviations = &observers.Method{
	Name: "acme/deviations", Doc: "three standard deviations around the mean, or as many as stand in parentheses",
	Range: func(st *observers.State, _ tqc.Config, many float64) (observers.Range, []tqc.Warning, error) {
		if many == 0 {
			many = 3
		}
		var n, sum, squares float64
		for b := range st.Bins() {
			x := (b.Lo + b.Hi) / 2
			n, sum, squares = n+float64(b.Count), sum+float64(b.Count)*x, squares+float64(b.Count)*x*x
		}
		if n == 0 {
			return observers.Range{}, nil, observers.ErrEmpty
		}
		mean := sum / n
		d := many * math.Sqrt(max(0, squares/n-mean*mean))
		x := st.Extent()
		return observers.Range{Lo: max(mean-d, float64(x.Min)), Hi: min(mean+d, float64(x.Max))}, nil, nil
	},
}

// scales is a format: a line with the scale of each activation that has one.
var scales = export.Format{
	Name: "scales", Doc: "a table of scales", Ext: ".scales", From: export.Plan, Targets: []string{"acme_npu"},
	Write: func(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
		return nil, out.Write(out.Name(), func(w io.Writer) error {
			for i := range in.Set.NumSlots() {
				s := in.Set.Slot(tqc.SlotID(i))
				if s.Weight || s.State() != tqc.Activated {
					continue
				}
				if _, err := fmt.Fprintf(w, "%s %.3g\n", in.Model.Graph.Value(s.Value).Name, in.Set.Params(s.ID).Scale[0]); err != nil {
					return err
				}
			}
			return nil
		})
	},
}

// npu is a platform: ONNX Runtime's table, but activations by the observer above, and the scale goes through Flip. It could be a file as
// well: see docs/targets.md.
func npu() *target.Target {
	t := target.ONNXRuntime
	t.Name, t.Doc = "acme_npu", "the NPU of Acme"
	t.Activation.Observer = deviations.Name
	t.BorderCost = 0 // however small an operator is, it goes to integers
	t.Ops = append([]target.Op{{Type: "acme::Flip", Role: target.Passive}}, t.Ops...)
	return &t
}

// acme is what a program has that brings all of this along.
func acme() qwb.Catalog {
	platforms, err := target.Builtin().With(npu())
	if err != nil {
		log.Fatal(err)
	}
	c := qwb.Standard("1.0")
	c.Platforms, c.Formats = platforms, append(c.Formats, scales)
	c.Observers, c.Operators = []*observers.Method{deviations}, []*graph.Operator{swoosh, flip}
	return c
}

// network writes a model with both operators, and 8 inputs for it, to a store.
func network(store *qwb.Memory) {
	r := rand.New(rand.NewPCG(15, 1))
	normal := func(sigma float64, shape ...int) *tensor.Tensor {
		t := tensor.New(tensor.Float32, shape...)
		for i := range t.F32() {
			t.F32()[i] = float32(sigma * r.NormFloat64())
		}
		return t
	}
	g := graph.New("net", 17)
	g.Opsets = append(g.Opsets, graph.Opset{Domain: "acme", Version: 1})
	value := func(name string, shape ...int) graph.ValueID {
		v, _ := g.AddValue(graph.Value{Name: name, DType: tensor.Float32, Shape: graph.Static(shape...)})
		return v
	}
	node := func(op, domain string, out string, attrs []graph.Attr, in ...graph.ValueID) graph.ValueID {
		y := value(out, 1, 4, 8, 8)
		if _, err := g.AddNode(graph.Node{Name: out + "_" + op, Op: op, Domain: domain, Attrs: attrs, Inputs: in,
			Outputs: []graph.ValueID{y}}); err != nil {
			log.Fatal(err)
		}
		return y
	}
	x := value("x", 1, 4, 8, 8)
	a := node("Conv", "", "a", nil, x, g.AddConst("w1", normal(0.5, 4, 4, 1, 1)))
	b := node("Flip", "acme", "b", nil, a)
	c := node("Conv", "", "c", nil, b, g.AddConst("w2", normal(0.5, 4, 4, 1, 1)))
	d := node("Swoosh", "acme", "d", []graph.Attr{graph.Float("slope", 1.5)}, c)
	y := node("Conv", "", "y", nil, d, g.AddConst("w3", normal(0.5, 4, 4, 1, 1)))
	g.Inputs, g.Outputs = []graph.ValueID{x}, []graph.ValueID{y}
	var file bytes.Buffer
	if err := (&onnx.Model{Graph: g}).Write(&file); err != nil {
		log.Fatal(err)
	}
	store.Write("net.onnx", file.Bytes())
	for i := range 8 {
		var file bytes.Buffer
		if err := npy.Write(&file, normal(1, 1, 4, 8, 8)); err != nil {
			log.Fatal(err)
		}
		store.Write(fmt.Sprintf("inputs/%d.npy", i), file.Bytes())
	}
}

// A program brings along operators, an observer, a platform and a format.
func Example_own() {
	ctx := context.Background()
	store := new(qwb.Memory)
	network(store)
	p := &qwb.Project{Model: "net.onnx", Plan: "net.plan.json", Store: store, Catalog: acme()}
	inspection, _, err := p.Inspect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("operators that cannot be computed:", len(inspection.Unsupported))

	if _, _, err := p.Calibrate(ctx, qwb.CalibrateOptions{Platform: "acme_npu",
		Data: qwb.DataOptions{Paths: []string{"inputs"}}}); err != nil {
		log.Fatal(err)
	}
	for _, node := range []string{"b_Flip", "d_Swoosh"} {
		e, _, err := p.Explain(ctx, node)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(node, "is", e.Domain)
	}
	report, _, err := p.Analyze(ctx, qwb.AnalyzeOptions{Config: analysis.Config{Outputs: true, Layerwise: true}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("operators with an error of their own:", len(report.Layerwise))

	if _, _, err := p.Export(ctx, qwb.ExportOptions{Platform: "acme_npu", Format: "scales", Out: "net.scales"}); err != nil {
		log.Fatal(err)
	}
	text, _ := store.Read("net.scales")
	fmt.Print(string(text))
	// Output:
	// operators that cannot be computed: 0
	// b_Flip is INT8
	// d_Swoosh is FP32
	// operators with an error of their own: 3
	// x 0.0233
	// a 0.03
	// c 0.0324
	// d 0.0122
	// y 0.0161
}
