// Package advise says what is wrong with a quantized network and what helps: from the figures of an analysis and the statistics of a
// calibration it finds causes, each with the numbers that show it, and cures, each as a command. What a cure is worth is measured by
// whoever has the samples: package qwb tries it in the simulation and drops what does not help.
//
// A cause is one file with one Cause, and a line in Causes.
//
// Unstable: it may change without notice.
package advise
