// Package data opens data sets and turns them into inputs of a model. It reads folders of images, NumPy arrays, ONNX test data,
// raw binaries, CIFAR-10 and MNIST files and, for language models, text; synthetic noise has to be asked for by name. Samples
// are decoded, preprocessed, hashed and labelled, some of them can be chosen by a seed, and Doctor examines them for the usual
// mistakes.
//
// A Set lists its samples without decoding them. An iterator decodes ahead, in parallel, and hands samples out in order, so
// memory does not grow with their number. The content of a sample depends only on its file, the preprocessing and the inputs of
// the model, never on threads, order or other samples.
//
// Calibration, evaluation and verification read samples as an exec.Iterator.
//
// Unstable: it may change without notice.
package data
