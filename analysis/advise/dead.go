package advise

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Dead is about channels that never change on the data that the ranges are of, though the network could change them.
var Dead = &Cause{Name: "dead-channels",
	Doc: "many channels are constant on the calibration data: the data do not show what the network does", Data: true, find: dead}

// A tensor counts as dead where half of its channels are; it is an illness where that holds for a quarter of the tensors. Healthy networks
// have below 1 %.
const (
	deadChannels = 0.5
	deadTensors  = 0.25
)

func dead(f *Facts) []Finding {
	var tensors, dying, channels, constant int
	worst, node := 0.0, ""
	order, err := f.Graph.Order()
	if err != nil {
		return nil
	}
	cut := f.cut(order)
	for _, id := range order {
		for _, v := range f.Graph.Node(id).Outputs {
			if v == graph.NoValue {
				continue
			}
			st := f.Value(v)
			if st == nil {
				continue
			}
			list := st.Channels()
			if len(list) < 4 {
				continue
			}
			n, of := 0, 0
			for i, c := range list {
				if len(cut[v]) == len(list) && cut[v][i] {
					continue
				}
				if of++; c.Min == c.Max {
					n++
				}
			}
			tensors, channels, constant = tensors+1, channels+of, constant+n
			part := float64(n) / float64(max(of, 1))
			if part >= deadChannels {
				dying++
			}
			if part > worst {
				worst, node = part, f.Graph.Node(id).Name
			}
		}
	}
	if tensors == 0 || float64(dying) < deadTensors*float64(tensors) {
		return nil
	}
	return []Finding{{Evidence: fmt.Sprintf("%d of %d channels never change on the %d samples, most behind %s (%.0f %%), and half or more "+
		"do not in %d of %d tensors",
		constant, channels, f.Samples, node, 100*worst, dying, tensors), Cures: []Cure{{Look: true}}}}
}

// cut says of values which channels the network itself holds constant: their weights, but for those of inputs that are constant too, are
// next to nothing beside the others of the operator. Training with a penalty on weights leaves many of them.
func (f *Facts) cut(order []graph.NodeID) map[graph.ValueID][]bool {
	const nothing = 1e-3
	cut := map[graph.ValueID][]bool{}
	for _, id := range order {
		n := f.Graph.Node(id)
		if len(n.Outputs) == 0 {
			continue
		}
		w := f.Graph.Const(n.Input(graph.WeightInput))
		if w == nil || w.DType != tensor.Float32 || len(w.Shape) < 2 || !graph.Slides(n.Op) && n.Op != "Gemm" {
			// What works on each channel by itself hands them on; of several inputs all have to be constant.
			var all []bool
			for i, v := range n.Inputs {
				switch {
				case v == graph.NoValue || f.Graph.Const(v) != nil:
				case i == 0 || all == nil:
					all = append([]bool(nil), cut[v]...)
				case len(cut[v]) == len(all):
					for c := range all {
						all[c] = all[c] && cut[v][c]
					}
				default:
					all = nil
				}
			}
			if n.Op != "Concat" {
				cut[n.Outputs[0]] = all
			}
			continue
		}
		l, ok := graph.LinearOf(n, graph.WeightInput, w.Shape)
		if !ok {
			continue
		}
		x, from := w.ToRowMajor().F32(), cut[n.Inputs[0]]
		sizes, most := make([]float32, l.Out), float32(0)
		for o := range sizes {
			group, row := o/l.Rows(), o%l.Rows()
			for k := range l.K() {
				if in := group*(l.In/l.Groups) + k/l.Taps; len(from) == l.In && from[in] {
					continue
				}
				v := x[l.At(group, row, k)]
				sizes[o] = max(sizes[o], v, -v)
			}
			most = max(most, sizes[o])
		}
		dead := make([]bool, l.Out)
		for o := range dead {
			dead[o] = sizes[o] <= nothing*most
		}
		cut[n.Outputs[0]] = dead
	}
	return cut
}
