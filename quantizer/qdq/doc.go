// Package qdq takes quantized graphs apart: the inverse of an exporter. Read turns a graph with QuantizeLinear and
// DequantizeLinear, or with operators on integers (QLinearConv, ...), into the float graph behind it and what the file says about
// every tensor; Configure writes that down as the tqc.Set that a target's configuration would have led to.
//
// The float graph is the file's without its pairs, with weights dequantized: quantizing them by the file's scales gives the file's
// integers again, which is checked for every one. Simulating graph and set computes what the file computes.
//
// Unstable: it may change without notice.
package qdq
