package target

import (
	"fmt"
	"slices"
	"strings"
)

// Engine says what is known of who reads the files of a target.
type Engine struct {
	Name string // and version, where one was at hand; empty: nobody in particular
	// Compared are the arithmetic profiles whose integers were held to the engine's own (docs/engines.md has the counts); none: nobody has.
	Compared []string
	// Unread says why no engine has opened a file of the target; empty: one has, or what its format says of itself is enough.
	Unread string
}

// evidence is what docs/engines.md has of the built-in targets. A target that is not here is unknown, those of users among them.
var evidence = []struct {
	targets []string
	Engine
}{
	{[]string{"onnxruntime"}, Engine{Name: "ONNX Runtime 1.32", Compared: []string{"ort"}}},
	{[]string{"openvino_int8", "openvino_int8_amx"}, Engine{Name: "OpenVINO 2026.4", Compared: []string{"trt"}}},
	{[]string{"tflite_int8", "tflite_16x8"}, Engine{Name: "TensorFlow Lite 2.14 and LiteRT 2.3", Compared: []string{"tflite2", "litert"}}},
	{[]string{"tflite"}, Engine{Name: "TensorFlow Lite 2.14", Compared: []string{"tflite2"}}},
	{[]string{"ncnn_int8"}, Engine{Name: "ncnn 20261020", Compared: []string{"ncnn"}}},
	{[]string{"mnn_int8"}, Engine{Name: "MNN 3.6.1", Compared: []string{"mnn"}}},
	{espdlTargets, Engine{Name: "ESP-PPQ 1.3.12, which simulates ESP-DL", Compared: espdlTargets}},
	{[]string{"nxp_int8", "nxp_int8_lut"}, Engine{Name: "NXP's converter"}},
	{[]string{"trt_int8", "trt10_int8", "trt11_int8", "trt_fp8"}, Engine{Name: "TensorRT"}},
	{[]string{"qnn"}, Engine{Name: "QNN"}},
	{[]string{"aimet"}, Engine{Name: "AIMET, which simulates in float"}},
	{[]string{"snpe"}, unread("SNPE")},
	{[]string{"rknn_int8"}, unread("rknn-toolkit2")},
	{[]string{"tengine_int8"}, unread("Tengine")},
	{[]string{"ascend_int8"}, unread("AMCT and Ascend's NPUs")},
	{[]string{"ppl_cuda_int8", "ppl_dsp_int8", "ppl_dsp_ti_int8"}, unread("OpenPPL")},
	{[]string{"metax_int8_t", "metax_int8_c"}, unread("Metax's runtime")},
	{[]string{"graphcore_fp8"}, unread("Graphcore's runtime")},
	{[]string{"xint8", "xint8_lut"}, unread("Ryzen AI's runtime")},
	{[]string{"fpga_int8", "fpga_int8_lut"}, unread("Vitis AI's compiler")},
}

var espdlTargets = []string{"espdl_int8", "espdl_int8_s3", "espdl_int8_c", "espdl_int16", "espdl_int16_s3", "espdl_int16_c"}

func unread(engine string) Engine {
	return Engine{Name: engine, Unread: "no engine has opened its files: " + engine + " was not to be had"}
}

// EngineOf returns what is known of who reads the files of a target, by its name; nothing of one that is not built in.
func EngineOf(name string) Engine {
	for i := range evidence {
		if slices.Contains(evidence[i].targets, name) {
			return evidence[i].Engine
		}
	}
	return Engine{}
}

// Knows reports whether the integers of an arithmetic profile, by its name, were ever held to those of the engine itself.
func (e *Engine) Knows(profile string) bool { return slices.Contains(e.Compared, profile) }

// Says is in words whether the integers of a profile are the engine's.
func (e *Engine) Says(profile string) string {
	switch {
	case e.Knows(profile):
		return "those of " + e.Name + ", compared"
	case e.Name == "":
		return "whether an engine computes so is not known"
	case len(e.Compared) > 0:
		return fmt.Sprintf("not compared with %s, which %s was", e.Name, strings.Join(e.Compared, " and "))
	}
	return "whether " + e.Name + " computes so is not known: nobody here has compared its integers"
}
