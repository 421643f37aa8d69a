package cpu

import (
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// function computes three steps as one: integers made real, an island that computes every element from the one at the same place,
// and integers made of that. The island is run once on every code there is; its kernels give an element the same bits wherever it
// stands. Runs with a hook, which shows the steps between, compute them as they are.
type function struct {
	*lookup
	from lower.TensorID // what the first of the steps reads
}

// joinFunctions finds such steps. Of each three, the first two are marked as covered and the last gets the function.
func (e *engine) joinFunctions() error {
	for _, f := range steps.Functions(e.program) {
		at, err := f.Tabulate(e.program)
		if err != nil {
			return err
		}
		if at == nil {
			continue
		}
		in, out := e.program.Tensors[f.First.Inputs[0]].DType, e.program.Tensors[f.Last.Outputs[0]].DType
		m := &lookup{table: newByteTable(in, out, at), dtype: out, par: e.par}
		m.piece = m.runPiece
		e.steps[f.First.ID].covered, e.steps[f.Middle.ID].covered = true, true
		e.steps[f.Last.ID].function = &function{m, f.First.Inputs[0]}
	}
	return nil
}
