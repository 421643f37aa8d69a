package program

import "qwb/quantizer/lower"

// cudaFunction computes three steps as one, as cpuFunction does.
type cudaFunction struct {
	*cudaMap
	from lower.TensorID // what the first of the steps reads
}

// joinFunctions finds such steps. Of each three, the first two are marked as covered and the last gets the function.
func (e *cudaEngine) joinFunctions() error {
	for _, f := range findFunctions(e.program) {
		at, err := f.tabulate(e.program)
		if err != nil {
			return err
		}
		from := f.first.Inputs[0]
		in, out := e.program.Tensors[from].DType, e.program.Tensors[f.last.Outputs[0]].DType
		e.steps[f.first.ID].covered, e.steps[f.middle.ID].covered = true, true
		e.steps[f.last.ID].function = &cudaFunction{newCUDAMap(e, in, out, at), from}
		e.lastUse[from] = max(e.lastUse[from], int(f.last.ID))
	}
	return nil
}

var _ cudaKernel = (*cudaFunction)(nil)
