package qwb

import (
	"context"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
)

// DiffOptions are the arguments of diff: plans or quantized models.
type DiffOptions struct{ A, B string }

// DiffResult is what diff --json prints.
type DiffResult struct {
	A         string    `json:"a"`
	B         string    `json:"b"`
	Platforms [2]string `json:"platforms"`
	*analysis.DiffResult
	// OnlyA and OnlyB are decisions in force, in words, that only one of two plans has.
	OnlyA []string `json:"only_a,omitempty"`
	OnlyB []string `json:"only_b,omitempty"`
}

// side is one file of a comparison, ready to be configured.
type side struct {
	file    string
	planned *Planned       // of a plan
	model   *Model         // of a model
	q       *qdq.Quantized // of a model
}

func (s *side) close() {
	if s.planned != nil {
		s.planned.Close()
	}
	if s.model != nil {
		s.model.Close()
	}
}

func (j *job) openSide(file string) (*side, error) {
	if strings.HasSuffix(file, PlanSuffix) {
		p, err := j.openPlan(file)
		if err != nil {
			return nil, err
		}
		return &side{file: file, planned: p}, nil
	}
	m, err := j.openModel(file)
	if err != nil {
		return nil, err
	}
	q, err := qdq.Read(m.Graph)
	if err != nil {
		m.Close()
		return nil, &FileError{File: file, Err: err}
	}
	return &side{file: file, model: m, q: q}, nil
}

// configured returns the side's set; a model is read for target t, or for the one that suits it.
func (s *side) configured(t *target.Target) (analysis.Configured, *target.Target, error) {
	if s.planned != nil {
		return analysis.Configured{Graph: s.planned.Graph, Set: s.planned.Set}, s.planned.Target, nil
	}
	im, err := fitting(s.model, s.q, t)
	if err != nil {
		return analysis.Configured{}, nil, &FileError{File: s.file, Err: err}
	}
	return analysis.Configured{Graph: im.Graph, Set: im.Set}, im.Target, nil
}

func (j *job) diff(ctx context.Context, a, b string) (*DiffResult, error) {
	x, err := j.openSide(a)
	if err != nil {
		return nil, err
	}
	defer x.close()
	y, err := j.openSide(b)
	if err != nil {
		return nil, err
	}
	defer y.close()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var t *target.Target
	if y.planned != nil {
		t = y.planned.Target
	}
	left, t, err := x.configured(t)
	if err != nil {
		return nil, err
	}
	right, u, err := y.configured(t)
	if err != nil {
		return nil, err
	}
	r, err := analysis.Diff(left, right)
	if err != nil {
		return nil, err
	}
	out := &DiffResult{A: a, B: b, Platforms: [2]string{t.Name, u.Name}, DiffResult: r}
	if x.planned != nil && y.planned != nil {
		p, q := inWords(x.planned.Plan), inWords(y.planned.Plan)
		out.OnlyA, out.OnlyB = without(p, q), without(q, p)
	}
	return out, nil
}

// inWords lists the decisions of a plan that are in force.
func inWords(p *plan.Plan) (list []string) {
	in := decision.InForce(p.Decisions)
	for i := range p.Decisions {
		if in[i] {
			list = append(list, p.Decisions[i].String())
		}
	}
	return list
}

// without returns what of a list another one does not have, as often as it has it more.
func without(list, other []string) []string {
	left := map[string]int{}
	for _, s := range other {
		left[s]++
	}
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { left[s]--; return left[s] >= 0 })
}
