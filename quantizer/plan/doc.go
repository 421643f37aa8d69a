// Package plan is the plan file (model.plan.json): the inputs of a quantized model by their hashes, the decisions that were made about
// it, and what follows from these: the config, state and scale of every slot and the domain of every node. People read it and compare
// it; it is changed by deciding something.
//
// The file is a function of inputs and decisions alone: nodes stand in canonical order, one slot and one decision per line, scales are
// the shortest decimals that read back as the same float32; no time, host or thread count is in it. Reading is strict: an unknown key, a
// number out of range or a state that contradicts another is an error that says where. Version 1 of the file, which had options in the
// place of decisions, is read as well.
//
// Unstable: it may change without notice.
package plan
