package checkpoint

import (
	"encoding/binary"
	"math"

	"qwb/kernels/qmath"
)

// Scheme is how a quantizer of Hugging Face models stores matrices. Its rows are Schemes; to add one is to add a row, and a layout where
// none of those is its.
type Scheme struct {
	Method string // quant_method of quantization_config, with _v2 for that of GPTQ
	Name   string // of its numbers, as a user writes it
	Bits   int
	Number *qmath.Minifloat // of the codes; nil: integers
	Zeros  bool             // groups have zero points
	Group  int              // columns that share a scale; 0: any, -1: all
	Height int              // rows that share a scale, where that is not 1
	Scales string           // their type in safetensors; "": that of the model's floats
	// Form is format of compressed-tensors, Inputs how its engines round the inputs of matrices; empty: they do not.
	Form, Inputs string
	Static       bool // the inputs of a matrix have one scale, which the file holds

	layout func(l *Levels) []stored
}

var e4m3, e2m1 = qmath.E4M3FN, qmath.E2M1

// Schemes are all, the default of each method first.
var Schemes = []Scheme{
	{Method: "compressed-tensors", Name: "w4a16", Bits: 4, Form: "pack-quantized", layout: packedWords},
	{Method: "compressed-tensors", Name: "w4a16_asym", Bits: 4, Zeros: true, Form: "pack-quantized", layout: packedWords},
	{Method: "compressed-tensors", Name: "w8a16", Bits: 8, Group: -1, Form: "pack-quantized", layout: packedWords},
	{Method: "compressed-tensors", Name: "w8a8", Bits: 8, Group: -1, Scales: "F32", Form: "int-quantized", Inputs: "int", layout: bytesOf},
	{Method: "compressed-tensors", Name: "fp8_dynamic", Bits: 8, Number: &e4m3, Group: -1, Scales: "F32", Form: "float-quantized",
		Inputs: "float", layout: bytesOf},
	{Method: "compressed-tensors", Name: "fp8", Bits: 8, Number: &e4m3, Group: -1, Scales: "F32", Form: "float-quantized",
		Inputs: "float", Static: true, layout: bytesOf},
	{Method: "compressed-tensors", Name: "fp8_block", Bits: 8, Number: &e4m3, Group: 128, Height: 128, Scales: "F32",
		Form: "float-quantized", Inputs: "float", layout: bytesOf},
	{Method: "compressed-tensors", Name: "nvfp4a16", Bits: 4, Number: &e2m1, Group: 16, Scales: "F8_E4M3", Form: "nvfp4-pack-quantized",
		layout: halfBytes},
	{Method: "compressed-tensors", Name: "mxfp4a16", Bits: 4, Number: &e2m1, Group: 32, Scales: "U8", Form: "mxfp4-pack-quantized",
		layout: halfBytes},
	{Method: "gptq", Name: "int4", Bits: 4, Scales: "F16", layout: gptqWords},
	{Method: "gptq", Name: "int4_asym", Bits: 4, Zeros: true, Scales: "F16", layout: gptqWords},
	{Method: "gptq", Name: "int8", Bits: 8, Scales: "F16", layout: gptqWords},
	{Method: "gptq_v2", Name: "int4", Bits: 4, Scales: "F16", layout: gptqWords},
	{Method: "gptq_v2", Name: "int4_asym", Bits: 4, Zeros: true, Scales: "F16", layout: gptqWords},
	{Method: "gptq_v2", Name: "int8", Bits: 8, Scales: "F16", layout: gptqWords},
	{Method: "awq", Name: "int4_asym", Bits: 4, Zeros: true, Scales: "F16", layout: awqWords},
	{Method: "awq", Name: "int4", Bits: 4, Scales: "F16", layout: awqWords},
}

// SchemeOf is the scheme of a method with that name, for "" its default; nil where there is none.
func SchemeOf(method, name string) *Scheme {
	for i := range Schemes {
		if s := &Schemes[i]; s.Method == method && (name == "" || s.Name == name) {
			return s
		}
	}
	return nil
}

// Middle is the code of 0 where groups have no zero points.
func (s *Scheme) Middle() int { return 1 << (s.Bits - 1) }

// RowsOf is what the number of rows of a matrix has to be a multiple of.
func (s *Scheme) RowsOf() int {
	if s.Form == "" { // codes or zero points of neighbouring rows are in one word
		return 32 / s.Bits
	}
	return 1
}

// Config is quantization_config for matrices in groups of so many columns.
func (s *Scheme) Config(group int) map[string]any {
	switch s.Method {
	case "awq":
		return map[string]any{"quant_method": "awq", "version": "gemm", "bits": s.Bits, "group_size": group, "zero_point": true,
			"modules_to_not_convert": []string{"lm_head"}}
	case "gptq", "gptq_v2":
		return map[string]any{"quant_method": "gptq", "checkpoint_format": s.Method, "bits": s.Bits, "group_size": group, "desc_act": false,
			"sym": !s.Zeros, "lm_head": false, "pack_dtype": "int32"}
	}
	kind := func(name string, more map[string]any) map[string]any {
		out := map[string]any{"num_bits": s.Bits, "type": name, "symmetric": !s.Zeros, "dynamic": false}
		for key, value := range more {
			out[key] = value
		}
		return out
	}
	name := "int"
	if s.Number != nil {
		name = "float"
	}
	weights := kind(name, map[string]any{"strategy": "group", "group_size": group})
	switch {
	case s.Height > 0:
		weights = kind(name, map[string]any{"strategy": "block", "block_structure": []int{s.Height, s.Group}})
	case s.Group < 0:
		weights = kind(name, map[string]any{"strategy": "channel"})
	case s.Scales == "F8_E4M3":
		weights["strategy"] = "tensor_group"
	}
	if s.Scales == "U8" || s.Scales == "F8_E4M3" {
		weights["scale_dtype"] = map[string]string{"U8": "torch.uint8", "F8_E4M3": "torch.float8_e4m3fn"}[s.Scales]
	}
	var inputs any
	switch {
	case s.Static:
		inputs = kind(s.Inputs, map[string]any{"strategy": "tensor"})
	case s.Inputs != "" && s.Height > 0:
		inputs = kind(s.Inputs, map[string]any{"strategy": "group", "group_size": s.Group, "dynamic": true})
	case s.Inputs != "":
		inputs = kind(s.Inputs, map[string]any{"strategy": "token", "dynamic": true})
	}
	return map[string]any{"quant_method": "compressed-tensors", "format": s.Form, "quantization_status": "compressed",
		"ignore": []string{"lm_head"}, "config_groups": map[string]any{"group_0": map[string]any{"targets": []string{"Linear"},
			"weights": weights, "input_activations": inputs, "output_activations": nil, "format": s.Form}}}
}

// scaleArray is the array of scales, by row and group.
func (l *Levels) scaleArray() stored {
	dtype := l.Scale
	shape := []int{(l.Rows + l.Height - 1) / l.Height, l.across()}
	return stored{".weight_scale", dtype, shape, func(b []byte) { l.putScales(b, dtype, false) }}
}

// packedWords is pack-quantized of compressed-tensors.
func packedWords(l *Levels) []stored {
	bits, n := l.Scheme.Bits, l.across()
	wide := words(l.Cols, bits)
	list := []stored{{".weight_packed", "I32", []int{l.Rows, wide}, func(b []byte) {
		l.putCodes(bitArray{data: b, bits: bits, run: 4 * wide, word: 4, byte: 1}, false)
	}}, l.scaleArray()}
	if l.Scheme.Zeros {
		list = append(list, stored{".weight_zero_point", "I32", []int{words(l.Rows, bits), n}, func(b []byte) {
			l.putZeros(bitArray{data: b, bits: bits, run: 4, word: 4 * n, byte: 1}, 0)
		}})
	}
	return append(list, stored{".weight_shape", "I64", []int{2}, func(b []byte) {
		binary.LittleEndian.PutUint64(b, uint64(l.Rows))
		binary.LittleEndian.PutUint64(b[8:], uint64(l.Cols))
	}})
}

// bytesOf is int-quantized and float-quantized of compressed-tensors, the latter with a scale of the inputs where they have one.
func bytesOf(l *Levels) []stored {
	dtype, flip := "I8", byte(0x80)
	if l.Scheme.Number != nil {
		dtype, flip = "F8_E4M3", 0
	}
	list := []stored{{".weight", dtype, []int{l.Rows, l.Cols}, func(b []byte) {
		for i, q := range l.Codes {
			b[i] = q ^ flip
		}
	}}, l.scaleArray()}
	if l.Scheme.Static {
		list = append(list, stored{".input_scale", "F32", []int{1}, func(b []byte) {
			binary.LittleEndian.PutUint32(b, math.Float32bits(l.Input))
		}})
	}
	return list
}

// halfBytes is nvfp4-pack-quantized and mxfp4-pack-quantized of compressed-tensors, whose scale of the whole matrix divides.
func halfBytes(l *Levels) []stored {
	list := []stored{{".weight_packed", "U8", []int{l.Rows, l.Cols / 2}, func(b []byte) {
		l.putCodes(bitArray{data: b, bits: 4, run: l.Cols / 2, word: 4, byte: 1}, false)
	}}, l.scaleArray()}
	if l.Scheme.Scales == "F8_E4M3" {
		list = append(list, stored{".weight_global_scale", "F32", []int{1}, func(b []byte) {
			binary.LittleEndian.PutUint32(b, math.Float32bits(l.Global))
		}})
	}
	return list
}

// gptqWords is GPTQ, whose first version stores zero points less one.
func gptqWords(l *Levels) []stored {
	bits, n, below := l.Scheme.Bits, l.across(), 0
	if l.Scheme.Method == "gptq" {
		below = 1
	}
	return append([]stored{{".qweight", "I32", []int{words(l.Cols, bits), l.Rows}, func(b []byte) {
		l.putCodes(bitArray{data: b, bits: bits, run: 4, word: 4 * l.Rows, byte: 1}, false)
	}}}, append(l.besides(bitArray{bits: bits, run: 4 * words(l.Rows, bits), word: 4, byte: 1}, below),
		stored{".g_idx", "I32", []int{l.Cols}, func(b []byte) {
			for c := range l.Cols {
				binary.LittleEndian.PutUint32(b[4*c:], uint32(c/(l.Cols/n)))
			}
		}})...)
}

// awqWords is the layout GEMM of AWQ.
func awqWords(l *Levels) []stored {
	wide := words(l.Rows, l.Scheme.Bits)
	a := bitArray{bits: l.Scheme.Bits, run: 4 * wide, word: 4, byte: 1, order: awqOrder}
	return append([]stored{{".qweight", "I32", []int{l.Cols, wide}, func(b []byte) {
		a := a
		a.data = b
		l.putCodes(a, true)
	}}}, l.besides(a, 0)...)
}

// besides are zero points and scales, by group and row.
func (l *Levels) besides(zeros bitArray, below int) []stored {
	n := l.across()
	return []stored{{".qzeros", "I32", []int{n, words(l.Rows, zeros.bits)}, func(b []byte) {
		zeros.data = b
		l.putZeros(zeros, below)
	}}, {".scales", "F16", []int{n, l.Rows}, func(b []byte) { l.putScales(b, "F16", true) }}}
}
