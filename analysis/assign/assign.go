// Package assign chooses one of several formats for each unit of a network so that a bound on the sum of errors is met at the least cost,
// or one on cost at the least error.
//
// Unstable: it may change without notice.
package assign
