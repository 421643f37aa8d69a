package qwb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"qwb/calib/data"
	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/quantizer/plan"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// ImportOptions are the arguments of import.
type ImportOptions struct {
	Platform   string // empty: found
	Preprocess string
}

// ImportResult is what import --json prints.
type ImportResult struct {
	Plan      string        `json:"plan"`
	Model     string        `json:"model"` // the float model
	Platform  string        `json:"platform"`
	Profile   string        `json:"profile"`
	Pairs     int           `json:"pairs"`
	Constants int           `json:"constants"` // that were integers
	Integer   int           `json:"integer"`   // operators
	Nodes     int           `json:"nodes"`
	Warnings  []tqc.Warning `json:"warnings"`
}

const floatSuffix = ".float.onnx"

func (j *job) importModel(ctx context.Context, o ImportOptions) (*ImportResult, error) {
	var forced *target.Target
	if o.Platform != "" {
		t, err := target.Known(o.Platform)
		if err != nil {
			return nil, UsageError{err}
		}
		forced = t
	}
	m, err := j.openModel(j.Model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	q, err := qdq.Read(m.Graph)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.Model, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	im, err := fitting(m, q, forced)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.Model, err)
	}
	r := &ImportResult{Plan: j.Plan, Model: strings.TrimSuffix(j.Plan, PlanSuffix) + floatSuffix, Platform: im.Target.Name, Profile: im.Target.Profile,
		Pairs: q.Pairs, Constants: q.Codes, Warnings: append([]tqc.Warning{}, im.Warnings...)}
	for _, id := range im.Graph.Nodes() {
		r.Nodes++
		if im.Set.Domains[id] == tqc.DomainINT8 {
			r.Integer++
		}
	}
	if err := j.writeImport(m, im, o, r); err != nil {
		return nil, err
	}
	for _, w := range r.Warnings {
		j.warnAbout(w)
	}
	return r, nil
}

// fitting configures for the platform asked for, or for the first likely one that would take what is exported again. What the
// platform asked for would refuse is a warning.
func fitting(m *Model, q *qdq.Quantized, forced *target.Target) (*qdq.Imported, error) {
	list := q.Platforms()
	if forced != nil {
		list = []*target.Target{forced}
	}
	for i, t := range list {
		im, err := q.Configure(t)
		if err != nil {
			return nil, err
		}
		why := refusal(m, im)
		switch {
		case why == nil:
			return im, nil
		case i == len(list)-1:
			im.Warnings = append(im.Warnings, tqc.Warning{Text: fmt.Sprintf("%s does not take this as it is: %v", t.Name, why)})
			return im, nil
		}
	}
	return nil, errors.New("import: no platform") // Platforms is never empty
}

// refusal says why the platform of an imported graph would not take its export.
func refusal(m *Model, im *qdq.Imported) error {
	out, err := onnxqdq.Build(m.WithGraph(im.Graph), im.Set, im.Target, onnxqdq.Options{})
	if err != nil {
		return err
	}
	graph.InferShapes(out.Graph)
	findings := onnxqdq.Check(out.Graph, im.Target, func(node string) bool {
		id, ok := im.Graph.LookupNode(node)
		return ok && im.Set.Domains[id] == tqc.DomainINT8
	})
	if len(findings) > 0 {
		return fmt.Errorf("%d findings, the first is %s", len(findings), findings[0])
	}
	return nil
}

// writeImport writes float model and plan, both or none.
func (j *job) writeImport(m *Model, im *qdq.Imported, o ImportOptions, r *ImportResult) error {
	if same, _ := sameFile(j.Model, r.Model); same {
		return fmt.Errorf("import: the float model would replace %s: name another plan with -o", j.Model)
	}
	spec := data.SpecOf(im.Graph)
	name := o.Preprocess
	if name == "" {
		name = "none"
	}
	pre, err := data.Preprocessing(name, spec, nil)
	if err != nil {
		return err
	}
	if err := m.WithGraph(im.Graph).Save(r.Model, onnx.SaveOptions{}); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if err := j.writeImportedPlan(m, im, o, r, pre); err != nil {
		os.Remove(r.Model)
		return err
	}
	return nil
}

// writeImportedPlan reads the float model back, so that the plan is for what lies on the disk.
func (j *job) writeImportedPlan(m *Model, im *qdq.Imported, o ImportOptions, r *ImportResult, pre plan.Preprocess) error {
	back, err := j.openModel(r.Model)
	if err != nil {
		return err
	}
	defer back.Close()
	meta := plan.Meta{
		Model:      plan.File{Path: plan.Relative(j.Plan, r.Model), SHA256: back.Digest},
		Imported:   &plan.File{Path: plan.Relative(j.Plan, j.Model), SHA256: m.Digest},
		Data:       plan.Data{Hash: plan.DataHash(nil)},
		Preprocess: pre, Platform: im.Target.Name, Profile: im.Target.Profile, Warnings: r.Warnings,
	}
	p, err := plan.FromSet(im.Graph, im.Set, meta)
	if err != nil {
		return err
	}
	if _, err := p.Apply(back.Graph); err != nil {
		return fmt.Errorf("import: %s: %w", r.Model, err)
	}
	return p.Write(j.Plan)
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return os.SameFile(x, y), nil
}
