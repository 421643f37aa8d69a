package analysis

import (
	"errors"
	"fmt"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// ValueInfo is an input or output of the model. Dimensions are numbers, or symbols where they are open.
type ValueInfo struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []any  `json:"shape"`
}

// NodeInfo is what one execution of a node costs, as far as shapes are known.
type NodeInfo struct {
	Name  string `json:"name"`
	Op    string `json:"op"`
	Shape []any  `json:"shape"` // of the first output
	// Inputs and Outputs are names of values, constants included, "" where an optional one is absent; what graphs inside the node read from
	// around them follows the inputs. Nodes stand in canonical order, so what a node reads is an output of an earlier one, an input of the
	// model or a constant.
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
	MACs    int64    `json:"macs"`
	Bytes   int64    `json:"bytes"` // read and written: inputs, parameters, outputs
	// Intensity is the arithmetic intensity: two operations per multiply-accumulate, over Bytes.
	Intensity float64 `json:"intensity"`
	// With a roofline: what bounds the node ("memory" or "compute"), its least time, and by what factor INT8 can shorten that.
	Bound   string  `json:"bound,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Gain    float64 `json:"int8_gain,omitempty"`

	floatBytes int64 // of Bytes, those of float32
	open       bool  // MACs or Bytes are not all: sizes are not known
	outer      bool  // there are graphs inside, whose bytes are not counted
	view       bool  // isView
}

// OpCount is how often an operator occurs.
type OpCount struct {
	Op      string `json:"op"`
	Version int64  `json:"version"` // of the operator set that the model imports for it
	Count   int    `json:"count"`
	MACs    int64  `json:"macs"`
	Bytes   int64  `json:"bytes"`
	Open    int    `json:"open,omitempty"` // nodes whose MACs depend on sizes that are not known, which count as 0
}

// PlatformInfo is what a target would quantize without further instructions.
type PlatformInfo struct {
	Platform string  `json:"platform"`
	INT8     int     `json:"int8"` // nodes
	FP32     int     `json:"fp32"`
	SOI      int     `json:"soi"`
	Borders  int     `json:"borders"`
	Float    string  `json:"float"`     // where the rest is computed: native, host, absent
	MACs     float64 `json:"macs_int8"` // share of the multiply-accumulates that run on integers
}

// Unsupported is an operator that qwb cannot execute.
type Unsupported struct {
	Op      string   `json:"op"`
	Domain  string   `json:"domain"`
	Version int64    `json:"version"`
	Reason  string   `json:"reason,omitempty"`
	Nodes   []string `json:"nodes"`
}

// Inspection is what is in a model.
type Inspection struct {
	Model      string      `json:"model"`
	Opset      int64       `json:"opset"`
	Inputs     []ValueInfo `json:"inputs"`
	Outputs    []ValueInfo `json:"outputs"`
	Nodes      []NodeInfo  `json:"nodes"`
	Ops        []OpCount   `json:"ops"`
	Bodies     []BodyInfo  `json:"bodies,omitempty"` // of If, Loop and Scan; their nodes are not among Nodes and Ops
	Parameters int64       `json:"parameters"`       // number of constant elements, bodies included
	Bytes      int64       `json:"parameter_bytes"`
	MACs       int64       `json:"macs"`
	Open       int         `json:"open,omitempty"` // nodes, bodies included, whose MACs depend on sizes that are not known, which count as 0
	// Peak is the most memory that values take at a time when nodes run in order and values end with their last reader: a bound for
	// an executor that keeps nothing else. Parameters and values of unknown shape do not count.
	Peak        int64          `json:"peak_bytes"`
	Roofline    *Roofline      `json:"roofline,omitempty"`
	Unsupported []Unsupported  `json:"unsupported"`
	Platforms   []PlatformInfo `json:"platforms"`
	Support     *Support       `json:"support,omitempty"` // where operators run on the platform that was asked for
}

// Inspect describes a graph with inferred shapes, which it does not change: nodes in canonical order, operators sorted by the
// work they do. platformGraph is the normal form of the same graph, on which targets decide; nil leaves the platforms out.
func Inspect(name string, g, platformGraph *graph.Graph, platforms []*target.Target) (*Inspection, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	r := &Inspection{Model: name, Opset: g.Opset(""), Inputs: []ValueInfo{}, Outputs: []ValueInfo{}, Nodes: []NodeInfo{},
		Unsupported: []Unsupported{}}
	for _, v := range g.Inputs {
		if g.Const(v) == nil {
			r.Inputs = append(r.Inputs, valueInfo(g, v))
		}
	}
	for _, v := range g.Outputs {
		r.Outputs = append(r.Outputs, valueInfo(g, v))
	}
	one := oneSample(g)
	r.Peak = peakBytes(one, order)
	at := map[string]int{}
	for _, id := range order {
		n := nodeInfo(g, one, id)
		inside := bodies(one, id)
		_, known := one.MACs(id)
		open := 0
		for _, b := range inside {
			n.MACs, n.outer = max(n.MACs, b.MACs), true
			open += b.Open
		}
		if !known {
			open++
		}
		n.open = n.open || open > 0
		r.Nodes = append(r.Nodes, n)
		r.Bodies = append(r.Bodies, inside...)
		r.MACs += n.MACs
		i, ok := at[n.Op]
		if !ok {
			i = len(r.Ops)
			at[n.Op] = i
			r.Ops = append(r.Ops, OpCount{Op: n.Op, Version: g.Opset(g.Node(id).Domain)})
		}
		r.Ops[i].Count++
		r.Ops[i].MACs += n.MACs
		r.Ops[i].Open += min(open, 1)
		r.Open += open
		r.Ops[i].Bytes += n.Bytes
	}
	whole := measure(g)
	r.Parameters, r.Bytes = whole.Parameters, whole.Bytes
	var missing *exec.UnsupportedError
	var full *exec.MemoryError // what is supported is known before constants are folded
	if _, err := exec.New(g, exec.Options{Memory: inspectMemory}); errors.As(err, &missing) {
		for _, op := range missing.Ops {
			r.Unsupported = append(r.Unsupported, Unsupported{Op: op.Op, Domain: op.Domain, Version: op.Version, Reason: op.Reason, Nodes: op.Nodes})
		}
	} else if err != nil && !errors.As(err, &full) {
		return nil, err
	}
	if platformGraph == nil {
		return r, nil
	}
	for _, t := range platforms {
		p, err := platformInfo(platformGraph, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		r.Platforms = append(r.Platforms, p)
	}
	return r, nil
}

func valueInfo(g *graph.Graph, id graph.ValueID) ValueInfo {
	v := g.Value(id)
	return ValueInfo{Name: v.Name, DType: v.DType.String(), Shape: dims(v.Shape)}
}

// dims lists sizes as numbers and open dimensions as their symbol or "?"; an unknown rank is null.
func dims(s graph.Shape) []any {
	if s == nil {
		return nil
	}
	out := make([]any, len(s))
	for i, d := range s {
		switch {
		case d.Known():
			out[i] = d.N
		case d.Symbol != "":
			out[i] = d.Symbol
		default:
			out[i] = "?"
		}
	}
	return out
}

// inspectMemory bounds what constants may take that are computed from others, which inspecting does not need.
const inspectMemory = 256 << 20

// oneSample is g for a batch of one: a symbol that is the leading dimension of an input is 1.
func oneSample(g *graph.Graph) *graph.Graph {
	batch := map[string]int64{}
	for _, v := range g.Inputs {
		if s := g.Value(v).Shape; len(s) > 0 && s[0].Symbol != "" {
			batch[s[0].Symbol] = 1
		}
	}
	if len(batch) == 0 {
		return g
	}
	one := g.Clone()
	graph.Bind(one, batch)
	return one
}

// sized reports whether the number of elements of a value is known.
func sized(g *graph.Graph, v graph.ValueID) bool {
	n, err := g.Value(v).Shape.Elements()
	return err == nil && n >= 0
}

// valueBytes is the size of a value, 0 where its shape is not known.
func valueBytes(g *graph.Graph, v graph.ValueID) int64 {
	if v == graph.NoValue {
		return 0
	}
	n, err := g.Value(v).Shape.Elements()
	if err != nil || n <= 0 {
		return 0
	}
	return (n*int64(g.Value(v).DType.Bits()) + 7) / 8
}

// peakBytes is Inspection.Peak.
func peakBytes(g *graph.Graph, order []graph.NodeID) int64 {
	last := make([]int, g.NumValues())
	for i, id := range order {
		for _, v := range g.Node(id).Inputs {
			if v != graph.NoValue {
				last[v] = i
			}
		}
	}
	for _, v := range g.Outputs {
		last[v] = len(order)
	}
	ends := make([]int64, len(order)+1)
	var held, peak int64
	hold := func(v graph.ValueID, born int) {
		if v != graph.NoValue && g.Const(v) == nil {
			bytes := valueBytes(g, v)
			held += bytes
			ends[max(last[v], born)] += bytes
		}
	}
	for _, v := range g.Inputs {
		hold(v, 0)
	}
	for i, id := range order {
		for _, v := range g.Node(id).Outputs {
			hold(v, i)
		}
		peak = max(peak, held)
		held -= ends[i]
	}
	return peak
}

// nodeInfo describes a node; one is the graph for one sample.
func nodeInfo(g, one *graph.Graph, id graph.NodeID) NodeInfo {
	n := g.Node(id)
	info := NodeInfo{Name: n.Name, Op: opName(n), Inputs: valueNames(g, reads(g, n)), Outputs: valueNames(g, n.Outputs), view: isView(n)}
	if len(n.Outputs) > 0 && n.Outputs[0] != graph.NoValue {
		info.Shape = dims(g.Value(n.Outputs[0]).Shape)
	}
	info.MACs, _ = one.MACs(id)
	for _, list := range [][]graph.ValueID{n.Inputs, n.Outputs} {
		for _, v := range list {
			bytes := valueBytes(one, v)
			info.Bytes += bytes
			info.open = info.open || v != graph.NoValue && !sized(one, v)
			if v != graph.NoValue && one.Value(v).DType == tensor.Float32 {
				info.floatBytes += bytes
			}
		}
	}
	if info.Bytes > 0 {
		info.Intensity = 2 * float64(info.MACs) / float64(info.Bytes)
	}
	return info
}

// valueNames are the names of values, "" for those that are absent.
func valueNames(g *graph.Graph, list []graph.ValueID) []string {
	names := make([]string, len(list))
	for i, v := range list {
		if v != graph.NoValue {
			names[i] = g.Value(v).Name
		}
	}
	return names
}

func platformInfo(g *graph.Graph, t *target.Target) (PlatformInfo, error) {
	a, err := dispatch.Assign(g, t, dispatch.Options{})
	if err != nil {
		return PlatformInfo{}, err
	}
	p := PlatformInfo{Platform: t.Name, Borders: len(a.Borders()), Float: t.Float.String()}
	for _, id := range g.Nodes() {
		switch a.Domains[id] {
		case tqc.DomainInt:
			p.INT8++
		case tqc.DomainSOI:
			p.SOI++
		default:
			p.FP32++
		}
	}
	if integer, total := a.Work(); total > 0 {
		p.MACs = float64(integer) / float64(total)
	}
	return p, nil
}
