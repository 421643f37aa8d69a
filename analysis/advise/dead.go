package advise

import (
	"fmt"

	"qwb/graph"
)

// Dead is about channels that never change on the data that the ranges are of.
var Dead = &Cause{Name: "dead-channels", Doc: "many channels are constant on the calibration data: the data do not show what the network does", Data: true, find: dead}

// A tensor counts as dead where half of its channels are; it is an illness where that holds for a quarter of the tensors. Healthy networks have
// below 1 %.
const (
	deadChannels = 0.5
	deadTensors  = 0.25
)

func dead(f *Facts) []Finding {
	var tensors, dying, channels, constant int
	worst, node := 0.0, ""
	for _, id := range f.Graph.Nodes() {
		for _, v := range f.Graph.Node(id).Outputs {
			if v == graph.NoValue {
				continue
			}
			st := f.Value(v)
			if st == nil || len(st.Channels()) < 4 {
				continue
			}
			n := 0
			for _, c := range st.Channels() {
				if c.Min == c.Max {
					n++
				}
			}
			tensors, channels, constant = tensors+1, channels+len(st.Channels()), constant+n
			part := float64(n) / float64(len(st.Channels()))
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
	return []Finding{{Evidence: fmt.Sprintf("%d of %d channels never change on the %d samples, most behind %s (%.0f %%), and half or more do not in %d of %d tensors",
		constant, channels, f.Samples, node, 100*worst, dying, tensors), Cures: []Cure{{Look: true}}}}
}
