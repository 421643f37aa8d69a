// Package tensors says what a plan makes of a tensor, in figures: the values that were observed, the numbers that its codes stand for, what
// clipping and rounding cost, for the scale of the plan and for any other range, observer or scheme. From the errors of tensors and of
// operators it estimates what a decision does to the outputs, without running anything.
//
// Unstable: it may change without notice.
package tensors
