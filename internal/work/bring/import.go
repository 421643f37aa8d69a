package bring

import (
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
	"qwb/internal/file"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// ImportOptions are the arguments of import.
type ImportOptions struct {
	Platform string // empty: found
	// Float is the float network that was quantized; empty: it is made of the quantized file.
	Float string
	// Encodings is a file of AIMET's that says how the model, which is a float one, is quantized; empty: the model says so itself. The model
	// with a pair for each encoding is written beside the plan.
	Encodings string
	// Data, with a preprocessing, is what to calibrate the float model on for the comparison with the file's scales. Without paths it holds
	// the preprocessing that the plan records.
	Data     open.DataOptions
	Observer tqc.Observer // of that calibration; empty: the platform's
	Threads  int
	Memory   int64
}

// ImportResult is what import --json prints.
type ImportResult struct {
	Plan      string `json:"plan"`
	Model     string `json:"model"`           // the float model
	Float     string `json:"float,omitempty"` // the network that its weights and activations are of; empty: of the quantized file
	Platform  string `json:"platform"`
	Profile   string `json:"profile"`
	Pairs     int    `json:"pairs"`
	Constants int    `json:"constants"` // that were integers
	Integer   int    `json:"integer"`   // operators
	Nodes     int    `json:"nodes"`
	Trained
	Warnings []tqc.Warning `json:"warnings"`
}

const floatSuffix, pairedSuffix = ".float.onnx", ".qdq.onnx"

// Import puts weights of limit bytes and more into a file of their own.
func Import(ctx context.Context, j *open.Job, o ImportOptions, limit int64) (*ImportResult, error) {
	if o.Encodings != "" {
		if err := pairUp(j, &o); err != nil {
			return nil, err
		}
	}
	var forced *target.Target
	if o.Platform != "" {
		t, err := j.KnownTarget(o.Platform)
		if err != nil {
			return nil, err
		}
		forced = t
	}
	m, err := j.OpenModel(j.Model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	q, err := planning.ReadQuantized(ctx, m)
	if err != nil {
		return nil, &fault.FileError{File: j.Model, Err: err}
	}
	if err := takeFloat(ctx, j, q, o.Float); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	im, err := planning.Fitting(m, q, j.Catalog.Targets(), forced)
	if err != nil {
		return nil, &fault.FileError{File: j.Model, Err: err}
	}
	r := &ImportResult{Plan: j.Plan, Model: strings.TrimSuffix(j.Plan, store.PlanSuffix) + floatSuffix, Float: o.Float,
		Platform: im.Target.Name,
		Profile:  im.Target.Profile, Pairs: q.Pairs, Constants: q.Codes, Warnings: append([]tqc.Warning{}, im.Warnings...)}
	for _, id := range im.Graph.Nodes() {
		r.Nodes++
		if im.Set.Domains[id] == tqc.DomainInt {
			r.Integer++
		}
	}
	if err := open.CheckObserver(o.Observer); o.Observer != "" && err != nil {
		return nil, fault.UsageError{Err: err}
	}
	if r.Trained, err = trained(ctx, j, im, m, o); err != nil {
		return nil, err
	}
	if o.Float == "" {
		r.Warnings = append(r.Warnings, r.beyond()...)
	}
	if err := writeImport(j, m, im, o, r, limit); err != nil {
		return nil, err
	}
	j.WarnAll(r.Warnings)
	return r, nil
}

// takeFloat lets q have the weights and activations of the network in file, "" for none.
func takeFloat(ctx context.Context, j *open.Job, q *qdq.Quantized, file string) error {
	if file == "" {
		return nil
	}
	m, err := j.OpenModel(file)
	if err != nil {
		return err
	}
	defer m.Close()
	if open.Unquantized(m) != nil {
		return fault.Usagef("--float %s: it is quantized; name the float network", file)
	}
	if err := q.Original(ctx, m.Graph); err != nil {
		return &fault.FileError{File: file, Err: err}
	}
	return nil
}

// writeImport writes float model and plan, both or none.
func writeImport(j *open.Job, m *open.Model, im *qdq.Imported, o ImportOptions, r *ImportResult, limit int64) error {
	if j.SameFile(j.Model, r.Model) {
		return fmt.Errorf("import: the float model would replace %s: name another plan with -o", j.Model)
	}
	spec := data.SpecOf(im.Graph)
	name := o.Data.Preprocess
	if name == "" {
		name = "none"
	}
	pre, err := data.Preprocessing(name, spec, j.Files())
	if err != nil {
		return err
	}
	float := m.WithGraph(im.Graph)
	if export.WeightBytes(im.Graph) >= limit {
		return writeLargeImport(j, m, im, float, r, pre, limit)
	}
	var b file.Content
	if err := float.Write(&b); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	read, _, err := onnx.Parse(b.Bytes(), nil)
	if err != nil {
		return fmt.Errorf("import: what was written cannot be read: %w", err)
	}
	defer read.Close()
	p, err := importedPlan(j, m, im, read, r, pre)
	if err != nil {
		return err
	}
	_, err = planning.WritePlan(j, j.Plan, p, "", func(s store.Stage) error { return s.Add(r.Model, b.CopyTo) })
	return err
}

// writeLargeImport writes a float model whose weights go to a file of their own. It is read back where it lies before it has its name, and
// gets that together with the plan.
func writeLargeImport(j *open.Job, m *open.Model, im *qdq.Imported, float *onnx.Model, r *ImportResult, pre plan.Preprocess,
	limit int64) error {
	path, err := j.Path(r.Model, "a model with weights beside it")
	if err != nil {
		return err
	}
	planPath, err := j.Path(j.Plan, "the plan of a model with weights beside it")
	if err != nil {
		return err
	}
	stage := store.NewStage()
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
	p, err := importedPlan(j, m, im, read, r, pre)
	if err = errors.Join(err, read.Close()); err != nil { // an open file has its name for good on Windows
		return err
	}
	b, err := planning.EncodePlan(j, planPath, p)
	if err == nil {
		_, err = planning.AddPlan(j, stage, planPath, b, "")
	}
	if err == nil {
		err = stage.Commit()
	}
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	j.Seen = p
	return nil
}

// importedPlan makes the plan for the float model as it was read back.
func importedPlan(j *open.Job, m *open.Model, im *qdq.Imported, float *onnx.Model, r *ImportResult,
	pre plan.Preprocess) (*plan.Plan, error) {
	digest, err := float.Digest()
	if err != nil {
		return nil, err
	}
	p, err := plan.FromSet(im.Graph, im.Set, plan.Meta{
		Model:      plan.File{Path: plan.Relative(j.Plan, r.Model), SHA256: digest},
		Imported:   &plan.File{Path: plan.Relative(j.Plan, j.Model), SHA256: m.Digest},
		Data:       plan.Data{Hash: plan.DataHash(nil)},
		Preprocess: pre, Platform: im.Target.Name, Profile: im.Target.Profile, Target: planning.TargetEntry(im.Target), Warnings: r.Warnings,
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
		return nil, &fault.FileError{Stage: "import", File: r.Model, Err: err}
	}
	return p, nil
}
