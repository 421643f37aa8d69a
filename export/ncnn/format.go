package ncnn

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/export"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// Ext is how the names of networks end; the weights stand beside them, in a file that ends in .bin.
const Ext = ".param"

// Formats are ncnn's files: the network on integers, and the float network with the table that ncnn2int8 makes that of.
func Formats() []export.Format {
	only := []string{"ncnn_int8"}
	return []export.Format{
		{Name: "ncnn", Doc: "ncnn's network on integers: layers as text, and their weights beside it in a file .bin", Ext: Ext, From: export.Plan,
			Targets: only,
			Note: "ncnn has no batches: feed one sample without its first axis. Two networks run alike only with the same settings of " +
				"fp16 storage.",
			Check: check, Write: writeNet, Rules: rules(), Doctor: doctor, Look: look, Back: back},
		{Name: "ncnn-table", Doc: "the float network and the table of scales that ncnn2int8 makes it one on integers with", Ext: ".table",
			From: export.Plan, Targets: only, Check: check, Write: writeTable, Rules: tableRules(), Doctor: tableDoctor,
			Back: backTable},
	}
}

// check refuses what ncnn cannot hold, before anything is verified.
func check(in *export.Input) error {
	n, err := build(in, false)
	in.State = n
	return err
}

func writeNet(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	n, _ := in.State.(*net)
	return warnings(in, n), writeFiles(n, out, out.Name())
}

// warnings say what the numbers of layers do not: where ncnn computes otherwise than the plan.
func warnings(in *export.Input, n *net) []tqc.Warning {
	var list []tqc.Warning
	for _, v := range in.Model.Graph.Inputs {
		if val := in.Model.Graph.Value(v); val.Const == nil && val.DType != tensor.Float32 {
			list = append(list, tqc.Warning{Text: fmt.Sprintf("input %q is %s in the model: ncnn is fed with the same numbers as float32",
				val.Name, val.DType)})
		}
	}
	integers, wide := 0, ""
	for i := range n.layers {
		l := &n.layers[i]
		if l.scale != 0 {
			integers++
		}
		if l.integer(keyFeatures, 0)&noWinograd != 0 && wide == "" {
			wide = l.of
		}
	}
	if wide != "" {
		list = append(list, tqc.Warning{Node: wide, Text: "weights of a 3x3 convolution have more than 6 bits: the file tells ncnn not to use " +
			"Winograd's transformation there (31=64), which is slower"})
	}
	return list
}

// writeFiles writes the two files of a network.
func writeFiles(n *net, out *export.Output, name string) error {
	if err := out.Write(name, n.writeParam); err != nil {
		return err
	}
	return out.Write(binName(name), n.writeBin)
}

// ofWeights ends the name of a layer in the line of its weights.
const ofWeights = "_param_0"

// networkOf is the name of the network beside a table.
func networkOf(table string) string { return strings.TrimSuffix(table, ".table") + Ext }

func binName(param string) string {
	return strings.TrimSuffix(param, Ext) + ".bin"
}

// writeTable writes the table, and the float network with layers of the same names.
func writeTable(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	if strings.HasSuffix(out.Name(), Ext) {
		return nil, fmt.Errorf("export ncnn-table: %s is the name of a network: -o names the table, NAME.table, and the network beside "+
			"it is NAME%s", out.Name(), Ext)
	}
	n, _ := in.State.(*net)
	float, err := build(in, true)
	if err != nil {
		return nil, err
	}
	if err := out.Write(out.Name(), n.writeTable); err != nil {
		return nil, err
	}
	return nil, writeFiles(float, out, networkOf(out.Name()))
}

// writeTable writes the factors of all layers on integers: first those of weights, NAME_param_0, one for each output channel or group, then
// those of inputs, NAME. Numbers have the nine digits that give a float32 back.
func (n *net) writeTable(w io.Writer) error {
	var weights, inputs strings.Builder
	for i := range n.layers {
		l := &n.layers[i]
		if l.scale == 0 {
			continue
		}
		scales := l.scales()
		if l.typ == "ConvolutionDepthWise" && len(scales) == 1 {
			scales = spread(scales, l.integer(7, 1)) // ncnn2int8 reads one for each group
		}
		weights.WriteString(l.name + ofWeights)
		for _, s := range scales {
			weights.WriteString(" " + digits(s))
		}
		weights.WriteByte('\n')
		fmt.Fprintf(&inputs, "%s %s\n", l.name, digits(l.scale))
	}
	_, err := io.WriteString(w, weights.String()+inputs.String())
	return err
}

func digits(x float32) string { return strconv.FormatFloat(float64(x), 'g', 9, 32) }

// scales are the factors of the weights of a layer on integers: behind weights and bias.
func (l *layer) scales() []float32 { return l.weights[1+truth(l.integer(keyBias(l), 0) != 0)].floats }

// reporter collects findings.
func reporter(list *[]export.Finding) func(rule, node, format string, a ...any) {
	return func(rule, node, format string, a ...any) {
		*list = append(*list, export.Finding{Rule: rule, Node: node, Text: fmt.Sprintf(format, a...)})
	}
}

// doctor reads the two files of a network.
func doctor(_ context.Context, in *export.DoctorInput) (list []export.Finding, err error) {
	text, err := in.Bytes()
	if err != nil {
		return nil, err
	}
	report := reporter(&list)
	n, err := parse(text, report)
	if err != nil {
		return nil, err
	}
	b, err := fs.ReadFile(in.FS, binName(in.Name))
	if err != nil {
		return nil, err
	}
	n.load(b, report)
	n.examine(report)
	return list, nil
}

// look says what a network is as a whole.
func look(_ context.Context, in *export.DoctorInput) (*export.AsWhole, error) {
	text, err := in.Bytes()
	if err != nil {
		return nil, err
	}
	n, err := parse(text, func(string, string, string, ...any) {})
	if err != nil {
		return nil, err
	}
	w := &export.AsWhole{}
	for i := range n.layers {
		w.Narrow = w.Narrow || quantizes[n.layers[i].typ] && n.layers[i].integer(keyInt8, 0) != 0
	}
	return w, nil
}

func tableRules() []export.Rule {
	return []export.Rule{
		{Name: "table-layers", Doc: "every line is about a layer of the network beside it that ncnn2int8 quantizes",
			Fix: "keep the files of one export together"},
		{Name: "table-pairs", Doc: "a layer has a line of weights, NAME_param_0, and one of its input, NAME, each once",
			Fix: "take both lines of a layer out, or none"},
		{Name: "table-scales", Doc: "there is one scale for each output or group, and one for the input, all positive numbers; that of a " +
			"channel of zeros may be 0",
			Fix: "export again"},
	}
}

// tableDoctor reads a table and the network beside it.
func tableDoctor(_ context.Context, in *export.DoctorInput) (list []export.Finding, err error) {
	text, err := in.Bytes()
	if err != nil {
		return nil, err
	}
	param, err := fs.ReadFile(in.FS, networkOf(in.Name))
	if err != nil {
		return nil, err
	}
	report := reporter(&list)
	n, err := parse(param, func(string, string, string, ...any) {})
	if err != nil {
		return nil, err
	}
	layers := map[string]*layer{}
	for i := range n.layers {
		layers[n.layers[i].name] = &n.layers[i]
	}
	lines := map[string]int{}
	for _, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		name, of := strings.CutSuffix(words[0], ofWeights)
		l := layers[name]
		if l == nil || !quantizes[l.typ] {
			report("table-layers", name, "there is no such layer that is quantized")
			continue
		}
		lines[words[0]]++
		want := 1
		if of {
			want = l.integer(0, 0)
			if l.typ == "ConvolutionDepthWise" {
				want = l.integer(7, 1)
			}
		}
		for _, word := range words[1:] {
			x, err := strconv.ParseFloat(word, 32)
			if err != nil || !(x > 0) && !(of && x == 0) || math.IsInf(x, 0) {
				report("table-scales", name, "scale %q", word)
				break
			}
		}
		if len(words)-1 != want {
			report("table-scales", words[0], "%d scales for %d", len(words)-1, want)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		name, of := strings.CutSuffix(key, ofWeights)
		if lines[key] > 1 || of && lines[name] == 0 || !of && lines[name+ofWeights] == 0 {
			report("table-pairs", name, "%d lines %s", lines[key], key)
		}
	}
	return list, nil
}
