package verify

import (
	"errors"
	"fmt"
	"reflect"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/tqc"
)

// layer is a step as graph and plan define it.
type layer struct {
	*premises
	step *lower.Step
	node *graph.Node // the one that computes; nil for a conversion
	// acts are the activations computed with it, residual the Add in between, NoNode where there is none.
	acts     []graph.NodeID
	residual graph.NodeID
}

// operation is one kind of step, derived from graph and plan.
type operation interface {
	// compare reports what the program holds otherwise.
	compare(f *faults)
	// exact computes the step's outputs in real arithmetic from the integers that it read; nil for outputs that nobody reads and
	// those that are not checked.
	exact(c *computer, in []*tensor.Tensor) ([]*exact, error)
}

// derive returns a step's operation by the row of its type.
func (l *layer) derive() (operation, error) {
	for i := range derivations {
		if o, ok, err := derivations[i].derive(l); ok {
			return o, err
		}
	}
	return nil, fmt.Errorf("steps of type %T are not known", l.step.Op)
}

// derivation is a row for one type of operation; derive returns false for steps of other types.
type derivation struct {
	operator string
	derive   func(l *layer) (operation, bool, error)
}

// derivations are the types of operations of package lower.
var derivations = []derivation{
	of((*layer).deriveLinear), of((*layer).deriveSum), of((*layer).deriveProduct), of((*layer).deriveRequantize), of((*layer).deriveClamp),
	of((*layer).deriveQuantize), of((*layer).deriveDequantize), of((*layer).deriveConcat), of((*layer).deriveSelect),
	of((*layer).deriveAverage),
	of((*layer).deriveSoftmax), of((*layer).deriveTable), of((*layer).deriveMaxPool), of((*layer).deriveMove), of((*layer).deriveIsland),
	of((*layer).deriveSimulated), of((*layer).derivePRelu), of((*layer).deriveRunTime), of((*layer).deriveLayerNorm),
}

// of makes a row of a method for one type of operation.
func of[T any](derive func(l *layer, op T) (operation, error)) derivation {
	return derivation{reflect.TypeFor[T]().Elem().Name(), func(l *layer) (operation, bool, error) {
		op, ok := l.step.Op.(T)
		if !ok {
			return nil, false, nil
		}
		o, err := derive(l, op)
		return o, true, err
	}}
}

// Operators are the types of operations that are derived a second time here, all that are checked.
func Operators() []string {
	var list []string
	for i := range derivations {
		list = append(list, derivations[i].operator)
	}
	return list
}

// layerOf reads which nodes a step is for.
func (p *premises) layerOf(s *lower.Step) *layer {
	l := &layer{premises: p, step: s, residual: graph.NoNode}
	if s.Node == graph.NoNode {
		return l
	}
	l.node = p.g.Node(s.Node)
	for _, id := range s.Nodes {
		switch {
		case id == s.Node:
		case p.set.Fused[id] != s.Node && p.g.Node(id).Op == "Add" && l.residual == graph.NoNode:
			l.residual = id
		default:
			l.acts = append(l.acts, id)
		}
	}
	return l
}

// name names a step: its node, or the tensor that a conversion writes.
func (l *layer) name() string {
	if l.node != nil {
		return l.node.Name
	}
	return l.tensorName(0)
}

// op names the kind of step.
func (l *layer) op() string {
	switch l.step.Op.(type) {
	case *lower.Quantize:
		return "Quantize"
	case *lower.Dequantize:
		return "Dequantize"
	case *lower.Requantize:
		return "Requantize"
	case *lower.Island:
		return "Island"
	}
	if l.node != nil {
		return l.node.Op
	}
	return ""
}

// tensorName names output k.
func (l *layer) tensorName(k int) string {
	if k < len(l.step.Outputs) && l.step.Outputs[k] != lower.NoTensor {
		return l.program.Tensors[l.step.Outputs[k]].Name
	}
	return ""
}

// divergence starts the description of something wrong at output k.
func (l *layer) divergence(k int) analysis.Divergence {
	return analysis.Divergence{Node: l.name(), Op: l.op(), Tensor: l.tensorName(k)}
}

// in returns the grid of input k, nil for a real one.
func (l *layer) in(k int) *qmath.Grid { return l.grid(l.step.Inputs[k]) }

// out returns the grid of output k, nil for a real one and one that nobody reads.
func (l *layer) out(k int) *qmath.Grid {
	if l.step.Outputs[k] == lower.NoTensor {
		return nil
	}
	return l.grid(l.step.Outputs[k])
}

// integers returns the grids of the first input and output, both of which have to be integers.
func (l *layer) integers() (x, y qmath.Grid, err error) {
	if len(l.step.Inputs) == 0 || len(l.step.Outputs) == 0 || l.in(0) == nil || l.out(0) == nil {
		return x, y, errors.New("input 0 or output 0 is not a tensor of integers")
	}
	return *l.in(0), *l.out(0), nil
}

// single returns the grids of a step of one input and one output. The input's is what the node reads as input 0, if the graph says.
func (l *layer) single() (x, y qmath.Grid, err error) { return l.singleAt(0) }

// singleAt is single for a node whose input is the one at place at.
func (l *layer) singleAt(at int) (x, y qmath.Grid, err error) {
	if err := l.sole(1); err != nil {
		return x, y, err
	}
	if x, y, err = l.integers(); err != nil {
		return x, y, err
	}
	if seen := l.seen(l.node.ID, at); seen != nil {
		x = *seen
	}
	return x, y, nil
}

// rounding is how the profile rounds what it scales. Where it rounds to the nearest the direction of exact halves does not matter:
// they are ties.
func (l *layer) rounding() qmath.Rounding {
	if l.profile.Form == qmath.ShiftOnly || l.profile.Form == qmath.SingleAny || l.profile.Form == qmath.FloatTwice {
		return l.profile.Rounding
	}
	return qmath.HalfEven
}

// sole fails unless a step has so many inputs and one output.
func (l *layer) sole(inputs int) error {
	if len(l.step.Inputs) != inputs || len(l.step.Outputs) != 1 {
		return fmt.Errorf("%d inputs and %d outputs for %s", len(l.step.Inputs), len(l.step.Outputs), l.op())
	}
	return nil
}

// wants reports an operation that is not the one of the node.
func (l *layer) wants(ops ...string) error {
	if l.node == nil {
		return fmt.Errorf("a step without a node")
	}
	for _, op := range ops {
		if l.node.Op == op {
			return nil
		}
	}
	return fmt.Errorf("a step of type %T for %s", l.step.Op, l.node.Op)
}

// integers reports whether numbers of a config are integers with scales that are known.
func integers(cfg *tqc.Config) bool {
	return cfg.Type == qmath.Integers && !cfg.Policy.Has(tqc.Dynamic) && !cfg.Policy.Has(tqc.PerGroup)
}

// slotGrid returns the grid of a slot that quantizes to integers, nil for others.
func (p *premises) slotGrid(id tqc.SlotID) *qmath.Grid {
	if id == tqc.NoSlot || !p.set.Slot(id).State().Quantizes() || !p.set.Params(id).Ready() || !integers(&p.set.Slot(id).Config) {
		return nil
	}
	g := p.set.Grid(id, 0)
	return &g
}
