// Package qoperator writes plans in ONNX's QOperator form: operators on integers that have scales and zero points among their inputs, of
// ai.onnx (QLinearConv, QLinearMatMul) and of com.microsoft (QGemm, QLinearAdd, MatMulNBits, ...).
//
// The file is made of the Q/DQ form by what the optimizer of ONNX Runtime does when it reads that
// (onnxruntime/core/optimizer/qdq_transformer and graph_transformers, release 1.32), so that both compute with the same kernels; but here
// it is done for readers that do no such thing.
//
// Unstable: it may change without notice.
package qoperator
