package advise

import (
	"cmp"
	"fmt"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/observers"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Harmless and Bad are rules of thumb for the NSR of an output (of class scores without their mean, see analysis.Judge): below the first an
// error is nothing to care about, above the second predictions get worse.
const (
	Harmless = 0.01
	Bad      = 0.1
)

// Facts are what is known about a plan.
type Facts struct {
	Graph  *graph.Graph // with the constants that are quantized
	Set    *tqc.Set
	Target *target.Target
	// Layers are the figures of layerwise analysis, with Weight and Activation. A layer that is missing counts as without error.
	Layers []analysis.LayerError
	// State is what calibration saw of the tensors that share the scale of a slot, nil where nothing is known.
	State func(root tqc.SlotID) *observers.State
	// Value is what it saw of one tensor, nil where nothing is known.
	Value func(v graph.ValueID) *observers.State
	// Ranges lists what the observers find for the tensors that share the scale of a slot; nil where nothing is known.
	Ranges func(root tqc.SlotID) []Range
	// Shifts is by how much rounding the weights moves the means of an operator's output channels, as an NSR at its own output; operators
	// of which that is not known are missing.
	Shifts map[graph.NodeID]float64
	// Samples is how many samples the ranges are of, Tensors of how many tensors, Unsettled how many of these have other ranges in one half of
	// the samples than in the other. Halves is false where that cannot be told.
	Samples, Tensors, Unsettled int
	Halves                      bool
	// Integers is what the integer program loses and the simulation does not, as a factor of the simulation's NSR; 0 where it was not run,
	// because the profile cannot saturate.
	Integers float64
	// Floor is the NSR of the outputs.
	Floor float64
}

// Range is what an observer finds for a tensor.
type Range struct {
	Observer tqc.Observer
	Params   tqc.Params
}

// Finding is a cause that may be at work.
type Finding struct {
	Cause    *Cause
	Nodes    []string // the operators, the worst first; none for the whole plan
	Evidence string   // the figures that show it, one sentence without its full stop
	Cures    []Cure   // the cheapest first
}

// Cure is a command that helps.
type Cure struct {
	// Select and Words are those of qwb set: what is decided of which slots and operators.
	Slots []tqc.SlotID
	Nodes []graph.NodeID
	All   bool // everything
	Words []string
	// Method is one of qwb tune.
	Method string
	// Without are slots whose error the cure takes away, as far as Share says: what a method of tuning is expected to do. Shift says that it
	// takes the shifts of the means away.
	Without []tqc.SlotID
	Share   float64
	Shift   bool
	// More: calibrating on more samples. Look: looking at what the model is fed with.
	More, Look bool
}

// Cause is one way in which a plan can be ill.
type Cause struct {
	Name string
	Doc  string // what it means, one sentence
	// Data: it is about the data, not about the error of the outputs, and is said of plans with a small error too.
	Data bool
	find func(f *Facts) []Finding
}

// Causes are all that are looked for.
var Causes = []*Cause{Clipping, Outliers, CoarseGrid, MeanShift, WeightChannels, WeightBits, Depthwise, Concat, Softmax, Dead,
	Saturation, FewSamples}

// Find lists the causes that the facts speak for. A plan whose outputs have an error below Harmless has none but those of its data.
func Find(f *Facts) []Finding {
	var list []Finding
	for _, c := range Causes {
		if !c.Data && f.Floor < Harmless {
			continue
		}
		for _, x := range c.find(f) {
			x.Cause = c
			list = append(list, x)
		}
	}
	return list
}

// mostNodes is how many operators one finding names at most.
const mostNodes = 12

// layer is an operator of the layerwise analysis with its node.
type layer struct {
	*analysis.LayerError
	id           graph.NodeID
	node         *graph.Node
	local        float64 // its error at its own output, with that of rounding what it reads where that is in the rows of others
	weights, act float64 // shares of that, from 0 to 1
	share        float64 // of the sum of all operators' errors at the outputs, in the part that they sum to most in
}

// layers lists the operators that match, the largest error at the outputs first.
func (f *Facts) layers(match func(l *layer) bool) []layer {
	sum, each := analysis.SumOfRows(f.Layers)
	var list []layer
	for i := range f.Layers {
		l := layer{LayerError: &f.Layers[i]}
		id, ok := f.Graph.LookupNode(l.Node)
		if !ok || l.Weight == nil || l.Activation == nil || !(l.Local > 0) || !(sum > 0) {
			continue
		}
		read := 0.0
		if l.Read != nil {
			read = *l.Read
		}
		l.id, l.node, l.local, l.share = id, f.Graph.Node(id), l.Local+read, each[i]/sum
		l.weights, l.act = *l.Weight/l.local, (*l.Activation+read)/l.local
		if match(&l) {
			list = append(list, l)
		}
	}
	arrange.Stable(list, func(a, b layer) int { return cmp.Compare(b.share, a.share) })
	return list
}

// worst keeps the operators that make most of the error: nine tenths of what the list makes together, at most mostNodes.
func worst(list []layer) []layer {
	var sum, so float64
	for _, l := range list {
		sum += l.share
	}
	for i, l := range list {
		if i == mostNodes || i > 0 && so >= 0.9*sum {
			return list[:i]
		}
		so += l.share
	}
	return list
}

func names(list []layer) (out []string) {
	for _, l := range list {
		out = append(out, l.Node)
	}
	return out
}

func ids(list []layer) (out []graph.NodeID) {
	for _, l := range list {
		out = append(out, l.id)
	}
	return out
}

// weight is the slot of an operator's quantized weight, nil where there is none.
func (f *Facts) weight(id graph.NodeID) *tqc.Slot {
	for i, v := range f.Graph.Node(id).Inputs {
		s := f.Set.Input(id, i)
		if s == tqc.NoSlot || v == graph.NoValue || !f.Set.Slot(s).Weight || !f.Set.Slot(s).State().Quantizes() {
			continue
		}
		if t := f.Graph.Const(v); t != nil && t.DType == tensor.Float32 && len(t.Shape) > 1 {
			return f.Set.Slot(s)
		}
	}
	return nil
}

// input is the slot of the first computed tensor that an operator reads quantized, and the slot whose scale it has;
// nil where there is none.
func (f *Facts) input(id graph.NodeID) (slot, root *tqc.Slot) {
	for i, v := range f.Graph.Node(id).Inputs {
		s := f.Set.Input(id, i)
		if s == tqc.NoSlot || v == graph.NoValue || f.Graph.Const(v) != nil || !f.Set.Params(s).Ready() {
			continue
		}
		if root := f.Set.Slot(f.Set.Root(s)); root.Config.Integer() && root.Config.Policy.Has(tqc.PerTensor) {
			return f.Set.Slot(s), root
		}
	}
	return nil, nil
}

// name is how people call a slot: conv1:in0.
func (f *Facts) name(s *tqc.Slot) string {
	return fmt.Sprintf("%s:%s%d", f.Graph.Node(s.Node).Name, s.Kind, s.Index)
}
