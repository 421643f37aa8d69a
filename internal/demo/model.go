package demo

import _ "embed"

// Model is the trained network as ONNX: input "image" f32[batch,1,32,32], output "scores" f32[batch,32]. The program in the
// folder train wrote it when it had backward code of its own; what it writes now has other bits.
//
//go:embed glyphs.onnx
var Model []byte
