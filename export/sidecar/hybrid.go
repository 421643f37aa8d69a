package sidecar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/internal/strictyaml"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// RKNN: YAML with the layers that are not int8, by the tensor that they compute, and the parameters of every tensor, of int8 codes.

func hybrid(in *export.Input, list []table.Tensor) ([]byte, error) {
	g := in.Model.Graph
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("custom_quantize_layers:")
	none := true
	for _, id := range order {
		if !in.Set.Domains[id].Float() {
			continue
		}
		for i, v := range g.Node(id).Outputs {
			if v != graph.NoValue && target.DataOutput(g, id, i) {
				fmt.Fprintf(&b, "\n    %s: float16", scalar(g.Value(v).Name))
				none = false
			}
		}
	}
	if none {
		b.WriteString(" {}")
	}
	b.WriteString("\nquantize_parameters:\n")
	for i := range list {
		t := &list[i]
		method, qtype := "layer", "asymmetric_quantized"
		if t.Config.Policy.Has(tqc.PerChannel) {
			method = "channel"
		}
		if t.Config.Policy.Has(tqc.Symmetric) {
			qtype = "symmetric_quantized"
		}
		var scale, zero, lo, hi []string
		for c := range t.Params.Scale {
			l, h := full(t, c)
			z := int(t.Grid(c).ZeroPoint)
			if !t.Config.Signed() {
				z -= 128
			}
			scale, zero, lo, hi = append(scale, decimal(float64(t.Grid(c).Scale))), append(zero, strconv.Itoa(z)), append(lo, decimal(l)),
				append(hi, decimal(h))
		}
		one := func(l []string) string { return "[" + strings.Join(l, ", ") + "]" }
		fmt.Fprintf(&b, "    %s:\n        qtype: %s\n        qmethod: %s\n        dtype: int8\n        min: %s\n        max: %s\n        "+
			"scale: %s\n        zero_point: %s\n        ori_min: %s\n        ori_max: %s\n",
			scalar(t.Name), qtype, method, one(lo), one(hi), one(scale), one(zero), one(lo), one(hi))
	}
	return []byte(b.String()), nil
}

// scalar is a name in YAML.
func scalar(name string) string {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' {
			return strconv.Quote(name)
		}
	}
	return name
}

func readHybrid(b []byte, g *graph.Graph) (list []table.Entry, err error) {
	both, err := readHybridTwice(b, g)
	for i := 0; i < len(both); i += 2 {
		list = append(list, both[i])
	}
	return list, err
}

// readHybridTwice lists each tensor with its range, and once more with its original one, which is the same.
func readHybridTwice(b []byte, _ *graph.Graph) (list []table.Entry, err error) {
	var file struct {
		Custom     map[string]string `yaml:"custom_quantize_layers"`
		Parameters yaml.MapSlice     `yaml:"quantize_parameters"`
	}
	own := strictyaml.Limits{Own: true}
	if err := strictyaml.Decode(b, &file, own); err != nil {
		return nil, err
	}
	for _, item := range file.Parameters {
		text, err := yaml.Marshal(item.Value)
		if err != nil {
			return nil, err
		}
		var p struct {
			QType string    `yaml:"qtype"`
			DType string    `yaml:"dtype"`
			Scale []float64 `yaml:"scale"`
			Zero  []float64 `yaml:"zero_point"`
			Lo    []float64 `yaml:"min"`
			Hi    []float64 `yaml:"max"`
			OriLo []float64 `yaml:"ori_min"`
			OriHi []float64 `yaml:"ori_max"`
		}
		if err := strictyaml.Decode(text, &p, own); err != nil {
			return nil, fmt.Errorf("%v: %w", item.Key, err)
		}
		e := entry(fmt.Sprint(item.Key), -128, p.Scale, p.Zero)
		if p.DType != "int8" || !slices.Contains([]string{"asymmetric_quantized", "symmetric_quantized"}, p.QType) {
			e.Fault = fmt.Sprintf("dtype %q, qtype %q", p.DType, p.QType)
		}
		if e.Lo, e.Hi = p.Lo, p.Hi; len(p.Lo) != len(p.Scale) || len(p.Hi) != len(p.Scale) {
			e.Fault = "not as many ends of ranges as scales"
		}
		again := e
		again.Lo, again.Hi = p.OriLo, p.OriHi
		list = append(list, e, again)
	}
	return list, nil
}
