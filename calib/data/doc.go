// Package data opens data sets and turns them into inputs of a model: folders of images, NumPy arrays, ONNX test data, raw
// binaries, CIFAR-10 and MNIST files, and synthetic noise where it is asked for by name. It decodes, preprocesses, hashes
// and labels samples, chooses among them by seed, and examines them for the usual mistakes (Doctor).
//
// A Set lists its samples without decoding them; an iterator decodes ahead in parallel and hands them out in order, so
// memory does not grow with the number of samples. What a sample holds depends on its file, the preprocessing and the
// model's input alone, not on threads, order or other samples.
//
// In the data flow it stands before calibration, evaluation and verification, which consume exec.Iterator.
package data
