package program

import (
	"context"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Each is Run for callers that look at every tensor: see is shown each one that a step reads or makes, once, the first time that a step
// does. What it is shown lives until it returns. An error of see ends the run.
func (e *Executor) Each(ctx context.Context, feeds map[string]*tensor.Tensor, see func(id lower.TensorID, t *tensor.Tensor) error) error {
	seen := map[lower.TensorID]bool{lower.NoTensor: true}
	all := func(ids []lower.TensorID, list []*tensor.Tensor) error {
		for k, id := range ids {
			if seen[id] || list[k] == nil {
				continue
			}
			seen[id] = true
			if err := see(id, list[k]); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := e.Run(ctx, feeds, func(s *lower.Step, ins, outs []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if err := all(s.Inputs, ins); err != nil {
			return nil, err
		}
		return nil, all(s.Outputs, outs)
	})
	return err
}
