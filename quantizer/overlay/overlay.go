// Package overlay holds what tuning changed in the constants of a graph: files beside a plan, applied to a clone of the reference.
//
// The reference is the graph in normal form after the overlay's steps, which keep its float function, with zeros where an overlay has a
// bias that the model lacks. It runs in float. Its clone with the overlay's values is what is quantized, lowered, verified and exported.
// Both have the same nodes and values under the same numbers.
//
// Unstable: it may change without notice.
package overlay

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/tqc"
)

// Entry is the new value of one constant input of one node. Another reader of the same constant keeps the old one.
type Entry struct {
	Node  string
	Input int
	// Base is the SHA-256 of the reference's tensor, as TensorHash has it: the entry is for no other.
	Base string
	// Added says that the model has no such input; Base is that of zeros.
	Added bool
	// For is what the value was made for: the scheme and the scales of the node's weight, as Fingerprint has them.
	For   string
	Value *tensor.Tensor // float32, row-major, of the base's shape
	// Scheme, Scale and ZeroPoint are, of a weight (graph.WeightInput), what its value was made for: the weight keeps these scales, nothing is
	// observed, as long as its scheme is this one, as SchemeText has it. The value may be the base's own: then the scales alone were tuned.
	// Empty elsewhere.
	Scheme    string
	Scale     []float32
	ZeroPoint []int32
}

// Freezes reports whether the entry has scales that a weight of a config keeps.
func (e *Entry) Freezes(c *tqc.Config) bool {
	if len(e.Scale) == 0 || len(e.Scale) != len(e.ZeroPoint) || e.Scheme != SchemeText(c) {
		return false
	}
	n, known := tqc.NumScales(graph.Static(e.Value.Shape...), c)
	return known && n == int64(len(e.Scale))
}

// SchemeText is a weight's scheme, the range of its integers, and where its scales lie: "int4-sym-channel, -7 to 7, axis 0, half-even".
func SchemeText(c *tqc.Config) string {
	s, err := tqc.SchemeOf(*c)
	if err != nil {
		return c.Policy.String()
	}
	return fmt.Sprintf("%s, %d to %d, axis %d, %s", s, c.QMin, c.QMax, c.Axis, c.Rounding)
}

// At names the place of an entry, as "conv1:in2".
func (e *Entry) At() string { return fmt.Sprintf("%s:in%d", e.Node, e.Input) }

// Overlay is a list of entries, at most one for each input, for the graph in normal form after Steps, which keep its float function.
type Overlay struct {
	Steps   []rewrite.Step
	Entries []Entry
}

// Reference returns a clone of the graph in normal form after the steps, prepared for the entries. The error is a *rewrite.Broken.
func (o *Overlay) Reference(normal *graph.Graph) (*graph.Graph, error) {
	g, err := rewrite.Apply(normal, o.Steps)
	if err != nil {
		return nil, err
	}
	o.Prepare(g)
	return g, nil
}

func (o *Overlay) sort() {
	arrange.Stable(o.Entries, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Input, b.Input)) })
}

// TensorHash is the SHA-256 of a float32 tensor: its dimensions as uint64, then its elements row-major, little endian; in hexadecimal.
func TensorHash(t *tensor.Tensor) string {
	h := sha256.New()
	var b []byte
	for _, d := range t.Shape {
		b = binary.LittleEndian.AppendUint64(b, uint64(d))
	}
	for part := range slices.Chunk(t.ToRowMajor().F32(), 16<<10) {
		for _, x := range part {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		h.Write(b)
		b = b[:0]
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// Fingerprint describes how the weight of a node is quantized: format and, shortened, the SHA-256 of scales and zero points. It is
// "float" where the weight is not quantized.
func Fingerprint(set *tqc.Set, node graph.NodeID) string {
	id := set.Input(node, graph.WeightInput)
	if id == tqc.NoSlot || !set.Slot(id).State().Quantizes() {
		return "float"
	}
	c, p := set.Slot(id).Config, set.Params(id)
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %d %s %d %d\n", c.Policy, c.Bits, c.QMin, c.QMax, c.Rounding, c.Axis, c.GroupSize)
	if !c.Integer() || c.Blocks != tqc.FreeScales {
		fmt.Fprintf(h, "%s %s\n", c.FormatName(), c.Blocks)
	}
	var b []byte
	for i, s := range p.Scale {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(s))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.ZeroPoint[i]))
	}
	h.Write(b)
	return fmt.Sprintf("%d bits, %d scales, %.16x", c.Bits, len(p.Scale), h.Sum(nil))
}

// Stale is an entry that was not applied, and why.
type Stale struct {
	At  string `json:"at"`
	Why string `json:"why"`
}

func (s Stale) String() string { return s.At + ": " + s.Why }

// Prepare gives the reference what the overlay needs: a bias of zeros where an entry adds one, and a constant of its own where an entry's
// is shared. What the graph computes stays the same. Entries that do not fit the graph are left to Apply.
func (o *Overlay) Prepare(g *graph.Graph) {
	for _, e := range o.Entries {
		id, ok := g.LookupNode(e.Node)
		if !ok {
			continue
		}
		v := g.Node(id).Input(e.Input)
		switch {
		case v == graph.NoValue && e.Added && e.perChannel(g.Node(id), g.Const(g.Node(id).Input(graph.WeightInput))):
			AddBias(g, id, e.Input, e.Value.Shape)
		case v != graph.NoValue && g.Const(v) != nil:
			g.OwnConst(id, e.Input, g.Const(v))
		}
	}
}

// perChannel reports whether an entry has one number for each output channel of the node that it is a bias of: a step that doubles channels
// leaves fewer.
func (e *Entry) perChannel(n *graph.Node, weight *tensor.Tensor) bool {
	if weight == nil {
		return true
	}
	l, ok := graph.LinearOf(n, graph.WeightInput, weight.Shape)
	return !ok || l.Out == e.Value.Len()
}

// AddBias gives a node an input of zeros.
func AddBias(g *graph.Graph, id graph.NodeID, input int, shape []int) {
	g.SetInput(id, input, g.AddConst(g.Node(id).Name+".bias", tensor.New(tensor.Float32, shape...)))
}

// Apply returns a clone of the prepared reference with the values of the overlay. Entries of nodes that are float now are passed over: the
// reference's value stands. Entries that were made for another tensor, another format or other scales are returned as stale and not
// applied. A nil set applies every entry whose base fits, for configuring: check the rest afterwards.
func (o *Overlay) Apply(reference *graph.Graph, set *tqc.Set) (*graph.Graph, []Stale) {
	g := reference.Clone()
	var stale []Stale
	for i := range o.Entries {
		e := &o.Entries[i]
		id, ok := g.LookupNode(e.Node)
		if ok && set != nil && set.Domains[id] != tqc.DomainInt {
			continue
		}
		if why := e.misfit(g, id, ok, set); why != "" {
			stale = append(stale, Stale{e.At(), why})
			continue
		}
		g.SetConst(g.Node(id).Input(e.Input), e.Value)
	}
	return g, stale
}

// misfit says why an entry does not fit, "" if it does.
func (e *Entry) misfit(g *graph.Graph, id graph.NodeID, found bool, set *tqc.Set) string {
	if !found {
		return "the model has no such node"
	}
	v := g.Node(id).Input(e.Input)
	if v == graph.NoValue || g.Const(v) == nil {
		return "the node has no such constant"
	}
	t := g.Const(v)
	if t.DType != tensor.Float32 || !slices.Equal(t.Shape, e.Value.Shape) || TensorHash(t) != e.Base {
		return "the model has another value there than the one that was tuned"
	}
	if _, sole := g.SoleUse(v); !sole {
		return "its constant has other readers"
	}
	if set != nil && Fingerprint(set, id) != e.For {
		return "the weight of the node is quantized otherwise than when it was tuned"
	}
	return ""
}
