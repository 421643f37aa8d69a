package tune

import (
	"encoding/json"
	"fmt"

	"qwb/calib/tune"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
)

// Params are those of a decision by tune: what to do it again with, but for data that were named. nil for the defaults.
func (o *Options) Params(r *Result) (json.RawMessage, error) {
	p := decision.Tuning{Force: o.Force, AllowFP32: o.AllowFP32, MaxWork: o.MaxWork, MaxBytes: o.MaxBytes, Steps: o.Steps,
		Blocks: o.Blocks, Loss: unusual(o.Loss, tune.SquaredLoss), Optimizer: unusual(o.Optimizer, tune.Adam), Profile: o.Profile}
	if len(o.Data.Paths) == 0 {
		p.Samples = o.Data.Samples
	}
	limit := r.Budget
	if work, err := ParseBudget(o.Budget); err == nil && work.Limit > 0 {
		limit = work.Limit
	}
	if limit > 0 {
		p.Budget = fmt.Sprintf("%.0f forwards", limit)
	}
	b, err := json.Marshal(p)
	if err != nil || string(b) == "{}" {
		return nil, err
	}
	return b, nil
}

// unusual is what an option says, "" where that is what holds anyway.
func unusual(value, usual string) string {
	if value == usual {
		return ""
	}
	return value
}

func tuneEvidence(r *Result) *planning.TuneEvidence {
	e := &planning.TuneEvidence{Samples: r.Samples, HeldOut: r.HeldOut, HeldOutKind: r.HeldOutKind, Before: r.Before, After: r.After,
		Change:      r.Change,
		ChangeError: r.ChangeError, Confirmed: r.Confirmed, Steps: r.Steps, FloatNSR: r.FloatNSR, OnIntegers: &r.OnIntegers}
	for _, m := range r.Methods {
		e.Methods = append(e.Methods, planning.MethodEvidence{Name: m.Name, Tried: len(m.Layers), Kept: m.Kept, Before: m.Before.NSR,
			After: m.After.NSR, Note: m.Note})
	}
	return e
}

// Lines is one line about each method of a tuning.
func (r *Result) Lines() []string {
	var lines []string
	for _, m := range tuneEvidence(r).Methods {
		lines = append(lines, m.String())
	}
	return lines
}
