// Package plan is the plan file (model.plan.json): everything that was decided about a model, in a form that people read, edit
// and compare. It holds the config, state and scale of every slot, the domain of every node and who decided it, the platform,
// and what is needed to repeat the calibration: data, preprocessing, sample count, seed, hashes of model and data.
//
// The file is a function of these alone: nodes stand in canonical order, one slot per line, scales are the shortest decimals
// that read back as the same float32; no time, host or thread count is in it. Reading is strict: an unknown key, a number
// out of range or a state that contradicts another is an error that says where.
package plan
