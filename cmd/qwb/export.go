package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/checkpoint"
	"qwb/graph/onnx"
	"qwb/quantizer/plan"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// exportOptions are the arguments of export.
type exportOptions struct {
	plan     string
	platform string
	out      string
	threads  int
	// unverified exports a plan that was not verified, and says so in plan and file.
	unverified bool
	backend    string // that is verified against the reference
	// externalAbove is the size of all weights from which they go to a file of their own, 0 for oneMessage.
	externalAbove int64
}

// exportResult is what export --json prints.
type exportResult struct {
	Platform string        `json:"platform"`
	File     string        `json:"file"`
	SHA256   string        `json:"sha256"`
	Warnings []tqc.Warning `json:"warnings"`
	// Verification is what the plan holds about it.
	Verification *plan.Verification `json:"verification"`
}

func newExport(e *env) *cobra.Command {
	var f flags
	var unverified bool
	var backend string
	var source sourceOptions
	var language checkpointOptions
	format := formatONNX
	c := &cobra.Command{
		Use:   "export [PLAN] --platform P -o FILE | export CHECKPOINT --format F -o FILE",
		Short: "Write the quantized model as ONNX with QuantizeLinear and DequantizeLinear, or as C; write checkpoints of language models",
		Long: `Export writes what the plan says: a Q/DQ pair exactly where the simulation quantizes. The file is checked against the rules of the
platform before it gets its name.

With --format c it writes the integer program as one C99 file with its weights and a main that reads and writes .npy files; see
docs/c.md.

A plan that holds no verification of what it is now is verified first, as qwb verify does, on 8 samples of its own data. Where that does
not hold nothing is written (exit code 3). With --unverified it is not even tried, and plan and file say so.

Of a checkpoint (a file of llama2.c or GGUF, or a folder of Hugging Face) the weights are quantized and written in the format of a small
engine, without data and without a plan. The file is read back, compared with the checkpoint and run before it gets its name.`,
		Args: atMost(1, "one plan or checkpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && !strings.HasSuffix(args[0], planSuffix) && checkpoint.Is(args[0]) {
				language.file, language.format, language.out, language.threads, language.unverified = args[0], format, f.out, f.workers(), unverified
				for _, name := range append([]string{"platform", "backend"}, sourceFlags...) {
					if c.Flags().Changed(name) {
						return usagef("--%s is not for a checkpoint", name)
					}
				}
				return e.printCheckpoint(c.Context(), language, f.json)
			}
			for _, name := range checkpointFlags {
				if c.Flags().Changed(name) {
					return usagef("--%s is for a checkpoint", name)
				}
			}
			file, err := findPlan(args)
			if err != nil {
				return err
			}
			if _, err := program.BackendNamed(backend); err != nil {
				return usageError{err}
			}
			if format == formatC {
				source.backend = backend
				source.plan, source.platform, source.out, source.threads, source.unverified = file, f.platform, f.out, f.workers(), unverified
				return e.printSource(c.Context(), source, f.json)
			}
			if format != formatONNX {
				return usagef("unknown format %q: %s or %s; of a checkpoint %s", format, formatONNX, formatC, formatNames())
			}
			for _, name := range sourceFlags {
				if c.Flags().Changed(name) {
					return usagef("--%s is for --format %s", name, formatC)
				}
			}
			if f.platform == "" {
				return usagef("export needs --platform: %s", platforms())
			}
			if _, err := target.Known(f.platform); err != nil {
				return usageError{err}
			}
			r, err := e.export(c.Context(), exportOptions{plan: file, platform: f.platform, out: f.out, threads: f.workers(),
				unverified: unverified, backend: backend})
			return e.printExport(r, err, f.json, func() string { return fmt.Sprintf("%s: %s, SHA-256 %s", r.File, r.Platform, r.SHA256) })
		},
	}
	f.addPlatform(c, "platform of the plan: "+platforms())
	f.addOut(c, "file to write (default: MODEL.PLATFORM.onnx, MODEL.c, CHECKPOINT.FORMAT.bin)")
	f.addRun(c)
	f.addJSON(c)
	c.Flags().StringVar(&backend, "backend", defaultBackend().Name, "what runs the integers of the verification: "+backends())
	c.Flags().BoolVar(&unverified, "unverified", false, "export without a verification, and say so in plan and file")
	c.Flags().StringVar(&format, "format", format, "what to write: "+formatONNX+" or "+formatC+"; of a checkpoint: "+formatNames())
	source.addTo(c)
	language.addTo(c)
	return c
}

func (e *env) export(ctx context.Context, o exportOptions) (*exportResult, error) {
	p, err := e.openPlan(o.plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if p.plan.Platform != o.platform {
		return nil, fmt.Errorf("%s is a plan for %s; make one for %s first: qwb calibrate %s --platform %s", o.plan, p.plan.Platform, o.platform, p.path, o.platform)
	}
	if o.out == "" {
		o.out = strings.TrimSuffix(o.plan, planSuffix) + "." + o.platform + ".onnx"
	}
	if err := e.ensureVerified(ctx, p, o.backend, o.threads, o.unverified); err != nil {
		return &exportResult{Platform: o.platform, Warnings: []tqc.Warning{}, Verification: p.plan.Verification}, err
	}
	meta, err := metadata(p.plan)
	if err != nil {
		return nil, err
	}
	m, err := onnxqdq.Build(p.Model, p.set, p.target, onnxqdq.Options{Producer: "qwb", Version: version, Metadata: meta})
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &exportResult{Platform: o.platform, File: o.out, Warnings: onnxqdq.Warnings(p.Graph, p.set, p.target), Verification: p.plan.Verification}
	if r.Warnings == nil {
		r.Warnings = []tqc.Warning{}
	}
	if r.SHA256, err = p.writeExport(m, o); err != nil {
		return nil, err
	}
	if err := p.plan.Write(p.file); err != nil { // with its verification
		e.warn("the verification is not kept: %v", err)
	}
	for _, w := range r.Warnings {
		e.warnAbout(w)
	}
	return r, nil
}

// writeExport checks and writes the exported model and returns the SHA-256 of the file. What fits into one protobuf message is
// checked as it was read back from the bytes to be written; weights beyond that go to a file beside it, and the graph is checked
// before they are written.
func (p *planned) writeExport(m *onnx.Model, o exportOptions) (string, error) {
	if weightBytes(m.Graph) >= cmp.Or(o.externalAbove, oneMessage) {
		graph.InferShapes(m.Graph)
		if err := p.conforms(m.Graph); err != nil {
			return "", err
		}
		if err := m.Save(o.out, onnx.SaveOptions{ExternalAbove: o.externalAbove}); err != nil {
			return "", err
		}
		return sha256File(o.out)
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
	return writeFile(o.out, func(w io.Writer) error {
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
		kv = append(kv, onnx.KeyValue{Key: "qwb.verification", Value: v.Verdict + " " + v.Digest})
	}
	return kv, nil
}

// conforms applies the rules of the plan's target.
func (p *planned) conforms(g *graph.Graph) error {
	findings := onnxqdq.Check(g, p.target, p.integer)
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
	return fmt.Errorf("export: the file would break rules of %s, nothing was written: %s", p.target.Name, strings.Join(lines, "; "))
}

// integer reports whether the plan wants a node to run on integers.
func (p *planned) integer(node string) bool {
	id, ok := p.Graph.LookupNode(node)
	return ok && p.set.Domains[id] == tqc.DomainINT8
}

// printExport prints the result of an export, or returns its error. JSON has the result of one that a check stopped, too.
func (e *env) printExport(result any, err error, json bool, line func() string) error {
	switch check := (checkError{}); {
	case json && errors.As(err, &check):
		return errors.Join(e.printJSON(result), err)
	case err != nil:
		return err
	case json:
		return e.printJSON(result)
	}
	_, err = fmt.Fprintln(e.stdout, line())
	return err
}
