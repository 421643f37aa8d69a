package gpu

import (
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// function computes three steps as one, as the CPU backend does.
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
		from := f.First.Inputs[0]
		in, out := e.program.Tensors[from].DType, e.program.Tensors[f.Last.Outputs[0]].DType
		e.steps[f.First.ID].covered, e.steps[f.Middle.ID].covered = true, true
		e.steps[f.Last.ID].function = &function{newLookup(e, in, out, at), from}
		e.lastUse[from] = max(e.lastUse[from], int(f.Last.ID))
	}
	return nil
}

var _ kernel = (*function)(nil)
