// Package exec runs a float graph. A Session is a graph made ready (order, evaluators, folded constants, packed weights), a
// Runner is the memory of one goroutine that runs it.
//
// Every operator is an evaluator in one of the tables that evalTable lists. Shapes are inferred by package graph, arithmetic
// on slices is done by package kernels; what stands between them is here: which layout a value has, where it lies, how long
// it lives and who may see it.
//
// Memory: the first run for a set of input shapes allocates from the heap and records which buffer lives from which step to
// which. From that record offsets into one arena per element type are assigned, and further runs with the same shapes
// allocate no activation. A run whose shapes depend on data and differ from the record falls back to the heap and is recorded
// anew.
//
// Layout: convolutions, pools and what stands between them compute channels-last; operators that care about the order of
// elements read row-major. A value is converted at most once per run.
//
// The package decides nothing about quantization: observers and the simulator attach as Hooks.
//
// Unstable: it may change without notice.
package exec
