//go:build (!amd64 && !arm64) || purego

package kernels

// This build has no rows written in assembly.

func vectorRows() []Row       { return nil }
func vectorMathRows() []Row   { return nil }
func vectorInt8Rows() []Row   { return nil }
func vectorCodesRows() []Row  { return nil }
func vectorGroupsRows() []Row { return nil }
func vectorGramRows() []Row   { return nil }
func vectorUnitsRows() []Row  { return nil }
func vectorPeaks() []Peak     { return nil }

// compareRows returns the comparison and the parts of an instruction set, nil for plain Go.
func compareRows(string) (compare, parts func(*sums)) { return nil, nil }

// moves is false: elements are moved by plain Go here, and choose and turn are not called.
func moves(string) bool { return false }
func choose(*moveTile)  {}
func turn(*moveTile)    {}

// columnsRow returns nil: sums by column are plain Go here.
func columnsRow(string) func(*columnsTile) { return nil }

// wideRow returns nil: sums of products of float64 are plain Go here.
func wideRow(string) func(*wideTile) { return nil }
