package decision

import (
	"fmt"
	"slices"
	"strings"
)

// Preset is a recipe that comes with the program.
type Preset struct {
	Name, Doc string
	text      string
}

// Presets are formats for a whole network, and the default configurations of PyTorch's eager and FX quantization by the name of their
// backend: what torch.ao.quantization.get_default_qconfig_mapping returns for it. Its HistogramObserver chooses the range with the smallest
// squared error, as mse does. Where PyTorch halves the range of activations so that 16-bit sums of x86 cannot overflow (reduce_range),
// these halve that of weights, which is what targets have for the same purpose. Operators with prescribed scales are the target's own.
var Presets = []Preset{
	{"x86", "PyTorch's qconfig x86: one scale per channel, 7 bits against overflow, smallest squared error", perChannel7},
	{"fbgemm", "PyTorch's qconfig fbgemm: as x86", perChannel7},
	{"onednn", "PyTorch's qconfig onednn: as x86, with 8 bits", "- {observer: mse, reduce_range: false, per_tensor: false}\n"},
	{"qnnpack", "PyTorch's qconfig qnnpack: one scale per weight tensor, 8 bits, smallest squared error",
		"- {observer: mse, reduce_range: false, per_tensor: true}\n"},
	{"dynamic", "scales of activations at run time, as onnxruntime.quantization's quantize_dynamic; convolutions in float, with int8 weights",
		dynamic},
	{"dynamic_range", "scales of activations at run time, of images and of rows, as TensorFlow Lite's converter has them by default",
		dynamicRange},
	{"int16", "activations of 16 bits", prescribed + "- {select: \"*\", activations: int16-sym-tensor}\n"},
	{"fp8", "E4M3 everywhere, one scale per tensor", prescribed + "- {select: \"*\", activations: e4m3-sym-tensor, weights: " +
		"e4m3-sym-tensor}\n"},
	{"corrected", "ranges moved into weights and biases corrected, where held-out samples confirm it, as NNCF does by default",
		"- {tune: {method: [spread, migrate, bias]}}\n"},
}

// prescribed leaves operators in float whose results have an int8 scale that targets prescribe.
const prescribed = `- {select: "type:Softmax", domain: fp32, optional: true}
- {select: "type:Sigmoid", domain: fp32, optional: true}
`

// dynamic has no convolutions: engines compute those with scales of run time in float anyway.
const dynamic = `- {select: "type:Conv", domain: weights, optional: true}
- {select: "type:ConvTranspose", domain: weights, optional: true}
- {select: "*", activations: uint8-asym-dynamic-tensor}
`

// dynamicRange has what TensorFlow Lite has hybrid kernels of; the rest is float.
const dynamicRange = `- {select: "type:ConvTranspose", domain: fp32, optional: true}
- {select: "*", activations: int8-asym-dynamic-tensor, optional: true}
- {select: "type:Gemm", activations: int8-sym-dynamic-token, weights: int8-sym-channel, optional: true}
- {select: "type:MatMul", activations: int8-sym-dynamic-token, weights: int8-sym-channel, optional: true}
- {select: "type:LSTM", domain: int, activations: int8-sym-dynamic-token, optional: true}
`

// fbgemm has no scales per channel for transposed convolutions.
const perChannel7 = `- {observer: mse, reduce_range: true, per_tensor: false}
- {select: "type:ConvTranspose", per_tensor: true, optional: true}
`

// FindPreset returns a preset as a recipe.
func FindPreset(name string) (*Recipe, error) {
	i := slices.IndexFunc(Presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range Presets {
			names = append(names, p.Name)
		}
		return nil, fmt.Errorf("unknown preset %q: one of %s", name, strings.Join(names, ", "))
	}
	return ParseRecipe("preset:"+name, []byte(Presets[i].text))
}
