package tqc

import "qwb/graph"

// Warning is the one type of warnings, as packages above this one call it.
type Warning = graph.Warning
