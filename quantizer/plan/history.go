package plan

import (
	"errors"

	"qwb/quantizer/decision"
)

// Decide appends what one command decided. What was undone before cannot be done again then.
func (p *Plan) Decide(step ...decision.Decision) {
	if len(step) == 0 {
		return
	}
	p.Decisions = append(p.Decisions[:len(p.Decisions):len(p.Decisions)], step...)
	p.Steps = append(p.Steps[:len(p.Steps):len(p.Steps)], len(step))
	p.Redo = nil
}

// Also appends to what the last command decided: what followed from it and is to be remembered.
func (p *Plan) Also(list ...decision.Decision) {
	if len(p.Steps) == 0 {
		p.Decide(list...)
		return
	}
	p.Decisions = append(p.Decisions[:len(p.Decisions):len(p.Decisions)], list...)
	steps := append([]int(nil), p.Steps...)
	steps[len(steps)-1] += len(list)
	p.Steps = steps
}

// Errors of Undo and Again.
var (
	ErrFirst  = errors.New("there is nothing to undo: what is left are the decisions that the plan began with")
	ErrNoRedo = errors.New("there is nothing to redo")
)

// Undo takes the decisions of the last command off the list and returns them. Those that the plan began with stay.
func (p *Plan) Undo() (Step, error) {
	if len(p.Steps) < 2 {
		return nil, ErrFirst
	}
	last := len(p.Steps) - 1
	from := len(p.Decisions) - p.Steps[last]
	step := Step(p.Decisions[from:])
	p.Decisions, p.Steps = p.Decisions[:from:from], p.Steps[:last:last]
	p.Redo = append(p.Redo[:len(p.Redo):len(p.Redo)], step)
	return step, nil
}

// Again does what was undone last once more and returns it.
func (p *Plan) Again() (Step, error) {
	last := len(p.Redo) - 1
	if last < 0 {
		return nil, ErrNoRedo
	}
	step, rest := p.Redo[last], p.Redo[:last:last]
	p.Decide(step...)
	if p.Redo = rest; len(rest) == 0 {
		p.Redo = nil
	}
	return step, nil
}
