package program

import (
	"context"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Each is Run for callers that look at every tensor: see is shown each one that a step reads or makes, once, the first time that a step
// does. What it is shown lives until it returns. An error of see ends the run.
func (e *Executor) Each(ctx context.Context, feeds map[string]*tensor.Tensor, see func(id lower.TensorID, t *tensor.Tensor) error) error {
	_, err := e.Run(ctx, feeds, showing(see, nil))
	return err
}

// Show makes the next runs show their tensors to see as Each does, before their hooks.
func (e *Executor) Show(see func(id lower.TensorID, t *tensor.Tensor) error) { e.see = see }

// showing is a hook that shows what it sees before it calls another, which may be nil.
func showing(see func(id lower.TensorID, t *tensor.Tensor) error, hook Hook) Hook {
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
	return func(s *lower.Step, ins, outs []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if err := all(s.Inputs, ins); err != nil {
			return nil, err
		}
		if err := all(s.Outputs, outs); err != nil || hook == nil {
			return nil, err
		}
		return hook(s, ins, outs)
	}
}
