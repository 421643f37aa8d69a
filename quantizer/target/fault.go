package target

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// Fault is something that an engine computes wrongly, or fails at, although the file that it reads is right.
type Fault struct {
	Name    string
	Engine  string
	Targets []string // whose files the engine reads
	// Since is the first version that has it, Until the first that has not: numbers between dots. Empty: as far back as was looked, and up to
	// the newest.
	Since, Until string
	On           string // the processors that have it, where not all do
	Pattern      string // what a file has that meets it
	Effect       string // what the engine does then
	Cure         string // what to do about it
	Source       string
	// Held says what holds the row: the script that reproduces it, or, where no engine was to be had, nothing but its source.
	Held string
	// Rule and Says: the doctor of the format finds it, by this rule in these words.
	Rule, Says string
	// Warning is what export says of an operator that meets it, behind the operator's name; empty: export avoids it, or guards against it.
	Warning string
	// Met says whether an operator meets it; nil: by Rule, or it cannot be told from the file.
	Met func(o *Rounded) bool
}

// Rounded is an operator with the grids that its tensors are rounded to, in a file or in a plan.
type Rounded struct {
	Graph *graph.Graph
	Node  *graph.Node
	// In and Out are the grids by input and output; false where the engine gets or gives float there.
	In, Out func(i int) (Grid, bool)
}

// Grid is where the numbers of a tensor lie; of several scales it is the first.
type Grid struct {
	Scale      float64
	QMin, QMax int32
	ZeroPoint  int32
}

// integer reports whether the operator reads and writes integers.
func (o *Rounded) integer() bool {
	_, in := o.In(0)
	_, out := o.Out(0)
	return in && out
}

// has reports whether the operator is one of a list, of ai.onnx.
func (o *Rounded) has(ops ...string) bool { return o.Node.IsONNX() && slices.Contains(ops, o.Node.Op) }

// but reports whether a condition does not hold.
func (o *Rounded) but(c Condition) bool { return !c.Holds(o.Graph, o.Node) }

// FaultsOf lists the faults of whoever reads the files of a platform, in the order of Faults. version "" is any; otherwise those that this
// version has.
func FaultsOf(platform, version string) []*Fault {
	var list []*Fault
	for i := range Faults {
		f := &Faults[i]
		if slices.Contains(f.Targets, platform) && (version == "" || f.In(version)) {
			list = append(list, f)
		}
	}
	return list
}

// In reports whether a version of the engine has the fault.
func (f *Fault) In(version string) bool {
	return (f.Since == "" || !Older(version, f.Since)) && (f.Until == "" || Older(version, f.Until))
}

// Versions says in words which versions have it.
func (f *Fault) Versions() string {
	switch {
	case f.Since != "" && f.Until != "":
		return f.Since + " to before " + f.Until
	case f.Since != "":
		return "from " + f.Since
	case f.Until != "":
		return "before " + f.Until
	}
	return "all that were tried"
}

// Older compares versions by the numbers between dots; parts that are no numbers, and those that are missing, count as 0.
func Older(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		if c := cmp.Compare(part(x, i), part(y, i)); c != 0 {
			return c < 0
		}
	}
	return false
}

func part(list []string, i int) int {
	if i >= len(list) {
		return 0
	}
	digits := list[i]
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, _ := strconv.Atoi(digits)
	return n
}

// OfPlan is an operator of a network that a set configures.
func OfPlan(g *graph.Graph, set *tqc.Set, id graph.NodeID) *Rounded {
	grid := func(slots []tqc.SlotID, i int) (Grid, bool) {
		if i >= len(slots) || slots[i] == tqc.NoSlot {
			return Grid{}, false
		}
		slot, p := set.Slot(slots[i]), set.Params(slots[i])
		x := Grid{QMin: slot.Config.QMin, QMax: slot.Config.QMax}
		if len(p.Scale) > 0 {
			x.Scale = float64(p.Scale[0])
		}
		if len(p.ZeroPoint) > 0 {
			x.ZeroPoint = p.ZeroPoint[0]
		}
		return x, slot.State().Quantizes()
	}
	integer := func(slots []tqc.SlotID) func(i int) (Grid, bool) {
		return func(i int) (Grid, bool) {
			x, ok := grid(slots, i)
			if ok || set.Domains[id] != tqc.DomainInt {
				return x, ok
			}
			return x, i == 0 // it hands on the integers that it reads, or a reader rounds what it computes
		}
	}
	return &Rounded{Graph: g, Node: g.Node(id), In: integer(set.Inputs(id)), Out: integer(set.Outputs(id))}
}

// OfFile is an operator of a file with QuantizeLinear and DequantizeLinear around what runs on integers.
func OfFile(g *graph.Graph, id graph.NodeID) *Rounded {
	n := g.Node(id)
	return &Rounded{Graph: g, Node: n,
		In: func(i int) (Grid, bool) {
			p := g.Producer(n.Input(i))
			if p == graph.NoNode || g.Node(p).Op != "DequantizeLinear" {
				return Grid{}, false
			}
			return gridOf(g, g.Node(p), g.Node(p).Input(0))
		},
		Out: func(i int) (Grid, bool) {
			if i >= len(n.Outputs) || n.Outputs[i] == graph.NoValue {
				return Grid{}, false
			}
			use, sole := g.SoleUse(n.Outputs[i])
			if !sole || g.Node(use.Node).Op != "QuantizeLinear" {
				return Grid{}, false
			}
			return gridOf(g, g.Node(use.Node), g.Node(use.Node).Outputs[0])
		}}
}

// gridOf is the grid of a QuantizeLinear or DequantizeLinear whose integers are v.
func gridOf(g *graph.Graph, n *graph.Node, v graph.ValueID) (Grid, bool) {
	var x Grid
	if s := constantOf(g, n.Input(1)); s != nil && s.DType == tensor.Float32 && s.Len() > 0 {
		x.Scale = float64(s.F32()[0])
	}
	if z := constantOf(g, n.Input(2)); z != nil && z.Len() > 0 && z.DType.IsInteger() {
		x.ZeroPoint = z.Integers()[0]
	}
	bits, signed := g.Value(v).DType.Bits(), true
	switch g.Value(v).DType {
	case tensor.Uint8, tensor.Uint16, tensor.Uint4:
		signed = false
	case tensor.Int8, tensor.Int16, tensor.Int4, tensor.Int32:
	default:
		return x, false // no integers
	}
	x.QMax = int32(1<<bits - 1)
	if signed {
		x.QMin, x.QMax = -1<<(bits-1), int32(1<<(bits-1)-1)
	}
	return x, true
}

// constantOf is the tensor of a constant, or of a Constant node; nil where there is none.
func constantOf(g *graph.Graph, v graph.ValueID) *tensor.Tensor {
	if v == graph.NoValue {
		return nil
	}
	if p := g.Producer(v); p != graph.NoNode && g.Node(p).Op == "Constant" {
		if a := g.Node(p).Attr("value"); a != nil {
			return a.T
		}
	}
	return g.Const(v)
}
