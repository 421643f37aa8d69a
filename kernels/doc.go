// Package kernels computes on slices: matrix products, convolutions, pools, elementwise and row operations of the
// executors. It knows no tensors, graphs or configurations. Activations are channels-last (NHWC, NDHWC), weights are packed
// once and used many times.
//
// A Table holds the rows (implementations) chosen for a set of CPU features; choosing is a pure function. What each operation
// means is written as a loop in package ref, and kerneltest holds every row to it bit for bit.
//
// Every output element of a sum of products is one accumulator, to which the products are added one after the other, in
// the order of ref's loops. So results do not depend on batch size, on how the work is cut into tiles and blocks, on threads,
// or on which vector row runs. What does differ is the arithmetic (Table.Arith): the vector rows use fused multiply-add, the
// plain Go row rounds every product, and the table of Float64 accumulates in float64; the three agree within the usual
// bound K * 2^-24 * sum|a*b|.
//
// Integer products and convolutions (GemmU8S8, ConvU8S8) multiply uint8 by int8 and add in int32, exactly and the same in every
// row; only the table of Saturating differs, and only where it is asked for. A signed activation q is held as uint8, q+128. The
// sums of a tile stay in the first-level cache until an Output has made codes, float32 or anything else of them; the arithmetic
// of outputs is defined to the bit (Scale, Shift).
//
// Products of matrices in groups (Groups, MulGroups) are those of language models: codes of 8 or 4 bits with a scale for every few
// neighbours, times activations that are quantized the same way at run time, or floats. A panel is 16 rows, word by word, so that a
// product with one vector reads memory as one stream and adds nothing across lanes. Integer sums of groups are exact, and what they
// add to the result is added group after group in float32 (ref.DotGroups): every row gives the same bits.
//
// Slices that are shorter than the shapes say are a mistake of the caller and panic before anything is computed; no kernel
// reads or writes outside the slices it is given.
//
// Unstable: it may change without notice.
package kernels
