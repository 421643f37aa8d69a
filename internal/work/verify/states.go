package verify

import (
	"context"
	"fmt"

	"qwb/graph/exec"
	"qwb/internal/work/open"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// OwnStates gives the steps of sequences with the states that a program itself leaves, and not with those of the float network: what is
// verified is then what runs in a product. Other samples pass as they are.
func OwnStates(j *open.Job, it exec.Iterator, p *lower.Program, threads int) exec.Iterator {
	return &ownStates{Iterator: it, job: j, program: p, threads: threads}
}

type ownStates struct {
	exec.Iterator
	job     *open.Job
	program *lower.Program
	threads int
	engine  *program.Executor // nil until a step comes
	rolling exec.Rolling
}

// Next implements exec.Iterator.
func (o *ownStates) Next(ctx context.Context) (*exec.Sample, error) {
	s, err := o.Iterator.Next(ctx)
	if err != nil || s.Sequence == nil {
		return s, err
	}
	if o.engine == nil {
		backend, err := o.job.Catalog.Backend("")
		if err != nil {
			return nil, err
		}
		if o.engine, err = program.New(o.program, backend, o.threads); err != nil {
			return nil, err
		}
	}
	own := *s
	own.Feeds = o.rolling.Feeds(s)
	out, err := o.engine.Run(ctx, own.Feeds, nil)
	if err == nil {
		err = o.rolling.Keep(o.program.Graph, s, out)
	}
	if err != nil {
		return nil, fmt.Errorf("states of %s: %w", s.Name, err)
	}
	return &own, nil
}
