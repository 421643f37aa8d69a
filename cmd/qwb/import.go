package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"qwb/calib/data"
	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/quantizer/plan"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// importOptions are the arguments of import.
type importOptions struct {
	model      string
	plan       string // to write
	platform   string // empty: found
	preprocess string
}

// importResult is what import --json prints.
type importResult struct {
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

func newImport(e *env) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "import MODEL [-o X.plan.json]",
		Short: "Make a plan of a model that is quantized already",
		Long: `Import takes apart an ONNX model that another tool, or qwb export, has quantized: with QuantizeLinear and DequantizeLinear, or with
operators on integers (QLinearConv, ...). It writes a plan that says what the file says (every scale, zero point and integer type) and,
beside it, the float model behind it: the graph without the pairs, its weights dequantized. Quantizing them again gives the file's
integers; that is checked. The plan can then be analysed, verified, evaluated and exported like any other. It has no data of its own:
name some with --data.

The platform is the first of those the file looks like whose rules it keeps; tflite (TensorFlow Lite's 8-bit arithmetic) and onnx (no
engine's rules) are for files of other tools only.`,
		Args: exactly(1, "one model"),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := planPath(args[0], f.out)
			if err != nil {
				return err
			}
			r, err := e.importModel(c.Context(), importOptions{model: args[0], plan: file, platform: f.platform, preprocess: f.preprocess})
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			_, err = fmt.Fprintf(e.stdout, "%s: plan for %s, profile %s: %d of %d operators on integers, %d pairs, %d constants\n%s: the float model\n",
				r.Plan, r.Platform, r.Profile, r.Integer, r.Nodes, r.Pairs, r.Constants, r.Model)
			return err
		},
	}
	f.addPlatform(c, "platform of the plan: "+platforms()+", tflite, onnx (default: found)")
	f.addOut(c, "plan to write (default: MODEL.plan.json in the current folder)")
	f.addJSON(c)
	c.Flags().StringVar(&f.preprocess, "preprocess", "", "preprocessing that the plan records: imagenet-torch, imagenet-inception, imagenet-caffe, none, or a YAML file")
	return c
}

const floatSuffix = ".float.onnx"

func (e *env) importModel(ctx context.Context, o importOptions) (*importResult, error) {
	var forced *target.Target
	if o.platform != "" {
		t, err := target.Known(o.platform)
		if err != nil {
			return nil, usageError{err}
		}
		forced = t
	}
	m, err := e.openModel(o.model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	q, err := qdq.Read(m.Graph)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.model, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	im, err := fitting(m, q, forced)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.model, err)
	}
	r := &importResult{Plan: o.plan, Model: strings.TrimSuffix(o.plan, planSuffix) + floatSuffix, Platform: im.Target.Name, Profile: im.Target.Profile,
		Pairs: q.Pairs, Constants: q.Codes, Warnings: append([]tqc.Warning{}, im.Warnings...)}
	for _, id := range im.Graph.Nodes() {
		r.Nodes++
		if im.Set.Domains[id] == tqc.DomainINT8 {
			r.Integer++
		}
	}
	if err := e.writeImport(m, im, o, r); err != nil {
		return nil, err
	}
	for _, w := range r.Warnings {
		e.warnAbout(w)
	}
	return r, nil
}

// fitting configures for the platform asked for, or for the first likely one that would take what is exported again. What the
// platform asked for would refuse is a warning.
func fitting(m *model, q *qdq.Quantized, forced *target.Target) (*qdq.Imported, error) {
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
func refusal(m *model, im *qdq.Imported) error {
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
func (e *env) writeImport(m *model, im *qdq.Imported, o importOptions, r *importResult) error {
	if same, _ := sameFile(o.model, r.Model); same {
		return fmt.Errorf("import: the float model would replace %s: name another plan with -o", o.model)
	}
	spec := data.SpecOf(im.Graph)
	name := o.preprocess
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
	if err := e.writeImportedPlan(m, im, o, r, pre); err != nil {
		os.Remove(r.Model)
		return err
	}
	return nil
}

// writeImportedPlan reads the float model back, so that the plan is for what lies on the disk.
func (e *env) writeImportedPlan(m *model, im *qdq.Imported, o importOptions, r *importResult, pre plan.Preprocess) error {
	back, err := e.openModel(r.Model)
	if err != nil {
		return err
	}
	defer back.Close()
	meta := plan.Meta{
		Model:      plan.File{Path: plan.Relative(o.plan, r.Model), SHA256: back.digest},
		Imported:   &plan.File{Path: plan.Relative(o.plan, o.model), SHA256: m.digest},
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
	return p.Write(o.plan)
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
