// Package decision is what a plan is made of: an ordered list of decisions. A decision says who made it, which operators or tensors it
// is about (a Selector), and what is to hold for them (Properties). Fold turns a list into one table of properties per operator and
// slot, in which later decisions win property by property; everything else in a plan follows from that table, the model, the
// target and the statistics.
//
// Decisions are only ever appended. Taking one back is a decision too (Unset), so that numbers such as #3 mean the same for ever, and
// what happened can be read from the list.
//
// Unstable: it may change without notice.
package decision
