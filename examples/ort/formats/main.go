// Command formats writes a small model for every number format and granularity that the Q/DQ exporter has, with an input and what qwb's
// simulation computes: NAME.onnx, and cases.json with the rest. formats.py holds engines to them.
//
//	go run ./examples/ort/formats DIR
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"strings"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

var weights = strings.Fields(`int8-sym-tensor int8-sym-channel int8-sym-g32 int8-sym-mx32 int16-sym-channel int16-sym-g32 int4-sym-tensor int4-sym-channel
	int4-sym-g32 uint4-asym-g32 int2-sym-channel int2-sym-g32 e4m3-sym-tensor e4m3-sym-channel e4m3-sym-g32 e4m3-sym-mx32 e4m3-sym-mx32ceil
	e5m2-sym-channel e5m2-sym-mx32 e2m1-sym-tensor e2m1-sym-channel e2m1-sym-g32 e2m1-sym-mx32 e2m1-sym-mx32ceil e2m1-sym-nv16 nf4-sym-channel
	nf4-sym-g64`)

var activations = strings.Fields(`uint8-asym-tensor int8-sym-tensor uint16-asym-tensor int16-sym-tensor int4-sym-tensor int2-sym-tensor e4m3-sym-tensor
	e5m2-sym-tensor e2m1-sym-tensor uint8-asym-dynamic-tensor int8-sym-dynamic-tensor int8-asym-dynamic-token uint8-asym-dynamic-token
	int8-sym-dynamic-token e4m3-sym-dynamic-token`)

const product = "opset 13\ninput x: f32[5,128]\nconst w: f32[128,24] = normal(seed=1, std=0.1)\ny: f32[5,24] = MatMul(x, " +
	"w) \"op\"\noutput y"

const convolution = "opset 13\ninput x: f32[1,64,6,6]\nconst w: f32[24,64,3,3] = normal(seed=2, std=0.1)\ny: f32[1,24,6,6] = Conv(x, " +
	"w) {pads=[1,1,1,1]} \"op\"\noutput y"

// written is a line of cases.json; numbers are row-major.
type written struct {
	Name, Op, Weight, Activation, Powers string
	Opset                                int64
	Shape                                []int
	Input, Output                        []float32
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: formats DIR")
	}
	var cases []written
	for _, op := range []string{"MatMul", "Conv"} {
		for _, w := range weights {
			for _, powers := range []string{"e8m0", "float32"} {
				if powers == "e8m0" && !strings.Contains(w, "mx32") {
					continue
				}
				cases = append(cases, write(op, w, "", powers))
			}
		}
	}
	for _, a := range activations {
		cases = append(cases, write("MatMul", "", a, "float32"), write("MatMul", "int8-sym-channel", a, "float32"))
	}
	b, err := json.Marshal(cases)
	check(err)
	check(os.WriteFile(filepath.Join(os.Args[1], "cases.json"), b, 0o644))
	fmt.Println(len(cases), "models")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// write exports one model. powers says how scales of MX blocks are stored: float32 as for readers that know opset 23 at most.
func write(op, weight, activation, powers string) written {
	text, axis := product, 1
	if op == "Conv" {
		text, axis = convolution, 0
	}
	g, err := graph.Parse(text)
	check(err)
	graph.InferShapes(g)
	id, _ := g.LookupNode("op")
	x := graphtest.Normal(7, dims(g, g.Inputs[0])...)
	set := tqc.NewSet(g)
	set.Domains[id] = tqc.DomainInt
	for i, scheme := range []string{activation, weight} {
		if scheme == "" {
			continue
		}
		t := x
		if slot := set.Input(id, i); i == 1 {
			set.Slot(slot).Weight, t = true, g.Const(set.Slot(slot).Value)
		}
		configure(set, set.Input(id, i), scheme, axis, t)
	}
	tg := target.ONNX
	if powers == "float32" {
		tg.Export.MaxOpset = 23
		if strings.HasPrefix(weight, "int2") || strings.HasPrefix(activation, "int2") {
			tg.Export.MaxOpset = 25
		}
	}
	m, err := onnxqdq.Build(&onnx.Model{Graph: g}, set, &tg, onnxqdq.Options{Producer: "qwb"})
	check(err)
	c := written{Name: strings.Trim(strings.Join([]string{op, weight, activation, powers}, "_"), "_"), Op: op, Weight: weight,
		Activation: activation,
		Powers:     powers, Opset: m.Graph.Opset(""), Shape: x.Shape, Input: x.F32()}
	f, err := os.Create(filepath.Join(os.Args[1], c.Name+".onnx"))
	check(err)
	check(m.Write(f))
	check(f.Close())
	s, err := sim.New(g, set, sim.Options{})
	check(err)
	e, err := exec.New(g, exec.Options{})
	check(err)
	out, err := e.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": x}, s.Hooks(nil))
	check(err)
	c.Output = out[0].F32()
	return c
}

func dims(g *graph.Graph, v graph.ValueID) []int {
	n, _ := g.Value(v).Shape.Ints()
	return n
}

// configure gives a slot a scheme, and scales by the largest magnitudes of t.
func configure(set *tqc.Set, slot tqc.SlotID, text string, axis int, t *tensor.Tensor) {
	s, err := tqc.ParseScheme(text)
	check(err)
	c, err := s.Apply(tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.IntegerFormat(8, false)})
	check(err)
	switch {
	case s.Channel:
		c.Axis = axis
	case s.Group > 0:
		c.Axis = 1 - axis // along the products that are summed
	}
	check(set.Configure(slot, c))
	var p tqc.Params
	if !c.RunTime() {
		parts, err := tqc.PartsOf(t, &c)
		check(err)
		if c.Blocks == tqc.NV {
			lo, hi := limits(t.F32())
			p.Global = qmath.NVGlobal(float32(math.Max(-lo, hi)))
		}
		for i := range parts.Count() {
			lo, hi := 0.0, 0.0
			parts.Each(i, func(from, to int) {
				a, b := limits(t.F32()[from:to])
				lo, hi = min(lo, a), max(hi, b)
			})
			scale, zero, _, err := c.ScaleFor(lo, hi, p.Global)
			check(err)
			p.Scale, p.ZeroPoint = append(p.Scale, scale), append(p.ZeroPoint, zero)
		}
	}
	check(set.Render(slot, p))
}

func limits(x []float32) (lo, hi float64) {
	for _, v := range x {
		lo, hi = min(lo, float64(v)), max(hi, float64(v))
	}
	return lo, hi
}
