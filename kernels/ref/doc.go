// Package ref holds the kernels as plain loops: the specification that every faster row in package kernels is tested
// against. A function's doc comment is its loop; nothing here is blocked, packed or parallel.
//
// Data: float32 slices, activations NHWC (NDHWC), convolution weights OIHW (OIDHW). Functions index slices and panic, as any
// Go code does, when one is shorter than the shape says; ConvShape.Check tells beforehand whether a shape is consistent.
//
// Every output element is one accumulator to which its products are added one after the other in the stated order. Arith says
// in which arithmetic. Padding is data: a padded position takes part in the sum as the value +0, so that a weight of Inf or
// NaN over the border gives NaN, as it does in the definition by an explicitly padded input.
//
// Unstable: it may change without notice.
package ref
