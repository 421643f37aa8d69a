// Package jpeg decodes JPEG files to the very pixels that libjpeg (and libjpeg-turbo, and so Pillow) gives by default:
// its accurate integer inverse DCT, its triangle filters for subsampled chroma and its fixed-point colour conversion.
//
// The standard library's decoder leaves chroma to the caller and has an inverse DCT of its own that changes between Go
// releases; samples decoded with it differ by up to 3 levels from what models were evaluated on, and their hashes would
// depend on the compiler. Here they are a function of the file alone.
//
// Sequential and progressive Huffman-coded files of 8 bits with 1, 3 or 4 components are read. Arithmetic coding, 12 bits
// and lossless files are refused, and so are damaged files: libjpeg would make pixels up and warn.
//
// Unstable: it may change without notice.
package jpeg
