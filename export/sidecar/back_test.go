package sidecar_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/exporttest"
)

// One number of each kind that a file has, changed by as little as can be.
func TestDamagedFilesAreFound(t *testing.T) {
	file := func(name string, behind ...string) []exporttest.Damaged {
		list := append(exporttest.Rewired(nil), exporttest.Crossed(nil))
		list = append(list, []exporttest.Damaged{
			{What: "a weight", Plant: exporttest.Constant("w", exporttest.Longer)},
			{What: "a bias", Plant: exporttest.Constant("b", exporttest.Longer)},
		}...)
		for _, text := range behind {
			list = append(list, exporttest.Damaged{What: name + " " + text, Plant: exporttest.Nudged(name, text)})
		}
		return list
	}
	for name, faults := range map[string][]exporttest.Damaged{
		"snpe": file("m.json", `"x": {`, `"tensor_min":`, `"r": {`),
		"ppl-cuda": file("m.json", `"scale":`, `"zero_point":`, `"tensor_min":`, `"tensor_max":`, `"q_min":`, `"q_max":`,
			`"bit_width":`, `"w": {`),
		"ppl-dsp":  file("m.prototxt", "range_min:", "range_max:", "\"filter\"\n"),
		"tengine":  append(file("m.scale", "x", "w"), file("m.json", `"scale":`, `"zero_point":`, `"quant_min":`, `"bit_width":`)...),
		"ascend":   file("m.txt", "scale_d:", "offset_d:", "scale_w:", "offset_w:"),
		"rknn":     file("m.quantization.cfg", " scale: [", "zero_point: [", " min: [", " max: [", "ori_min: [", "ori_max: ["),
		"ppq-json": file("m.json", `"scale":`, `"zero_point":`, `"quant_max":`, `"bit_width":`, `"values": {`),
	} {
		f := format(t, name)
		t.Run(name, func(t *testing.T) {
			exporttest.ReadBack(t, f, network, platform(f), faults)
			in := exporttest.Input(t, f, network, platform(f), nil)
			require.NotContains(t, exporttest.Equal(t, f, in).NotHeld, "")
		})
	}
}

// Floats of 8 bits have no codes that limit them.
func TestFloatsAreReadBack(t *testing.T) {
	f := format(t, "ppq-json")
	exporttest.Equal(t, f, exporttest.Input(t, f, network, "trt_fp8", nil))
}
