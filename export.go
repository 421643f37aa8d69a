package qwb

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// ExportOptions are the arguments of export.
type ExportOptions struct {
	Platform string
	Out      string
	Threads  int
	// Unverified exports a plan that was not verified, and says so in plan and file.
	Unverified bool
	Backend    string // that is verified against the reference
	// ExternalAbove is the size of all weights from which they go to a file of their own, 0 for oneMessage.
	ExternalAbove int64
}

// ExportResult is what export --json prints.
type ExportResult struct {
	Platform string        `json:"platform"`
	File     string        `json:"file"`
	SHA256   string        `json:"sha256"`
	Warnings []tqc.Warning `json:"warnings"`
	// Verification is what the plan holds about it.
	Verification *plan.Verification `json:"verification"`
}

func (j *job) export(ctx context.Context, o ExportOptions) (*ExportResult, error) {
	p, err := j.openPlan(j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if p.Plan.Platform != o.Platform {
		return nil, fmt.Errorf("%s is a plan for %s; make one for %s first: qwb calibrate %s --platform %s", j.Plan, p.Plan.Platform, o.Platform, p.Path, o.Platform)
	}
	if o.Out == "" {
		o.Out = strings.TrimSuffix(j.Plan, PlanSuffix) + "." + o.Platform + ".onnx"
	}
	if err := j.ensureVerified(ctx, p, o.Backend, o.Threads, o.Unverified); err != nil {
		return &ExportResult{Platform: o.Platform, Warnings: []tqc.Warning{}, Verification: p.Plan.Verification}, err
	}
	meta, err := metadata(p.Plan)
	if err != nil {
		return nil, err
	}
	m, err := onnxqdq.Build(p.Model.Model, p.Set, p.Target, onnxqdq.Options{Producer: "qwb", Version: j.Catalog.Version, Metadata: meta})
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &ExportResult{Platform: o.Platform, File: o.Out, Warnings: onnxqdq.Warnings(p.Graph, p.Set, p.Target), Verification: p.Plan.Verification}
	if r.Warnings == nil {
		r.Warnings = []tqc.Warning{}
	}
	if r.SHA256, err = j.writeExport(p, m, o); err != nil {
		return nil, err
	}
	if err := j.rewritePlan(p, p.Plan); err != nil { // with its verification
		j.warn("the verification is not kept: %v", err)
	}
	for _, w := range r.Warnings {
		j.warnAbout(w)
	}
	return r, nil
}

// writeExport checks and writes the exported model and returns the SHA-256 of the file. What fits into one protobuf message is
// checked as it was read back from the bytes to be written; weights beyond that go to a file beside it, and the graph is checked
// before they are written.
func (j *job) writeExport(p *Planned, m *onnx.Model, o ExportOptions) (string, error) {
	if weightBytes(m.Graph) >= cmp.Or(o.ExternalAbove, oneMessage) {
		graph.InferShapes(m.Graph)
		if err := p.conforms(m.Graph); err != nil {
			return "", err
		}
		out, err := j.path(o.Out, "a model with weights beside it")
		if err != nil {
			return "", err
		}
		if err := m.Save(out, onnx.SaveOptions{ExternalAbove: o.ExternalAbove}); err != nil {
			return "", err
		}
		return j.sum(o.Out)
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	back, _, err := onnx.Read(bytes.NewReader(b.Bytes()), int64(b.Len()), nil)
	if err != nil {
		return "", fmt.Errorf("export: what was written cannot be read: %w", err)
	}
	defer back.Close()
	graph.InferShapes(back.Graph)
	if err := p.conforms(back.Graph); err != nil {
		return "", err
	}
	return WriteFile(j.store(), o.Out, func(w io.Writer) error {
		_, err := b.WriteTo(w)
		return err
	})
}

// oneMessage is how many bytes of weights are written into the model file itself.
const oneMessage = 1_800_000_000

func weightBytes(g *graph.Graph) int64 {
	var n int64
	for _, v := range g.Values() {
		if t := g.Const(v); t != nil {
			n += int64(t.DType.Bytes(t.Len()))
		}
	}
	return n
}

// metadata is what an exported file says about its origin.
func metadata(p *plan.Plan) ([]onnx.KeyValue, error) {
	hash, err := p.Hash()
	if err != nil {
		return nil, err
	}
	kv := []onnx.KeyValue{{Key: "qwb.plan", Value: hash}, {Key: "qwb.platform", Value: p.Platform}}
	if v := p.Verification; v != nil {
		verdict := v.Verdict
		if v.Share != nil {
			verdict += fmt.Sprintf(" %.4f", *v.Share)
		}
		kv = append(kv, onnx.KeyValue{Key: "qwb.verification", Value: verdict + " " + v.Digest})
	}
	return kv, nil
}

// conforms applies the rules of the plan's target.
func (p *Planned) conforms(g *graph.Graph) error {
	findings := onnxqdq.Check(g, p.Target, p.integer)
	if len(findings) == 0 {
		return nil
	}
	lines := make([]string, 0, len(findings))
	for i, f := range findings {
		if i == 5 {
			lines = append(lines, fmt.Sprintf("and %d more", len(findings)-i))
			break
		}
		lines = append(lines, f.String())
	}
	return fmt.Errorf("export: the file would break rules of %s, nothing was written: %s", p.Target.Name, strings.Join(lines, "; "))
}

// integer reports whether the plan wants a node to run on integers.
func (p *Planned) integer(node string) bool {
	id, ok := p.Graph.LookupNode(node)
	return ok && p.Set.Domains[id] == tqc.DomainINT8
}
