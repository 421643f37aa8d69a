package compare

import (
	"context"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/graph"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/reports"
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

// StructuresResult says which operators two networks share.
type StructuresResult struct {
	FileA     string `json:"file_a"`
	FileB     string `json:"file_b"`
	Different string `json:"different"` // in words, where they have too little in common
	*analysis.Structure
	PictureA *reports.Picture `json:"picture_a"` // nil where both have the same operators
	PictureB *reports.Picture `json:"picture_b"`
}

func Structures(ctx context.Context, j *open.Job, a, b string) (*StructuresResult, error) {
	var sides [2]analysis.Configured
	for i, file := range []string{a, b} {
		s, err := openSide(j, file, true)
		if err != nil {
			return nil, err
		}
		defer s.close()
		if sides[i].Graph = s.graph(); s.planned != nil {
			sides[i].Set = s.planned.Set
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	s, err := analysis.Structures(sides[0], sides[1])
	if err != nil {
		return nil, err
	}
	r := &StructuresResult{FileA: a, FileB: b, Different: s.Different(), Structure: s}
	if s.Same() {
		return r, nil
	}
	for i, p := range []**reports.Picture{&r.PictureA, &r.PictureB} {
		t, err := analysis.NewTopology(sides[i].Graph, sides[i].Set, nil)
		if err != nil {
			return nil, err
		}
		*p = reports.NewPicture(t)
	}
	return r, nil
}

// side is one file of a comparison, ready to be configured.
type side struct {
	file    string
	planned *planning.Planned // of a plan
	model   *open.Model       // of a model
	q       *qdq.Quantized    // of a model
	targets target.Catalog    // those that a model may be meant for
}

func (s *side) close() {
	if s.planned != nil {
		s.planned.Close()
	}
	if s.model != nil {
		s.model.Close()
	}
}

// graph is the network of the side: of a plan as it is quantized, of a model that another tool quantized without its quantizers.
func (s *side) graph() *graph.Graph {
	switch {
	case s.planned != nil:
		return s.planned.Graph
	case s.q != nil:
		return s.q.Graph
	}
	return s.model.Graph
}

// openSide opens a plan or a quantized model, and with float a float one too.
func openSide(j *open.Job, file string, float bool) (*side, error) {
	if strings.HasSuffix(file, store.PlanSuffix) {
		p, err := planning.OpenPlan(j, file)
		if err != nil {
			return nil, err
		}
		return &side{file: file, planned: p}, nil
	}
	m, err := j.OpenModel(file)
	if err != nil {
		return nil, err
	}
	if float && open.Unquantized(m) == nil {
		m.Close()
		if m, err = j.OpenNormal(file); err != nil {
			return nil, err
		}
		return &side{file: file, model: m}, nil
	}
	q, err := planning.ReadQuantized(j.Context(), m)
	if err != nil {
		m.Close()
		return nil, &fault.FileError{File: file, Err: err}
	}
	return &side{file: file, model: m, q: q, targets: j.Catalog.Targets()}, nil
}

// configured returns the side's set; a model is read for target t, or for the one that suits it.
func (s *side) configured(t *target.Target) (analysis.Configured, *target.Target, error) {
	if s.planned != nil {
		return analysis.Configured{Graph: s.planned.Graph, Set: s.planned.Set}, s.planned.Target, nil
	}
	im, err := planning.Fitting(s.model, s.q, s.targets, t)
	if err != nil {
		return analysis.Configured{}, nil, &fault.FileError{File: s.file, Err: err}
	}
	return analysis.Configured{Graph: im.Graph, Set: im.Set}, im.Target, nil
}

func Diff(ctx context.Context, j *open.Job, a, b string) (*DiffResult, error) {
	x, err := openSide(j, a, false)
	if err != nil {
		return nil, err
	}
	defer x.close()
	y, err := openSide(j, b, false)
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
