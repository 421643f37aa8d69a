// Package reports renders what analysis computed: text tables for a terminal, one offline HTML file, PNG plots. It computes
// nothing: every number shown is a field of analysis.Report.
package reports
