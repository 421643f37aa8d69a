// Package reports renders what package analysis has computed: text tables for a terminal, HTML files that work offline, and PNG
// plots. It computes nothing but shares and sums of what it shows: every other number is a field of a result.
//
// Unstable: it may change without notice.
package reports
