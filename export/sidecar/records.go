package sidecar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/quantizer/tqc"
)

// Ascend: a record for each weighted operator and average pool. Zero points are those of int8.

// recordedOps are the operators that have a record.
var recordedOps = []string{"Conv", "ConvTranspose", "Gemm", "AveragePool"}

func records(in *export.Input, list []table.Tensor) ([]byte, error) {
	g := in.Model.Graph
	at := byValue(list)
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, id := range order {
		n := g.Node(id)
		if in.Set.Domains[id] != tqc.DomainInt || !slices.Contains(recordedOps, n.Op) {
			continue
		}
		x, w := at[n.Input(0)], at[n.Input(1)]
		if x == nil || n.Op != "AveragePool" && w == nil {
			return nil, g.ErrorAt("export ascend", id, fmt.Errorf("its input or its weight is not quantized"))
		}
		shape := g.Value(n.Inputs[0]).Shape
		size := [3]int64{0, 1, 1}
		for i := range size {
			if i+1 < len(shape) && shape[i+1].Known() {
				size[i] = shape[i+1].N
			}
		}
		if len(shape) != 2 && len(shape) != 4 || size[0] == 0 {
			return nil, g.ErrorAt("export ascend", id, fmt.Errorf("an input of shape %s: a record has channels, height and width", shape))
		}
		fmt.Fprintf(&b, "record {\n  key: %s\n  value {\n    scale_d: %s\n    offset_d: %d\n", strconv.Quote(n.Name),
			decimal(float64(x.Grid(0).Scale)), x.Grid(0).ZeroPoint-128)
		if w != nil && n.Op != "AveragePool" {
			for c := range w.Params.Scale {
				fmt.Fprintf(&b, "    scale_w: %s\n", decimal(float64(w.Grid(c).Scale)))
			}
			for c := range w.Params.Scale {
				fmt.Fprintf(&b, "    offset_w: %d\n", w.Grid(c).ZeroPoint)
			}
		}
		fmt.Fprintf(&b, "    channels: %d\n    height: %d\n    width: %d\n  }\n}\n", size[0], size[1], size[2])
	}
	return []byte(b.String()), nil
}

func readRecords(b []byte, g *graph.Graph) (list []table.Entry, err error) {
	var node *graph.Node
	var data, weight map[string][]float64
	seen := map[string]bool{}
	finish := func() {
		if node == nil {
			return
		}
		x := entry(g.Value(node.Input(0)).Name, -128, data["scale_d"], data["offset_d"])
		if !seen[x.Name] { // several operators may read a tensor
			list = append(list, x)
		}
		seen[x.Name] = true
		if len(weight) > 0 {
			w := entry(g.Value(node.Input(1)).Name, -128, weight["scale_w"], weight["offset_w"])
			list = append(list, w)
		}
	}
	for i, line := range strings.Split(string(b), "\n") {
		key, value, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			continue
		}
		if key == "key" {
			finish()
			name, err := strconv.Unquote(value)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			data, weight, node = map[string][]float64{}, map[string][]float64{}, nil
			if id, ok := g.LookupNode(name); ok {
				node = g.Node(id)
			} else {
				list = append(list, table.Entry{Name: name, Axis: -1})
			}
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if data == nil {
			return nil, fmt.Errorf("line %d: %s before a key", i+1, key)
		}
		if strings.HasSuffix(key, "_w") {
			weight[key] = append(weight[key], v)
		} else {
			data[key] = append(data[key], v)
		}
	}
	finish()
	return list, nil
}
