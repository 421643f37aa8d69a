// Package dispatch decides for every node of a graph whether it runs on integers, stays float, or computes shapes and
// indices. Three steps are the same whatever the strategy: what no strategy may change is settled first (shapes and indices, what
// the target has no integers for, what a user or a search forced, what is computed together with another node); a Strategy then
// decides about the rest; last, regions whose work does not pay for converting numbers at their borders go back to float.
//
// The package measures nothing. Users and searches force sets of nodes to float or to integers; it restores the constraints
// around them, or says why that cannot be.
//
// Unstable: it may change without notice.
package dispatch
