// Package steps answers what more than one backend asks about the steps of an integer program: where elements lie, which product is
// summed in pairs, which element a move takes from where, which steps are one function of single codes.
//
// Unstable: it may change without notice.
package steps
