// Package dispatch decides for every node of a graph whether it runs on integers, stays float, or computes shapes and
// indices. The rule is conservative: integers start at operators with weights and spread forwards through what the target can
// compute on integers; an operator with several inputs follows only if all of them do, an activation stays with the operator it
// is fused with, and a region stays only if the work it saves pays for converting numbers at its borders.
//
// It measures nothing. Users and searches impose sets of float nodes on it; it restores the constraints around them.
package dispatch
