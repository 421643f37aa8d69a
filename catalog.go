package qwb

import (
	"qwb/export/all"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// Standard returns a catalog with all that there is for the processor: the integer kernels and the reference that they are held against,
// the built-in platforms and formats. It has no clock: durations in results are 0 unless Now is set. version is the release of the program
// that stands in exported files. What a program brings along is added to the catalog's lists.
func Standard(version string) Catalog {
	return Catalog{Version: version, Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}
}
