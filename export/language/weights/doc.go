// Package weights writes the weights of language models: what the formats of checkpoints have in common. A format says what follows
// what in its file (File); this package quantizes, writes tensor by tensor, and compares what was written with what it was made of.
//
// A file is written in one pass over the source, in pieces that are quantized in parallel. Beside the pieces in work, about 2 MiB for
// each thread, only the scales of one tensor are held where its format puts them behind the codes.
//
// To add a format: a package with a function that returns a Format, a reader where graph/language/checkpoint has none, and a line in the
// list of export/all. docs/adding-an-exporter.md says more.
//
// Unstable: it may change without notice.
package weights
