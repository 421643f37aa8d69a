package language

import (
	"context"
	"errors"
	"fmt"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// Judged is a change of a model that was held against the model without it on the same sequences.
type Judged struct {
	Change    string   `json:"change"` // in words: "range of query"
	Sequences int      `json:"sequences"`
	NLLChange float64  `json:"nll_change"` // mean per token, with the change minus without; nats
	Error     *float64 `json:"nll_change_error"`
	Kept      bool     `json:"kept"`
}

// String is the judgement in a line.
func (j Judged) String() string {
	verdict := "not kept"
	if j.Kept {
		verdict = "kept"
	}
	spread := "of one sequence, which has no error"
	if j.Error != nil {
		spread = fmt.Sprintf("± %.2g on %d sequences", *j.Error, j.Sequences)
	}
	return fmt.Sprintf("%s: mean NLL %+.2g %s: %s", j.Change, j.NLLChange, spread, verdict)
}

// keptBelow is how many standard errors below zero the change of the NLL has to be.
const keptBelow = 2

// JudgeConfig says how Judge works.
type JudgeConfig struct {
	Model *decode.Engine
	Name  string                   // of what is tried: "range"
	Roles []checkpoint.Role        // what is tried together, one after the other
	Parts []checkpoint.Part        // the matrices
	Texts func() (Passages, error) // the same texts each time
	// Try changes a matrix of Model until restore is called.
	Try      func(ctx context.Context, p checkpoint.Part) (restore func(), err error)
	Threads  int
	Progress func(done int) // is told how many roles have been tried; may be nil
}

// Judge changes the matrices of one role after the other and keeps a change where the model gets better by more than chance explains: the
// paired change of the mean NLL, by sequence, is more than two standard errors below zero (see ratio). Each is held against the model with
// those kept before. The model has what was kept at the end.
func Judge(ctx context.Context, cfg JudgeConfig) (kept []checkpoint.Role, judged []Judged, err error) {
	current, err := cfg.scores(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i, role := range cfg.Roles {
		var restores []func()
		for _, p := range cfg.Parts {
			if p.Role != role {
				continue
			}
			restore, err := cfg.Try(ctx, p)
			if err != nil {
				return nil, nil, err
			}
			restores = append(restores, restore)
		}
		with, err := cfg.scores(ctx)
		if err != nil {
			return nil, nil, err
		}
		j := compare(fmt.Sprintf("%s of %s", cfg.Name, role), with, current)
		if judged = append(judged, j); j.Kept {
			kept, current = append(kept, role), with
		} else {
			for k := len(restores) - 1; k >= 0; k-- {
				restores[k]()
			}
		}
		if cfg.Progress != nil {
			cfg.Progress(i + 1)
		}
	}
	return kept, judged, nil
}

// scores scores the texts by the model as it is.
func (c *JudgeConfig) scores(ctx context.Context) (list []Score, err error) {
	texts, err := c.Texts()
	if err != nil {
		return nil, err
	}
	_, err = Eval(ctx, texts, Config{Model: c.Model, Threads: c.Threads, Each: func(s Score) error { list = append(list, s); return nil }})
	if err == nil && len(list) < 2 {
		err = errors.New("eval: one text says nothing about chance: two or more are needed to judge by")
	}
	return list, err
}

// compare judges scores of the same sequences.
func compare(change string, with, without []Score) Judged {
	var r ratio
	for i, s := range with {
		r.add(s.NLL-without[i].NLL, s.Tokens)
	}
	j := Judged{Change: change, Sequences: len(with), NLLChange: r.mean(), Error: r.err()}
	j.Kept = j.Error != nil && j.NLLChange+keptBelow**j.Error < 0
	return j
}
