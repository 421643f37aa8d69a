// Package checkpoint reads the checkpoints of decoder-only language models of the Llama family: files of llama2.c (versions 0, 1
// and 2), folders of Hugging Face (safetensors) and GGUF. All become a Model: its shape (Config) and its matrices by role, which
// stay where they are on disk and are read row by row, so that a checkpoint larger than the memory can be quantized.
//
// Graph makes an ordinary graph of a model, which everything else in qwb works on; package decode runs a model token by token.
//
// To add a format: a file with a function like readLlama2c, and a line in formats (open.go).
//
// Unstable: it may change without notice.
package checkpoint
