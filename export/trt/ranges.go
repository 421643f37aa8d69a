// Package trt writes what TensorRT up to 10 takes in place of Q/DQ: a float model, and beside it a calibration cache or the ranges of its
// tensors. The form of the cache is that of TensorRT's own (NVIDIA/TensorRT, samples/common of release 10.0, reads it; issue 2958 shows
// one), that of PPQ's files that of ppq/parser/tensorRT.py and ppq/utils/TensorRTUtil.py.
//
// Unstable: it may change without notice.
package trt

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/internal/arrange"
	"qwb/quantizer/target"
)

// Entry is the scale of a tensor: its range is -127*Scale to 127*Scale.
type Entry struct {
	Name  string
	Scale float32
}

// entries lists the tensors that have a scale, in the order of the graph: those that the plan quantizes, and those that operators which
// only move or select elements make of them or make them of, for TensorRT runs these on integers where both sides have a range.
func entries(in *export.Input, list []table.Tensor) (out []Entry) {
	g := in.Model.Graph
	scales := map[graph.ValueID]float32{}
	for i := range list {
		if t := &list[i]; t.Encoded() && !t.Kind.Constant() {
			scales[t.Value] = t.Grid(0).Scale
		}
	}
	moves := func(id graph.NodeID) bool {
		op, err := in.Target.Supports(g, id)
		return err == nil && op.Role == target.Passive
	}
	order, _ := g.Order() // table.Of has asked before
	spread := func(from, to []graph.ValueID) {
		for _, v := range from {
			if s, ok := scales[v]; ok && v != graph.NoValue {
				for _, w := range to {
					if _, own := scales[w]; !own && w != graph.NoValue && target.IsFloat(g, w) && g.Const(w) == nil {
						scales[w] = s
					}
				}
				return
			}
		}
	}
	for _, id := range slices.Backward(order) {
		if moves(id) {
			spread(g.Node(id).Outputs, g.Node(id).Inputs[:lastData(g, id)])
		}
	}
	for _, id := range order {
		if moves(id) {
			spread(g.Node(id).Inputs[:1], g.Node(id).Outputs)
		}
	}
	for i := range list {
		t := &list[i]
		if t.Kind.Constant() {
			continue
		}
		if s, ok := scales[t.Value]; ok {
			out = append(out, Entry{t.Name, s})
		}
	}
	return out
}

// lastData is how many inputs of a node that moves elements carry them: all of Concat, else the first.
func lastData(g *graph.Graph, id graph.NodeID) int {
	if n := g.Node(id); n.Op == "Concat" {
		return len(n.Inputs)
	}
	return 1
}

// cacheHeader is the first line of a cache.
var cacheHeader = regexp.MustCompile(`^TRT-[0-9]+-(EntropyCalibration2?|MinMaxCalibration|LegacyCalibration)$`)

// Cache returns the text of a cache: a header, and the scale of each tensor as the 8 hexadecimal digits of its float32.
func Cache(version int64, algorithm string, list []Entry) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "TRT-%d-%s\n", version, algorithm)
	for _, e := range list {
		fmt.Fprintf(&b, "%s: %08x\n", e.Name, math.Float32bits(e.Scale))
	}
	return b.Bytes()
}

// ParseCache reads a cache; its header is the first result. Names may have colons and blanks. What is wrong with a line is an error that
// has its number.
func ParseCache(text []byte) (header string, list []Entry, err error) {
	s := bufio.NewScanner(bytes.NewReader(text))
	for line := 1; s.Scan(); line++ {
		words := strings.TrimRight(s.Text(), "\r \t")
		if line == 1 {
			header = words
			continue
		}
		if words == "" {
			continue
		}
		at := strings.LastIndexByte(words, ':')
		if at <= 0 {
			return header, nil, fmt.Errorf("line %d: no colon between name and scale", line)
		}
		code, err := hex.DecodeString(strings.TrimSpace(words[at+1:]))
		if err != nil || len(code) != 4 {
			return header, nil, fmt.Errorf("line %d: %q is not the 8 hexadecimal digits of a float32", line, strings.TrimSpace(words[at+1:]))
		}
		bits := uint32(code[0])<<24 | uint32(code[1])<<16 | uint32(code[2])<<8 | uint32(code[3])
		list = append(list, Entry{words[:at], math.Float32frombits(bits)})
	}
	if err := s.Err(); err != nil {
		return header, nil, err
	}
	if !cacheHeader.MatchString(header) {
		return header, nil, fmt.Errorf("line 1: %q is no header TRT-VERSION-ALGORITHM", header)
	}
	return header, list, nil
}

// span is the range of a tensor in our file of ranges.
type span struct {
	Name  string  `json:"name"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Scale float32 `json:"scale"`
}

// spans is our file of ranges.
type spans struct {
	Ranges []span `json:"ranges"`
}

// ParseRanges reads a file of ranges: ours, or PPQ's, which has the largest magnitude for each name.
func ParseRanges(text []byte) ([]Entry, error) {
	var file struct {
		Ranges []span             `json:"ranges"`
		PPQ    map[string]float64 `json:"act_quant_info"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	if file.Ranges == nil && file.PPQ == nil {
		return nil, fmt.Errorf("neither ranges nor act_quant_info")
	}
	var list []Entry
	for _, r := range file.Ranges {
		if r.Min != -r.Max {
			return nil, fmt.Errorf("%q goes from %g to %g: TensorRT's ranges are symmetric", r.Name, r.Min, r.Max)
		}
		scale := float32(r.Max / 127)
		if r.Scale != 0 && math.Abs(float64(r.Scale)*127-r.Max) > 1e-6*r.Max {
			return nil, fmt.Errorf("%q has the scale %g and goes to %g, which is not 127 times that", r.Name, r.Scale, r.Max)
		} else if r.Scale != 0 {
			scale = r.Scale
		}
		list = append(list, Entry{r.Name, scale})
	}
	for name, most := range file.PPQ {
		list = append(list, Entry{name, float32(most / 127)})
	}
	if file.PPQ != nil {
		arrange.Stable(list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	}
	return list, nil
}

// Parse reads a cache or a file of ranges, whichever it is.
func Parse(text []byte) ([]Entry, error) {
	if t := bytes.TrimLeft(text, " \t\r\n"); len(t) > 0 && t[0] == '{' {
		return ParseRanges(text)
	}
	_, list, err := ParseCache(text)
	return list, err
}

// weights is PPQ's text of parameters: how many there are, then name, number of elements,
// and each element as the hexadecimal digits of its float32.
func weights(g *graph.Graph, list []table.Tensor) []byte {
	var lines []string
	for i := range list {
		t := &list[i]
		if !t.Kind.Constant() || !computes(g, t.Node) {
			continue
		}
		v := t.Value
		if len(t.Uses) > 0 { // a copy has numbers of its own
			v = g.Node(t.Uses[0].Node).Inputs[t.Uses[0].Index]
		}
		x := g.Const(v).ToRowMajor().F32()
		line := make([]byte, 0, len(t.Name)+9*len(x)+12)
		line = append(append(line, t.Name...), ' ')
		line = strconv.AppendInt(line, int64(len(x)), 10)
		for _, v := range x {
			line = fmt.Appendf(line, " %08x", math.Float32bits(v))
		}
		lines = append(lines, string(line))
	}
	return []byte(fmt.Sprintf("%d\n%s\n", len(lines), strings.Join(lines, "\n")))
}

func computes(g *graph.Graph, id graph.NodeID) bool {
	spec := g.Node(id).Spec()
	return spec != nil && spec.Kind == graph.KindComputing
}

// parameter is one of PPQ's text of parameters.
type parameter struct {
	name   string
	values []float32
}

// parseWeights reads PPQ's text of parameters.
func parseWeights(text []byte) ([]parameter, error) {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	count, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || count != len(lines)-1 {
		return nil, fmt.Errorf("the first line says %q parameters, and %d follow", lines[0], len(lines)-1)
	}
	var list []parameter
	for i, line := range lines[1:] {
		words := strings.Fields(line)
		if len(words) < 2 {
			return nil, fmt.Errorf("line %d: no name and number of elements", i+2)
		}
		n, err := strconv.Atoi(words[1])
		if err != nil || n != len(words)-2 {
			return nil, fmt.Errorf("line %d: %s elements are announced, and %d follow", i+2, words[1], len(words)-2)
		}
		p := parameter{words[0], make([]float32, n)}
		for k, w := range words[2:] {
			bits, err := strconv.ParseUint(w, 16, 32)
			if err != nil || len(w) != 8 {
				return nil, fmt.Errorf("line %d: %q is not the 8 hexadecimal digits of a float32", i+2, w)
			}
			p.values[k] = math.Float32frombits(uint32(bits))
		}
		list = append(list, p)
	}
	return list, nil
}
