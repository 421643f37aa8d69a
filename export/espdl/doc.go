// Package espdl writes and reads .espdl, the file of ESP-DL, Espressif's runtime: a FlatBuffers table with operators, integers and the
// exponents of their power-of-two scales, weights in the order that the chip's kernels read, and one sample with its results for the test
// on the board. What the file says was read from ESP-PPQ 1.3.12 (parser/espdl, parser/espdl_exporter.py), which writes such files too.
//
// Unstable: it may change without notice.
package espdl
