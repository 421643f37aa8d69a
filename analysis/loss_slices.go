package analysis

import (
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// SliceLoss is the loss of a part of an output. Its errors are sums over all samples over the signal of the part in all samples, as
// SliceError has them. What one number per channel repairs is not known of parts.
type SliceLoss struct {
	Name    string `json:"name"`
	Finding string `json:"finding,omitempty"` // see SliceError
	Loss
}

// sliceMeter adds up what single changes do to the parts of outputs.
type sliceMeter struct {
	judge *Judge
	at    []int         // by output of the judge its place among those of the graph; -1: it stands in front of one
	whole tally         // of the integers
	parts [stages][]sum // by part
	n     int
}

// newSliceMeter prepares the sums of the parts of g's outputs: those given, else those of FindSlices. Of outputs whose size depends on the
// numbers there are none.
func newSliceMeter(g *graph.Graph, c *counts, parts []Slice) *sliceMeter {
	m := &sliceMeter{judge: NewJudge(g, parts...)}
	for _, v := range m.judge.g.Outputs {
		k := slices.Index(g.Outputs, v)
		if k >= 0 && c.counted[v] {
			k = -1
		}
		m.at = append(m.at, k)
	}
	for stage := range m.parts {
		m.parts[stage] = make([]sum, len(m.judge.slices))
	}
	return m
}

// judged picks what the judge is shown of the outputs of a run; nothing stands where it judges something else.
func (m *sliceMeter) judged(run []*tensor.Tensor) []*tensor.Tensor {
	list := make([]*tensor.Tensor, len(m.at))
	for i, k := range m.at {
		list[i] = tensor.New(tensor.Float32, 0)
		if k >= 0 {
			if list[i] = exec.Floats(run[k]); list[i] == nil {
				list[i] = run[k]
			}
		}
	}
	return list
}

// add adds one sample; see aloneMeter.
func (m *sliceMeter) add(alone *[stages][]*tensor.Tensor, whole []*tensor.Tensor) error {
	if len(m.judge.slices) == 0 {
		return nil
	}
	float := m.judged(alone[stageFloat])
	sums, err := m.judge.sums(m.judged(whole), float, false)
	if err != nil {
		return err
	}
	m.whole.add(m.n, sums)
	m.n++
	for stage := stageWeights; stage < stages; stage++ {
		to, from := m.judged(alone[stage]), float
		if before := stageBefore[stage]; before != stageFloat {
			from = m.judged(alone[before])
		}
		for i := range m.judge.cuts {
			c := &m.judge.cuts[i]
			if m.at[c.output] < 0 || !to[c.output].DType.IsFloat() {
				continue
			}
			if err := c.add(to[c.output], from[c.output], false, m.parts[stage]); err != nil {
				return err
			}
		}
	}
	return nil
}

// losses are those of the parts that count, by output of the graph.
func (m *sliceMeter) losses(outputs int) [][]SliceLoss {
	out := make([][]SliceLoss, outputs)
	if m.n == 0 {
		return out
	}
	errors, _ := m.judge.verdicts(&m.whole)
	next := make([]int, len(m.at))
	for i := range m.judge.slices {
		k := m.judge.slices[i].Output
		e := &errors[k][next[k]]
		if next[k]++; !e.Judged || m.at[k] < 0 {
			continue
		}
		var p [stages]float64
		p[stageFloat] = e.NSR
		for stage := stageWeights; stage < stages; stage++ {
			p[stage] = m.parts[stage][i].noise / (m.whole.total[len(m.at)+i].signal + nsrFloor*float64(m.n))
		}
		l := lossMeter{p, 1}
		out[m.at[k]] = append(out[m.at[k]], SliceLoss{e.Name, e.Finding, l.mean()})
	}
	return out
}
