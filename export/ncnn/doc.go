// Package ncnn writes quantized models as ncnn reads them: a network of layers as text (.param) with its weights (.bin), and the table of
// scales of its tool ncnn2int8; and reads such files back to check them.
//
// What the files hold follows ncnn's source (src/paramdict.cpp, modelbin.cpp, src/layer/*.cpp) and docs/developer-guide. ncnn has no
// batches: the first axis of every tensor, of size 1, does not exist there.
//
// Unstable: it may change without notice.
package ncnn
