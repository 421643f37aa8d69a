// Package sidecar writes the formats of PPQ's platforms that are a float model and a file beside it: JSON or text with the scales or ranges
// of its tensors. The forms are those that PPQ's exporters write (commit e39eecb, ppq/parser), without what is wrong with them: each tensor
// once, scales per channel where the plan has them, no Caffe. RKNN's is the file of rknn-toolkit2's hybrid quantization.
//
// Unstable: it may change without notice.
package sidecar

import (
	"context"
	"fmt"
	"io"
	"slices"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// kind is one format.
type kind struct {
	name, doc, ext string // ext takes the place of .onnx in the name of the file beside the model
	targets        []string
	rules          []string
	perTensor      bool // weights have one scale
	anything       bool // not 8-bit integers alone
	inputs         bool // the scales of results do not stand in the file
	// write renders the file, from tensors of which those with more than 8 bits are no part.
	write func(in *export.Input, list []table.Tensor) ([]byte, error)
	// more writes a second file, if there is one.
	more    func(in *export.Input, list []table.Tensor) ([]byte, error)
	moreExt string
	read    func(b []byte, g *graph.Graph) ([]table.Entry, error)
	// bare: the file has scales and no ranges. places reports whether it has a place for an encoding; nil: for all.
	// whole reads all that the file says of tensors, where read leaves out what it says again; nil: read does.
	whole func(b []byte, g *graph.Graph) ([]table.Entry, error)
	// codes: it says the lowest and the highest code.
	bare, codes bool
	places      func(in *export.Input, n *graph.Node, e *table.Encoding) bool
}

// common are the rules that every list of scales has.
var common = []string{"once", "known", "complete", "type", "scale", "offset", "channels", "grid"}

// but are the rules without some.
func but(rules []string, out ...string) []string {
	return slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return slices.Contains(out, r) })
}

var kinds = []kind{
	{name: "snpe", doc: "float ONNX, and beside it the range of every 8-bit tensor (MODEL.json), as PPQ writes for SNPE", ext: ".json",
		targets: []string{"snpe"}, rules: common, write: ranges, read: readRanges},
	{name: "ppl-cuda", doc: "float ONNX, and beside it the encoding of every 8-bit tensor (MODEL.json), as PPQ writes for OpenPPL",
		ext:     ".json",
		targets: []string{"ppl_cuda_int8"}, rules: append(common, "range"), write: openPPL, read: readOpenPPL, codes: true},
	{name: "ppl-dsp", doc: "float ONNX, and beside it the ranges of its layers as quantize_param (MODEL.prototxt), as PPQ writes for " +
		"OpenPPL on DSPs",
		ext: ".prototxt", targets: []string{"ppl_dsp_int8", "ppl_dsp_ti_int8"}, rules: but(common, "type"), write: quantizeParams,
		read: readQuantizeParams, places: inLayers},
	{name: "tengine", doc: "float ONNX, and beside it a line with scale and zero point for every tensor (MODEL.scale) and PPQ's JSON " +
		"(MODEL.json)",
		ext: ".scale", targets: []string{"tengine_int8"}, rules: but(common, "channels"), perTensor: true, write: lines, read: readLines,
		bare: true, more: native, moreExt: ".json"},
	{name: "ascend", doc: "float ONNX, and beside it the records of AMCT: the scales of data and weights of each operator (MODEL.txt)",
		ext:     ".txt",
		targets: []string{"ascend_int8"}, rules: but(common, "once", "complete", "type"), inputs: true, write: records, read: readRecords,
		bare: true, places: inRecords},
	{name: "rknn", doc: "float ONNX, and beside it the file of rknn-toolkit2's hybrid quantization (MODEL.quantization.cfg)",
		ext:     ".quantization.cfg",
		targets: []string{"rknn_int8"}, rules: append(common, "range"), write: hybrid, read: readHybrid, whole: readHybridTwice},
	{name: "ppq-json", doc: "float ONNX, and beside it the configured graph as PPQ's own JSON (MODEL.json)", ext: ".json", anything: true,
		rules: []string{"known", "complete", "type", "scale", "offset", "channels", "bias", "grid"}, write: native, read: readNative,
		whole: readSlots},
}

// Formats lists them.
func Formats() []export.Format {
	var list []export.Format
	for _, k := range kinds {
		rules := table.Rules(k.rules...)
		list = append(list, export.Format{Name: k.name, Doc: k.doc, Ext: ".onnx", From: export.Plan, Targets: k.targets,
			Experimental: "no engine has read these files; their form is that of PPQ's exporters",
			Options:      []export.Option{export.ExternalAbove, export.DocString}, Check: k.check, Write: k.export, Back: k.back, Rules: rules,
			Doctor: func(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) { return k.doctor(in, rules) }})
	}
	return list
}

func (k *kind) check(in *export.Input) error {
	list, err := table.Of(in)
	if err != nil {
		return err
	}
	for i := range list {
		t := &list[i]
		if !t.Encoded() || t.Kind == table.Bias {
			continue
		}
		fail := func(what string) error {
			return in.Model.Graph.ErrorAt("export "+k.name, t.Node, fmt.Errorf("%s: %s", t.Name, what))
		}
		switch {
		case t.Config.Policy.Has(tqc.PerGroup):
			return fail("scales of groups, which the file has no form for")
		case k.anything:
		case t.Config.Type != qmath.Integers || t.Config.Bits != 8:
			return fail(t.Config.FormatName() + ": the file holds 8-bit integers")
		case k.perTensor && t.Config.Policy.Has(tqc.PerChannel):
			return fail("scales per channel, which the file has no form for")
		}
	}
	return nil
}

func (k *kind) export(_ context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
	all, err := table.Of(in)
	if err != nil {
		return nil, err
	}
	if err := table.WriteModel(in, all, out); err != nil {
		return nil, err
	}
	var list []table.Tensor
	for _, t := range all {
		if t.Encoded() && t.Config.Bits <= 8 {
			list = append(list, t)
		}
	}
	files := []struct {
		ext   string
		write func(in *export.Input, list []table.Tensor) ([]byte, error)
	}{{k.ext, k.write}, {k.moreExt, k.more}}
	for _, f := range files {
		if f.write == nil {
			continue
		}
		b, err := f.write(in, list)
		if err != nil {
			return nil, err
		}
		err = out.Write(export.Beside(out.Name(), f.ext), func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (k *kind) doctor(in *export.DoctorInput, rules []export.Rule) ([]export.Finding, error) {
	b, m, err := table.Open(in, k.ext)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	x := table.Examination{Inputs: k.inputs || !in.Target.Placement.Outputs() || in.Target.WritesFloat()}
	if x.Entries, err = k.read(b, m.Graph); err != nil {
		return nil, fmt.Errorf("%s: %w", export.Beside(in.Name, k.ext), err)
	}
	if err := x.Examine(m.Graph); err != nil {
		return nil, err
	}
	return x.Findings(rules), nil
}

// entry makes an entry of 8-bit codes from lo to hi of scales and zero points.
func entry(name string, lo float64, scale, zero []float64) table.Entry {
	e := table.Entry{Name: name, Bits: 8, Axis: -1, Scale: scale}
	for _, z := range zero {
		e.Offset = append(e.Offset, lo-z)
	}
	return e
}

// ranged makes an entry of ranges: of 256 steps from lo to hi.
func ranged(name string, lo, hi []float64) table.Entry {
	e := table.Entry{Name: name, Bits: 8, Axis: -1, Lo: lo, Hi: hi}
	for i := range lo {
		if i >= len(hi) {
			e.Fault = "not as many upper ends as lower ones"
			break
		}
		scale := (hi[i] - lo[i]) / 255
		offset := lo[i] / scale
		e.Scale, e.Offset = append(e.Scale, scale), append(e.Offset, nearest(offset))
	}
	return e
}

// nearest is the next whole number, where it is no further than ranges in float32 are apart from it.
func nearest(x float64) float64 {
	whole := float64(int64(x + 0.5))
	if x < 0 {
		whole = float64(int64(x - 0.5))
	}
	if d := x - whole; d < 1e-3 && d > -1e-3 {
		return whole
	}
	return x
}
