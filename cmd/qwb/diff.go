package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"qwb/analysis"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/reports"
)

// diffResult is what diff --json prints.
type diffResult struct {
	A         string    `json:"a"`
	B         string    `json:"b"`
	Platforms [2]string `json:"platforms"`
	*analysis.DiffResult
}

func newDiff(e *env) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two plans or quantized models",
		Long: `Diff compares plans (*.plan.json) and quantized ONNX models, any two of them: which operators run on integers, and of every tensor its
state, scheme, scale, zero point and, of weights and biases, how many integers differ. A quantized model is read as import reads it,
for the platform of the plan it is compared with. Differences are a result, not a failure: the exit code is 0.`,
		Args: exactly(2, "two plans or models"),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := e.diff(args[0], args[1])
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			return reports.DiffText(e.stdout, r.DiffResult)
		},
	}
	f.addJSON(c)
	return c
}

// side is one file of a comparison, ready to be configured.
type side struct {
	file    string
	planned *planned       // of a plan
	model   *model         // of a model
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

func (e *env) openSide(file string) (*side, error) {
	if strings.HasSuffix(file, planSuffix) {
		p, err := e.openPlan(file)
		if err != nil {
			return nil, err
		}
		return &side{file: file, planned: p}, nil
	}
	m, err := e.openModel(file)
	if err != nil {
		return nil, err
	}
	q, err := qdq.Read(m.Graph)
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &side{file: file, model: m, q: q}, nil
}

// configured returns the side's set; a model is read for target t, or for the one that suits it.
func (s *side) configured(t *target.Target) (analysis.Configured, *target.Target, error) {
	if s.planned != nil {
		return analysis.Configured{Graph: s.planned.Graph, Set: s.planned.set}, s.planned.target, nil
	}
	im, err := fitting(s.model, s.q, t)
	if err != nil {
		return analysis.Configured{}, nil, fmt.Errorf("%s: %w", s.file, err)
	}
	return analysis.Configured{Graph: im.Graph, Set: im.Set}, im.Target, nil
}

func (e *env) diff(a, b string) (*diffResult, error) {
	x, err := e.openSide(a)
	if err != nil {
		return nil, err
	}
	defer x.close()
	y, err := e.openSide(b)
	if err != nil {
		return nil, err
	}
	defer y.close()
	var t *target.Target
	if y.planned != nil {
		t = y.planned.target
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
	return &diffResult{A: a, B: b, Platforms: [2]string{t.Name, u.Name}, DiffResult: r}, nil
}
