// Package device runs a float graph on a GPU. A Session is a graph whose constants lie on the device, a Plan what is made of it for
// one set of input shapes: kernel launches on buffers of one arena, as one list of steps.
//
// The results are those of package exec on a processor with fused multiply-add, bit for bit: every operator that has kernels here
// computes in the order and the arithmetic of package ref. An operator without kernels is computed on the host by package exec, on
// copies of its inputs, and is listed by Plan.OnHost with the reason. What follows from constants and shapes alone is computed once,
// when the plan is made.
//
// Where nobody looks at what is between them, a product computes the sum and the bounds behind it as well, and elementwise operators that
// follow each other are one kernel. A plan without host operators can be captured in a CUDA graph, on buffers of the caller (Launch).
//
// Layout is as in package exec: convolutions and pools compute channels-last, what lies between them keeps that, operators that care
// about the order of elements read row-major, and a value is converted at most once per run.
//
// Unstable: it may change without notice.
package device
