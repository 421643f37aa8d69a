package certify

import (
	"slices"

	"qwb/analysis"
)

// gatedRow is a sample: what identifies it, its label, its classes by float and by the run, and the error of the run.
type gatedRow struct {
	hash                string // the same for all steps of a sequence
	label, float, class int
	loss                float64
}

// sampleKey tells rows apart: one picture may be there twice, with two labels, and a sequence has many steps.
type sampleKey struct {
	hash  string
	label int
	time  int // how many such rows stood before
}

// byKey finds rows.
func byKey(rows []gatedRow) (map[sampleKey]*gatedRow, []sampleKey) {
	found, keys := make(map[sampleKey]*gatedRow, len(rows)), make([]sampleKey, len(rows))
	times := map[sampleKey]int{}
	for i := range rows {
		k := sampleKey{hash: rows[i].hash, label: rows[i].label}
		times[k]++
		k.time = times[k]
		found[k], keys[i] = &rows[i], k
	}
	return found, keys
}

// right is the class that counts as right.
func (r *gatedRow) right() int {
	if r.label >= 0 {
		return r.label
	}
	return r.float
}

// unlabelled are rows without their labels, which classes do not hang on.
func unlabelled(rows []gatedRow) []gatedRow {
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].label = 0
	}
	return rows
}

// blocks are those of rows, whose sequences follow each other.
func (s *gated) blocks() analysis.Blocks {
	if !s.steps {
		return nil
	}
	var steps []int
	for i := range s.rows {
		if i == 0 || s.rows[i].hash != s.rows[i-1].hash {
			steps = append(steps, 0)
		}
		steps[len(steps)-1]++
	}
	return analysis.NewBlocks(steps)
}

// lastSteps are the errors at the ends of sequences: an error that grows from step to step is small on the average of a short one.
func lastSteps(rows []gatedRow) (list []float64) {
	for i := range rows {
		if i+1 == len(rows) || rows[i+1].hash != rows[i].hash {
			list = append(list, rows[i].loss)
		}
	}
	return list
}
