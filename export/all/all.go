// Package all lists the formats that qwb exports.
//
// Unstable: it may change without notice.
package all

import (
	"qwb/export"
	"qwb/export/cprogram"
	"qwb/export/cprogram/image"
	"qwb/export/encodings"
	"qwb/export/espdl"
	"qwb/export/graphjson"
	"qwb/export/language/gguf"
	"qwb/export/language/inferllm"
	"qwb/export/language/kuiper"
	"qwb/export/language/llama2c"
	"qwb/export/language/mllm"
	"qwb/export/language/nbits"
	"qwb/export/language/transformers"
	"qwb/export/mnn"
	"qwb/export/ncnn"
	"qwb/export/nxp"
	"qwb/export/onnxqdq"
	"qwb/export/qoperator"
	"qwb/export/sidecar"
	"qwb/export/tflite"
	"qwb/export/trt"
	"qwb/export/vectors"
)

// Formats lists all formats. Of those that take plans of every platform the first is the default, and so is the first of checkpoints.
func Formats() []export.Format {
	list := []export.Format{onnxqdq.Format(), qoperator.Format(), cprogram.Format(), image.Format()}
	list = append(list, vectors.Formats()...)
	list = append(list, encodings.Format(), tflite.Format())
	list = append(list, trt.Formats()...)
	list = append(list, ncnn.Formats()...)
	list = append(list, mnn.Format())
	list = append(list, sidecar.Formats()...)
	list = append(list, graphjson.Format())
	list = append(list, espdl.Format(), nxp.Format())
	list = append(list,
		nbits.Format(),
		llama2c.Q80().Export(), llama2c.V0().Export(), llama2c.V1().Export(),
		kuiper.Format().Export(), gguf.Format().Export(), mllm.Format().Export(), inferllm.Format().Export())
	return append(list, transformers.Formats()...)
}
