// Package overlay holds what tuning changed in the constants of a graph: files beside a plan, applied to a clone of the reference.
//
// The reference is the graph in normal form, with zeros where an overlay has a bias that the model lacks. It runs in float. Its clone with
// the overlay's values is what is quantized, lowered, verified and exported. Both have the same nodes and values under the same
// numbers.
package overlay

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/checkpoint"
	"qwb/graph/tensor"
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
}

// At names the place of an entry, as "conv1:in2".
func (e *Entry) At() string { return fmt.Sprintf("%s:in%d", e.Node, e.Input) }

// Overlay is a list of entries, at most one for each input.
type Overlay struct{ Entries []Entry }

func (o *Overlay) sort() {
	slices.SortFunc(o.Entries, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Input, b.Input)) })
}

// TensorHash is the SHA-256 of a float32 tensor: its dimensions as uint64, then its elements row-major, little endian; in hexadecimal.
func TensorHash(t *tensor.Tensor) string {
	h := sha256.New()
	var b []byte
	for _, d := range t.Shape {
		b = binary.LittleEndian.AppendUint64(b, uint64(d))
	}
	for _, x := range t.ToRowMajor().F32() {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// weightInput is the input of an operator that its weight stands at.
const weightInput = 1

// Fingerprint describes how the weight of a node is quantized: format and, shortened, the SHA-256 of scales and zero points. It is
// "float" where the weight is not quantized.
func Fingerprint(set *tqc.Set, node graph.NodeID) string {
	id := set.Input(node, weightInput)
	if id == tqc.NoSlot || !set.Slot(id).State().Quantizes() {
		return "float"
	}
	c, p := set.Slot(id).Config, set.Params(id)
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %d %s %d %d\n", c.Policy, c.Bits, c.QMin, c.QMax, c.Rounding, c.Axis, c.GroupSize)
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
		case v == graph.NoValue && e.Added:
			AddBias(g, id, e.Input, e.Value.Shape)
		case v != graph.NoValue && g.Const(v) != nil:
			if _, sole := g.SoleUse(v); !sole {
				g.SetInput(id, e.Input, g.AddConst(g.Value(v).Name, g.Const(v)))
			}
		}
	}
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
		if ok && set != nil && set.Domains[id] != tqc.DomainINT8 {
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

const (
	format  = "qwb overlay"
	version = "1"
)

// note is what stands in the metadata for an entry.
type note struct {
	Node  string `json:"node"`
	Input int    `json:"input"`
	Base  string `json:"base"`
	Added bool   `json:"added,omitempty"`
	For   string `json:"for"`
}

// Encode returns the file form, a safetensors file: equal overlays are equal bytes.
func (o *Overlay) Encode() ([]byte, error) {
	s := &checkpoint.Safetensors{Metadata: map[string]string{"format": format, "version": version}}
	sorted := Overlay{Entries: slices.Clone(o.Entries)}
	sorted.sort()
	for _, e := range sorted.Entries {
		n, err := json.Marshal(note{e.Node, e.Input, e.Base, e.Added, e.For})
		if err != nil {
			return nil, err
		}
		s.Metadata["entry "+e.At()] = string(n)
		var b []byte
		for _, x := range e.Value.ToRowMajor().F32() {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		s.Arrays = append(s.Arrays, checkpoint.SafeArray{Name: e.At(), DType: "F32", Shape: e.Value.Shape, Data: b})
	}
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Parse reads the file form. Values that are not finite are an error.
func Parse(b []byte) (*Overlay, error) {
	s, err := checkpoint.ParseSafetensors(b)
	if err != nil {
		return nil, fmt.Errorf("overlay: %w", err)
	}
	if s.Metadata["format"] != format || s.Metadata["version"] != version {
		return nil, fmt.Errorf("overlay: the file is %q version %q, not %q version %q", s.Metadata["format"], s.Metadata["version"], format, version)
	}
	o := &Overlay{}
	for _, a := range s.Arrays {
		var n note
		if err := json.Unmarshal([]byte(s.Metadata["entry "+a.Name]), &n); err != nil {
			return nil, fmt.Errorf("overlay: tensor %q: its entry cannot be read: %w", a.Name, err)
		}
		e := Entry{Node: n.Node, Input: n.Input, Base: n.Base, Added: n.Added, For: n.For}
		if e.At() != a.Name || n.Input < 0 || a.DType != "F32" {
			return nil, fmt.Errorf("overlay: tensor %q (%s) with the entry of %q", a.Name, a.DType, e.At())
		}
		x := make([]float32, len(a.Data)/4)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*i:]))
			if x[i]-x[i] != 0 {
				return nil, fmt.Errorf("overlay: tensor %q: element %d is not finite", a.Name, i)
			}
		}
		e.Value = tensor.FromF32(x, a.Shape...)
		o.Entries = append(o.Entries, e)
	}
	o.sort()
	return o, nil
}

// Hash is the SHA-256 of a file's bytes, in hexadecimal: what a plan records.
func Hash(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

const extension = ".safetensors"

// FileName is where an overlay with a hash stands: PLAN.tuned.HASH8.safetensors, PLAN being the plan's file without .plan.json. What is
// written once is never overwritten: another content has another name.
func FileName(planFile, hash string) string {
	return strings.TrimSuffix(planFile, ".plan.json") + ".tuned." + hash[:8] + extension
}

// Belongs reports whether a file, by its name, is an overlay of a plan; both are in the same folder.
func Belongs(planFile, name string) bool {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(planFile, ".plan.json")+".tuned.")
	hash, ok2 := strings.CutSuffix(rest, extension)
	return ok && ok2 && len(hash) == 8 && strings.Trim(hash, "0123456789abcdef") == ""
}
