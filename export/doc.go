// Package export says what an exporter is: a Format, one value with a name, what it is made of, its options and the functions that
// check and write. Package all lists them; flags, help and JSON come from the values. docs/adding-an-exporter.md shows how to add one.
//
// Stable: what it exports keeps its meaning; see docs/library.md.
package export
