package analysis

import (
	"math"
	"slices"

	"qwb/graph/exec"
)

// Blocks says which samples are one piece of evidence: by sample, in the order of the data, the number of its block. Those of one stand
// next to each other. What is wrong at one step of a sequence is wrong at the next ones too, so that a thousand steps of one recording tell
// less than a thousand recordings. nil: every sample stands for itself.
type Blocks []int

// manySequences is how many say by themselves how sure a mean over them is. Fewer are cut into blocks of time.
const manySequences = 8

// NewBlocks are the blocks of sequences that follow each other, by their numbers of steps; 1 is a sample that is no step. Each sequence is
// a block where there are many. Fewer are cut into blocks of about the root of the number of all steps, so that each is cut evenly (batch
// means; that length: Flegal and Jones, Batch Means and Spectral Variance Estimators in Markov Chain Monte Carlo, 2010). nil where all
// numbers are 1.
func NewBlocks(steps []int) Blocks {
	sequences, all := 0, 0
	for _, n := range steps {
		if n > 1 {
			sequences, all = sequences+1, all+n
		}
	}
	if sequences == 0 {
		return nil
	}
	length := math.Ceil(math.Sqrt(float64(all)))
	var b Blocks
	block := 0
	for _, n := range steps {
		pieces := 1
		if sequences < manySequences {
			pieces = max(int(float64(n)/length), 1)
		}
		for step := range n {
			b = append(b, block+step*pieces/n)
		}
		block += pieces
	}
	return b
}

// BlocksOf are the blocks of samples, some of which are steps.
func BlocksOf(samples []*exec.Sample) Blocks {
	return blocksIn(placesOf(samples, placeIn))
}

// placesOf are the places of what was found out about each sample.
func placesOf[T any](list []T, place func(T) placeOf) []placeOf {
	places := make([]placeOf, len(list))
	for i, x := range list {
		places[i] = place(x)
	}
	return places
}

// JoinBlocks are the blocks of lists of samples behind each other, the i-th of count(i) samples; nil where none has any.
func JoinBlocks(list []Blocks, count func(i int) int) (all Blocks) {
	if !slices.ContainsFunc(list, func(b Blocks) bool { return b != nil }) {
		return nil
	}
	first := 0
	for i, b := range list {
		for k := range count(i) {
			at := k
			if b != nil {
				at = b[k]
			}
			all = append(all, first+at)
		}
		first += b.Count(count(i))
	}
	return all
}

func blocksIn(places []placeOf) Blocks {
	var steps []int
	for i, p := range places {
		if i > 0 && p.of != nil && places[i-1].of != nil && p.step == places[i-1].step+1 {
			steps[len(steps)-1]++
			continue
		}
		steps = append(steps, 1)
	}
	return NewBlocks(steps)
}

// Of makes values of samples that depend on each other values of blocks that do not, for any estimate and test: they have the mean of
// all samples, and its standard error is that of a ratio of sums over blocks, sqrt(B/(B-1) sum(r^2)) / n, where r is the sum of a block
// less the mean of all for each of its n_b samples (Cochran, Sampling Techniques, 1977, chapter 6). Without blocks they are the values
// themselves. The lists have the same length.
func (b Blocks) Of(values []float64) []float64 {
	if b == nil || len(values) == 0 {
		return values
	}
	mean := NewEstimate(values).Mean
	var rest []float64
	for i, x := range values {
		if i == 0 || b[i] != b[i-1] {
			rest = append(rest, 0)
		}
		rest[len(rest)-1] += x - mean
	}
	for k := range rest {
		rest[k] = mean + rest[k]*float64(len(rest))/float64(len(values))
	}
	return rest
}

// Estimate is the mean of the values with the standard error that blocks give it. N counts blocks.
func (b Blocks) Estimate(values []float64) Estimate { return NewEstimate(b.Of(values)) }

// Count is how many blocks so many samples are.
func (b Blocks) Count(samples int) int {
	if len(b) == 0 {
		return samples
	}
	return b[len(b)-1] + 1
}

// differences are those of after from before, by block.
func (b Blocks) differences(before, after []float64) []float64 { return b.Of(less(after, before)) }
