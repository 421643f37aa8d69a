package qwb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"qwb/calib/data"
	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// ImportOptions are the arguments of import.
type ImportOptions struct {
	Platform string // empty: found
	// Data, with a preprocessing, is what to calibrate the float model on for the comparison with the file's scales. Without paths it holds the
	// preprocessing that the plan records.
	Data     DataOptions
	Observer tqc.Observer // of that calibration; empty: the platform's
	Threads  int
	Memory   int64
}

// ImportResult is what import --json prints.
type ImportResult struct {
	Plan      string `json:"plan"`
	Model     string `json:"model"` // the float model
	Platform  string `json:"platform"`
	Profile   string `json:"profile"`
	Pairs     int    `json:"pairs"`
	Constants int    `json:"constants"` // that were integers
	Integer   int    `json:"integer"`   // operators
	Nodes     int    `json:"nodes"`
	Trained
	Warnings []tqc.Warning `json:"warnings"`
}

const floatSuffix = ".float.onnx"

// importModel puts weights of limit bytes and more into a file of their own.
func (j *job) importModel(ctx context.Context, o ImportOptions, limit int64) (*ImportResult, error) {
	var forced *target.Target
	if o.Platform != "" {
		t, err := j.KnownTarget(o.Platform)
		if err != nil {
			return nil, err
		}
		forced = t
	}
	m, err := j.openModel(j.Model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	q, err := qdq.Read(ctx, m.Graph)
	if err != nil {
		return nil, &FileError{File: j.Model, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	im, err := fitting(m, q, j.Catalog.Targets(), forced)
	if err != nil {
		return nil, &FileError{File: j.Model, Err: err}
	}
	r := &ImportResult{Plan: j.Plan, Model: strings.TrimSuffix(j.Plan, PlanSuffix) + floatSuffix, Platform: im.Target.Name, Profile: im.Target.Profile,
		Pairs: q.Pairs, Constants: q.Codes, Warnings: append([]tqc.Warning{}, im.Warnings...)}
	for _, id := range im.Graph.Nodes() {
		r.Nodes++
		if im.Set.Domains[id] == tqc.DomainInt {
			r.Integer++
		}
	}
	if err := checkObserver(o.Observer); o.Observer != "" && err != nil {
		return nil, UsageError{err}
	}
	if r.Trained, err = j.trained(ctx, im, m, o); err != nil {
		return nil, err
	}
	if err := j.writeImport(m, im, o, r, limit); err != nil {
		return nil, err
	}
	for _, w := range r.Warnings {
		j.warnAbout(w)
	}
	return r, nil
}

// fitting configures for the platform asked for, or for the first likely one that would take what is exported again. What the
// platform asked for would refuse is a warning.
func fitting(m *Model, q *qdq.Quantized, c target.Catalog, forced *target.Target) (*qdq.Imported, error) {
	list := q.Platforms(c)
	if m.lite {
		name := target.TFLite.Name
		if q.Wide() {
			name = target.TFLite16x8.Name
		}
		if t, err := c.Find(name); err == nil {
			list = append([]*target.Target{t}, list...)
		}
	}
	if forced != nil {
		list = []*target.Target{forced}
		q.IntegerBiases = true
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
	return nil, errors.New("none of the platforms known here takes a file that does not say what it is for: name one with --platform")
}

// refusal says why the platform of an imported graph would not take its export.
func refusal(m *Model, im *qdq.Imported) error {
	findings := refused(m, im.Graph, im.Set, im.Target)
	switch {
	case len(findings) == 0:
		return nil
	case findings[0].Rule == "export":
		return errors.New(findings[0].Text)
	}
	return fmt.Errorf("%d findings, the first is %s", len(findings), findings[0])
}

// writeImport writes float model and plan, both or none.
func (j *job) writeImport(m *Model, im *qdq.Imported, o ImportOptions, r *ImportResult, limit int64) error {
	if j.sameFile(j.Model, r.Model) {
		return fmt.Errorf("import: the float model would replace %s: name another plan with -o", j.Model)
	}
	spec := data.SpecOf(im.Graph)
	name := o.Data.Preprocess
	if name == "" {
		name = "none"
	}
	pre, err := data.Preprocessing(name, spec, j.store())
	if err != nil {
		return err
	}
	float := m.WithGraph(im.Graph)
	if export.WeightBytes(im.Graph) >= limit {
		return j.writeLargeImport(m, im, float, r, pre, limit)
	}
	var b bytes.Buffer
	if err := float.Write(&b); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	read, _, err := onnx.Read(bytes.NewReader(b.Bytes()), int64(b.Len()), nil)
	if err != nil {
		return fmt.Errorf("import: what was written cannot be read: %w", err)
	}
	defer read.Close()
	p, err := j.importedPlan(m, im, read, r, pre)
	if err != nil {
		return err
	}
	_, err = j.writePlan(j.Plan, p, "", func(s Stage) error { return s.Add(r.Model, bytesOf(b.Bytes())) })
	return err
}

// writeLargeImport writes a float model whose weights go to a file of their own. It is read back where it lies before it has its name, and gets
// that together with the plan.
func (j *job) writeLargeImport(m *Model, im *qdq.Imported, float *onnx.Model, r *ImportResult, pre plan.Preprocess, limit int64) error {
	path, err := j.path(r.Model, "a model with weights beside it")
	if err != nil {
		return err
	}
	planPath, err := j.path(j.Plan, "the plan of a model with weights beside it")
	if err != nil {
		return err
	}
	stage := newStage()
	defer stage.Discard()
	err = float.WriteFiles(filepath.Base(path), onnx.SaveOptions{ExternalAbove: limit}, func(name string) (io.WriteCloser, error) {
		return stage.Create(filepath.Join(filepath.Dir(path), name))
	})
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	read, _, err := onnx.Open(stage.At(path))
	if err != nil {
		return fmt.Errorf("import: what was written cannot be read: %w", err)
	}
	p, err := j.importedPlan(m, im, read, r, pre)
	if err = errors.Join(err, read.Close()); err != nil { // an open file has its name for good on Windows
		return err
	}
	b, err := j.encodePlan(planPath, p)
	if err == nil {
		_, err = j.addPlan(stage, planPath, b, "")
	}
	if err == nil {
		err = stage.Commit()
	}
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	j.seen = p
	return nil
}

// importedPlan makes the plan for the float model as it was read back.
func (j *job) importedPlan(m *Model, im *qdq.Imported, float *onnx.Model, r *ImportResult, pre plan.Preprocess) (*plan.Plan, error) {
	digest, err := float.Digest()
	if err != nil {
		return nil, err
	}
	p, err := plan.FromSet(im.Graph, im.Set, plan.Meta{
		Model:      plan.File{Path: plan.Relative(j.Plan, r.Model), SHA256: digest},
		Imported:   &plan.File{Path: plan.Relative(j.Plan, j.Model), SHA256: m.Digest},
		Data:       plan.Data{Hash: plan.DataHash(nil)},
		Preprocess: pre, Platform: im.Target.Name, Profile: im.Target.Profile, Target: targetEntry(im.Target), Warnings: r.Warnings,
	})
	if err != nil {
		return nil, err
	}
	p.Decide(decision.Decision{By: decision.ByImport})
	if err := float.Graph.Adopt(j.Catalog.Operators); err != nil {
		return nil, err
	}
	graph.InferShapes(float.Graph)
	if _, err := p.Apply(float.Graph); err != nil {
		return nil, &FileError{Stage: "import", File: r.Model, Err: err}
	}
	return p, nil
}
