package tflite

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	tf "qwb/graph/tflite"
	"qwb/quantizer/lower"
)

// cellsNode is the node of a step that is an LSTM with integer weights; nil: it is none.
func cellsNode(op *lower.RunTime) *graph.Node {
	if nodes := op.Graph.Nodes(); len(nodes) == 1 && op.Graph.Node(nodes[0]).Domain == graph.OwnDomain {
		return op.Graph.Node(nodes[0])
	}
	return nil
}

// directionName is the place of the numbers of one direction of an LSTM.
func directionName(p *lower.Program, s *lower.Step, d int) string {
	return fmt.Sprintf("%s, direction %d", export.StepName(p, s), d)
}

// wantsCells is what cells finds, by the plan's order of gates. Cells with integer weights have no peepholes.
func wantsCells(p *lower.Program, s *lower.Step, op *lower.RunTime, yield func(*export.Item) error) error {
	g, n := op.Graph, cellsNode(op)
	integers := n.Op == "IntegerLSTM"
	r := g.Const(n.Inputs[graph.RecurrenceInput])
	dirs, hidden := r.Shape[0], r.Shape[2]
	if !integers { // weights lie turned
		hidden = r.Shape[1]
	}
	for d := range dirs {
		at := directionName(p, s, d)
		items := []*export.Item{}
		for i, what := range []string{" W", " R"} {
			t := g.Const(n.Inputs[graph.WeightInput+i])
			inner := t.Shape[1]
			if integers {
				inner = t.Shape[2]
			}
			codes := t.ToRowMajor().Integers()[d*4*hidden*inner:][:4*hidden*inner]
			if !integers {
				codes = restored(codes, []int{inner, 4 * hidden}, []int{1, 0})
			}
			scale := []float32(nil)
			if integers {
				scale = n.Attr([]string{"w_scale", "r_scale"}[i]).Floats
			} else {
				scale = g.Const(n.Inputs[graph.WeightScaleInput+2*i]).ToRowMajor().F32()
			}
			items = append(items, &export.Item{At: at + what, Kind: export.Codes, Ints: codes},
				&export.Item{At: at + what, Kind: export.Scales, Floats: []float32{scale[d%len(scale)]}})
		}
		if integers {
			bias := g.Const(n.Inputs[3]).ToRowMajor().Integers()[d*4*hidden:][:4*hidden]
			items = append(items, &export.Item{At: at, Kind: export.Bias, Ints: bias},
				&export.Item{At: at, Kind: export.Scales, Floats: []float32{n.AttrFloat("h_scale", 0), n.AttrFloat("c_scale", 0)}},
				&export.Item{At: at, Kind: export.ZeroPoints, Ints: []int32{int32(n.AttrInt("h_zero_point", 0)), 0}})
		} else {
			bias := make([]float32, 4*hidden)
			if b := g.Const(n.Inputs[3]); b != nil {
				for k := range bias {
					both := b.ToRowMajor().F32()[d*8*hidden:]
					bias[k] = both[k] + both[4*hidden+k]
				}
			}
			items = append(items, &export.Item{At: at, Kind: export.Numbers, Floats: bias})
		}
		items = append(items, &export.Item{At: at, Kind: export.Clamp, Ints: []int32{tf.Tanh, 1 - int32(n.AttrInt("layout", 0))}})
		for _, it := range items {
			if err := yield(it); err != nil {
				return err
			}
		}
	}
	return nil
}

// cells adds weights, biases, grids of the states and attributes of each direction of an LSTM, which is an operator of its own.
func (r *recoverer) cells(s *lower.Step, n *graph.Node) error {
	d := 0
	for i := range r.sub.Operators {
		o := &r.sub.Operators[i]
		if o.Op != "UNIDIRECTIONAL_SEQUENCE_LSTM" || len(o.Inputs) < 20 || !strings.HasPrefix(r.sub.Tensors[o.Inputs[1]].Name, n.Name+"/W0") {
			continue
		}
		if err := r.direction(directionName(r.p, s, d), o, n.Op == "IntegerLSTM"); err != nil {
			return err
		}
		d++
	}
	return nil
}

func (r *recoverer) direction(at string, o *tf.Operator, integers bool) error {
	for i, what := range []string{" W", " R"} {
		codes, scale, err := r.gates(o.Inputs[1+4*i:][:4], fileGates)
		if err != nil {
			return err
		}
		r.held.Add(&export.Item{At: at + what, Kind: export.Codes, Ints: codes})
		r.held.Add(&export.Item{At: at + what, Kind: export.Scales, Floats: scale})
	}
	if integers {
		if err := r.integerCells(at, o); err != nil {
			return err
		}
	} else {
		bias, err := r.reals(o.Inputs[12:16], fileGates)
		if err != nil {
			return err
		}
		r.held.Add(&export.Item{At: at, Kind: export.Numbers, Floats: bias})
	}
	major := int32(0)
	if o.Options.Bool("time_major") {
		major = 1
	}
	r.held.Add(&export.Item{At: at, Kind: export.Clamp, Ints: []int32{int32(o.Options.Int("fused_activation_function")), major}})
	return nil
}

// integerCells adds the biases, whose scales have to be those of the sums of the data, and the grids of both states.
func (r *recoverer) integerCells(at string, o *tf.Operator) error {
	bias, scale, err := r.gates(o.Inputs[12:16], fileGates)
	if err != nil {
		return err
	}
	x, w := r.sub.Tensors[o.Inputs[0]].Quantization, r.sub.Tensors[o.Inputs[1]].Quantization
	if !x.Quantized() || !w.Quantized() || scale[0] != x.Scale[0]*w.Scale[0] {
		return fmt.Errorf("its biases have the scale %g, which is not that of the sums", scale[0])
	}
	r.held.Add(&export.Item{At: at, Kind: export.Bias, Ints: bias})
	scales, zeros := []float32{}, []int32{}
	for _, id := range o.Inputs[18:20] {
		q := r.sub.Tensors[id].Quantization
		if !q.Quantized() {
			return fmt.Errorf("the state %q has no scale", r.sub.Tensors[id].Name)
		}
		scales, zeros = append(scales, q.Scale[0]), append(zeros, int32(zero(q, 0)))
	}
	r.held.Add(&export.Item{At: at, Kind: export.Scales, Floats: scales})
	r.held.Add(&export.Item{At: at, Kind: export.ZeroPoints, Ints: zeros})
	return nil
}

// gates are the integers of gates in the order of ONNX, and the scale that all have.
func (r *recoverer) gates(ids, places []int) (codes []int32, scale []float32, err error) {
	parts := make([][]int32, len(ids))
	for k, id := range ids {
		t := &r.sub.Tensors[id]
		if parts[places[k]], err = integersOf(t); err != nil {
			return nil, nil, err
		}
		if q := t.Quantization; !q.Quantized() || len(q.Scale) != 1 || zero(q, 0) != 0 || k > 0 && q.Scale[0] != scale[0] {
			return nil, nil, fmt.Errorf("%q has not one scale, that of the other gates, and the zero point 0", t.Name)
		}
		scale = t.Quantization.Scale
	}
	return slices.Concat(parts...), scale, nil
}

// reals are the floats of gates in the order of ONNX.
func (r *recoverer) reals(ids, places []int) ([]float32, error) {
	parts := make([][]float32, len(ids))
	for k, id := range ids {
		t := &r.sub.Tensors[id]
		if t.Type != tf.Float32 || len(t.Data)%4 != 0 {
			return nil, fmt.Errorf("%q has %d bytes of %s", t.Name, len(t.Data), t.Type)
		}
		for i := 0; i < len(t.Data); i += 4 {
			parts[places[k]] = append(parts[places[k]], math.Float32frombits(binary.LittleEndian.Uint32(t.Data[i:])))
		}
	}
	return slices.Concat(parts...), nil
}
