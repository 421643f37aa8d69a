package trt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// kind is a form of the file beside the model.
type kind struct {
	name, doc, suffix string
	options           []export.Option
	text              func(in *export.Input, list []Entry) ([]byte, error)
	parse             func(text []byte) ([]Entry, error)
	weights           bool // PPQ's text of parameters is a third file
}

var kinds = []kind{
	{"trt-cache", "float ONNX, and beside it TensorRT's calibration cache (MODEL.cache)", ".cache", []export.Option{
		{Name: "trt-version", Kind: export.Whole, Min: 5000, Default: "100300",
			Doc: "version of TensorRT in the header: 8601 is 8.6.1, 100300 is 10.3.0; a builder calibrates again where it is another"},
		{Name: "algorithm", Kind: export.Choice, Choices: []string{"EntropyCalibration2", "EntropyCalibration", "MinMaxCalibration",
			"LegacyCalibration"},
			Doc: "calibrator in the header of the cache"}},
		func(in *export.Input, list []Entry) ([]byte, error) {
			return Cache(in.Options.Whole("trt-version"), in.Options.Text("algorithm"), list), nil
		},
		func(text []byte) ([]Entry, error) { _, list, err := ParseCache(text); return list, err }, false},
	{"trt-ranges", "float ONNX, and beside it the range of each tensor as JSON (MODEL.ranges.json)", ".ranges.json", nil,
		func(_ *export.Input, list []Entry) ([]byte, error) {
			file := spans{Ranges: []span{}}
			for _, e := range list {
				file.Ranges = append(file.Ranges, span{e.Name, -127 * float64(e.Scale), 127 * float64(e.Scale), e.Scale})
			}
			return json.MarshalIndent(file, "", " ")
		}, ParseRanges, false},
	{"ppq-trt", "float ONNX, and beside it PPQ's files for TensorRT: ranges (MODEL.json), parameters (MODEL.wts)", ".json", nil,
		func(_ *export.Input, list []Entry) ([]byte, error) {
			most := map[string]float64{}
			for _, e := range list {
				most[e.Name] = 127 * float64(e.Scale)
			}
			return json.MarshalIndent(map[string]any{"act_quant_info": most}, "", "    ")
		}, ParseRanges, true},
}

// Formats are what TensorRT up to 10 takes in place of Q/DQ.
func Formats() []export.Format {
	var list []export.Format
	for i := range kinds {
		k := &kinds[i]
		list = append(list, export.Format{Name: k.name, Doc: k.doc, Ext: ".onnx", From: export.Plan,
			Options:      append(slices.Clone(k.options), export.ExternalAbove, export.DocString),
			Note:         "for TensorRT up to 10: 11 has neither calibrators nor ranges",
			Experimental: "no TensorRT has read these files; their form is that of the sources",
			Check:        check, Write: k.write, Back: k.back, Rules: k.rules(), Doctor: k.doctor})
	}
	return list
}

// check refuses what a range for each tensor does not say: TensorRT's integers go from -127 to 127 for weights and -128 to 127 for the
// rest, with zero points 0. Weights are not in the files: TensorRT finds their scales itself.
func check(in *export.Input) error {
	g := in.Model.Graph
	if in.Target.Island != 0 {
		return fmt.Errorf("export: %s reads Q/DQ only: caches and ranges are for trt10_int8", in.Target.Name)
	}
	for i := range in.Set.NumSlots() {
		s := in.Set.Slot(tqc.SlotID(i))
		c := &s.Config
		if s.Weight || !s.State().Quantizes() || g.Const(s.Value) != nil {
			continue
		}
		if !c.Integer() || c.Bits != 8 || !c.Signed() || !c.Policy.Has(tqc.Symmetric|tqc.PerTensor) || c.RunTime() {
			return g.ErrorAt("export", s.Node, fmt.Errorf("%q is %s: TensorRT's ranges are of symmetric int8 tensors with one scale",
				g.Value(s.Value).Name, c.FormatName()))
		}
	}
	return nil
}

func (k *kind) write(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	list, err := table.Of(in)
	if err != nil {
		return nil, err
	}
	text, err := k.text(in, entries(in, list))
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := table.WriteModel(in, list, out); err != nil {
		return nil, err
	}
	files := map[string][]byte{k.suffix: text}
	order := []string{k.suffix}
	if k.weights {
		g, err := table.Baked(in, list)
		if err != nil {
			return nil, err
		}
		files[".wts"], order = weights(g, list), append(order, ".wts")
	}
	for _, suffix := range order {
		err := out.Write(export.Beside(out.Name(), suffix), func(w io.Writer) error {
			_, err := w.Write(files[suffix])
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (k *kind) rules() []export.Rule {
	list := []export.Rule{
		{Name: "form", Doc: "the file is what its reader parses: of a cache a header TRT-VERSION-ALGORITHM and lines NAME: 8 hexadecimal " +
			"digits, of ranges JSON", Fix: "write the line as the rule says"},
		{Name: "once", Doc: "a tensor has one entry", Fix: "take the second entry away"},
		{Name: "known", Doc: "every entry is of a tensor that the model has",
			Fix: "write the entry under the name that the tensor has in this model"},
		{Name: "positive", Doc: "scales are positive and finite", Fix: "give a tensor that is always 0 the scale of its neighbours"},
		{Name: "inputs", Doc: "what an operator reads whose result has an entry has one too: without both it is computed in float",
			Fix: "write the entry that is missing"},
	}
	if k.weights {
		list = append(list, export.Rule{Name: "parameters",
			Doc: "the text of parameters has those of the model's operators that sum products, whole", Fix: "write the parameters again"})
	}
	return list
}

func (k *kind) doctor(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
	text, m, err := table.Open(in, k.suffix)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	x := &examination{g: m.Graph, in: in, has: map[string]bool{}}
	list, err := k.parse(text)
	if err == nil && k.name != "trt-cache" {
		err = twice(text)
	}
	if err != nil {
		x.report("form", "", "%s: %v", export.Beside(in.Name, k.suffix), err)
	}
	x.examine(list)
	if k.weights {
		text, err := fs.ReadFile(in.FS, export.Beside(in.Name, ".wts"))
		if err != nil {
			return nil, err
		}
		x.parameters(text)
	}
	return x.found, nil
}

// twice reports a tensor that PPQ's file has twice, of which JSON's readers take one silently.
func twice(text []byte) error {
	var file struct {
		PPQ json.RawMessage `json:"act_quant_info"`
	}
	if err := json.Unmarshal(text, &file); err != nil || file.PPQ == nil {
		return err
	}
	seen := map[string]bool{}
	return table.Members(file.PPQ, func(name string, _ json.RawMessage) error {
		if seen[name] {
			return errors.New("it stands twice")
		}
		seen[name] = true
		return nil
	})
}

type examination struct {
	g     *graph.Graph
	in    *export.DoctorInput
	has   map[string]bool
	found []export.Finding
}

func (x *examination) report(rule, node, format string, args ...any) {
	x.found = append(x.found, export.Finding{Rule: rule, Node: node, Text: fmt.Sprintf(format, args...)})
}

func (x *examination) examine(list []Entry) {
	for _, e := range list {
		v, ok := x.g.Lookup(e.Name)
		switch {
		case x.has[e.Name]:
			x.report("once", e.Name, "a second entry")
		case !ok || x.g.Const(v) != nil:
			x.report("known", e.Name, "the model has no such tensor")
		case !(e.Scale > 0) || math.IsInf(float64(e.Scale), 0):
			x.report("positive", e.Name, "the scale is %g", e.Scale)
		}
		x.has[e.Name] = true
	}
	for _, id := range x.g.Nodes() {
		n := x.g.Node(id)
		op := x.in.Target.Op(n)
		if op == nil || op.Role == target.Activation || n.Output(0) == graph.NoValue || !x.has[x.g.Value(n.Outputs[0]).Name] &&
			!(x.in.Integer != nil && x.in.Integer(n.Name) && op.Role == target.Weighted) {
			continue
		}
		for _, i := range target.DataInputs(x.g, id) {
			v := n.Inputs[i]
			if x.g.Const(v) == nil && !x.has[x.g.Value(v).Name] &&
				(op.Role == target.Weighted || op.Role == target.Passive && i < lastData(x.g, id)) {
				x.report("inputs", n.Name, "input %d, %q, has no entry", i, x.g.Value(v).Name)
			}
		}
	}
}

// parameters compares PPQ's text with the constants of the model.
func (x *examination) parameters(text []byte) {
	list, err := parseWeights(text)
	if err != nil {
		x.report("parameters", "", "%v", err)
		return
	}
	has := map[string]int{}
	for _, p := range list {
		has[p.name] = len(p.values)
	}
	for _, id := range x.g.Nodes() {
		if !computes(x.g, id) {
			continue
		}
		for _, v := range x.g.Node(id).Inputs {
			if v == graph.NoValue || x.g.Const(v) == nil {
				continue
			}
			if name := x.g.Value(v).Name; has[name] != x.g.Const(v).Len() {
				x.report("parameters", name, "%d elements, the model has %d", has[name], x.g.Const(v).Len())
			}
		}
	}
}
