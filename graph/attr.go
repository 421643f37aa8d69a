package graph

import (
	"qwb/graph/tensor"
)

// AttrKind is the type of an attribute. The values are those of ONNX AttributeProto.AttributeType.
type AttrKind uint8

const (
	AttrFloat   AttrKind = 1
	AttrInt     AttrKind = 2
	AttrString  AttrKind = 3
	AttrTensor  AttrKind = 4
	AttrGraph   AttrKind = 5
	AttrFloats  AttrKind = 6
	AttrInts    AttrKind = 7
	AttrStrings AttrKind = 8
	AttrTensors AttrKind = 9
	AttrGraphs  AttrKind = 10
	AttrOpaque  AttrKind = 255 // a type qwb does not model (sparse tensor, type proto): only Raw is set
)

// Attr is one attribute of a node. Only the field that Kind names is set.
type Attr struct {
	Name    string
	Kind    AttrKind
	Doc     string
	RefAttr string // inside a model-local function: the function attribute this one refers to
	F       float32
	I       int64
	S       string // bytes, not necessarily UTF-8
	T       *tensor.Tensor
	G       *Graph
	Floats  []float32
	Ints    []int64
	Strings []string
	Tensors []*tensor.Tensor
	Graphs  []*Graph
	Raw     []byte // AttrOpaque: the AttributeProto as read
}

// Int, Float, Str, Ints and Floats build attributes.
func Int(name string, v int64) Attr              { return Attr{Name: name, Kind: AttrInt, I: v} }
func Float(name string, v float32) Attr          { return Attr{Name: name, Kind: AttrFloat, F: v} }
func Str(name, v string) Attr                    { return Attr{Name: name, Kind: AttrString, S: v} }
func Ints(name string, v ...int64) Attr          { return Attr{Name: name, Kind: AttrInts, Ints: v} }
func Floats(name string, v ...float32) Attr      { return Attr{Name: name, Kind: AttrFloats, Floats: v} }
func TensorAttr(n string, t *tensor.Tensor) Attr { return Attr{Name: n, Kind: AttrTensor, T: t} }

// Int64s are the numbers of a list as attributes and constants hold them.
func Int64s(list []int) []int64 {
	out := make([]int64, len(list))
	for i, v := range list {
		out[i] = int64(v)
	}
	return out
}

// Attr returns the attribute called name, or nil.
func (n *Node) Attr(name string) *Attr {
	for i := range n.Attrs {
		if n.Attrs[i].Name == name {
			return &n.Attrs[i]
		}
	}
	return nil
}

// SetAttr adds a, replacing an attribute of the same name.
func (n *Node) SetAttr(a Attr) {
	if old := n.Attr(a.Name); old != nil {
		*old = a
		return
	}
	n.Attrs = append(n.Attrs, a)
}

// DropAttr removes the attribute called name, if there is one.
func (n *Node) DropAttr(name string) {
	for i := range n.Attrs {
		if n.Attrs[i].Name == name {
			n.Attrs = append(n.Attrs[:i:i], n.Attrs[i+1:]...)
			return
		}
	}
}

// AttrInt returns the integer attribute called name, or def where it is absent or of another kind.
func (n *Node) AttrInt(name string, def int64) int64 {
	if a := n.Attr(name); a != nil && a.Kind == AttrInt {
		return a.I
	}
	return def
}

// AttrFloat returns the float attribute called name, or def where it is absent or of another kind.
func (n *Node) AttrFloat(name string, def float32) float32 {
	if a := n.Attr(name); a != nil && a.Kind == AttrFloat {
		return a.F
	}
	return def
}

// AttrStr returns the string attribute called name, or def where it is absent or of another kind.
func (n *Node) AttrStr(name, def string) string {
	if a := n.Attr(name); a != nil && a.Kind == AttrString {
		return a.S
	}
	return def
}

// AttrInts returns the integer-list attribute called name, nil where it is absent or of another kind.
func (n *Node) AttrInts(name string) []int64 {
	if a := n.Attr(name); a != nil && a.Kind == AttrInts {
		return a.Ints
	}
	return nil
}
