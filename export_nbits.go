package qwb

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"qwb/analysis"
	"qwb/export/nbits"
	"qwb/graph"
	"qwb/graph/checkpoint"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// NBitsForms are the weights of --format onnx, the default first.
var NBitsForms = []string{"int8", "int4"}

// exportNBits writes a checkpoint as ONNX with MatMulNBits. The model is made in memory, with one file of weights beside it where it is
// too large for one message.
func (j *job) exportNBits(ctx context.Context, o CheckpointOptions) (*CheckpointResult, error) {
	if o.Tokenizer != "" {
		return nil, Usagef("--tokenizer: files of %s hold no tokens", FormatONNX)
	}
	m, err := j.openCheckpointFile()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r := &CheckpointResult{Format: o.Format, File: o.Out, Warnings: []tqc.Warning{}}
	if r.File == "" {
		r.File = BaseName(j.Model) + ".onnx"
	}
	if j.sameFile(r.File, j.Model) {
		return nil, fmt.Errorf("export: %s is the checkpoint itself", r.File)
	}
	source, err := checkpoint.Graph(m)
	if err != nil {
		return nil, err
	}
	how := nbits.Options{Bits: 8, Block: o.Group, Search: o.Scales == ScalesSearch, Parallel: exec.Parallel(o.Threads), Producer: "qwb", Version: j.Catalog.Version}
	if o.Matrices == NBitsForms[1] {
		how.Bits = 4
	}
	if quantized := m.Tensor(checkpoint.Output, 0).Quantized(); quantized {
		w := tqc.Warning{Text: "the weights were quantized before: their error adds to that of MatMulNBits"}
		r.Warnings = append(r.Warnings, w)
		j.warnAbout(w)
	}
	model, err := nbits.Build(source, how)
	if err != nil {
		return nil, err
	}
	if weightBytes(model.Graph) >= oneMessage {
		return r, j.saveNBits(ctx, model, source, how, o, r)
	}
	var b bytes.Buffer
	if err := model.Write(&b); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	back, _, err := onnx.Read(bytes.NewReader(b.Bytes()), int64(b.Len()), nil)
	if err != nil {
		return nil, fmt.Errorf("export: what was written cannot be read: %w", err)
	}
	defer back.Close()
	if err := j.verifyNBits(ctx, source, back.Graph, how, o, r); err != nil {
		return r, err
	}
	r.SHA256, err = WriteFile(j.store(), r.File, func(w io.Writer) error {
		_, err := b.WriteTo(w)
		return err
	})
	return r, err
}

// saveNBits writes a model whose weights lie in a file of their own; the graph is verified before they are written.
func (j *job) saveNBits(ctx context.Context, model *onnx.Model, source *graph.Graph, how nbits.Options, o CheckpointOptions, r *CheckpointResult) error {
	if err := j.verifyNBits(ctx, source, model.Graph, how, o, r); err != nil {
		return err
	}
	out, err := j.path(r.File, "a model with weights beside it")
	if err != nil {
		return err
	}
	if err := model.Save(out, onnx.SaveOptions{}); err != nil {
		return err
	}
	r.SHA256, err = j.sum(r.File)
	return err
}

// verifyNBits compares a graph that was read back with its source and runs tokens through it.
func (j *job) verifyNBits(ctx context.Context, source, back *graph.Graph, how nbits.Options, o CheckpointOptions, r *CheckpointResult) error {
	v := &r.Verification
	if o.Unverified {
		v.Verdict = analysis.VerdictUnverified
		return ctx.Err()
	}
	v.Verdict = analysis.VerdictDifferent
	refuse := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.Reason = err.Error()
		return CheckError{fmt.Errorf("%w; nothing was written (--unverified writes it)", err)}
	}
	var err error
	if v.Weights.Weights, v.Weights.LargestError, err = nbits.Compare(source, back, how); err != nil {
		return refuse(err)
	}
	v.Weights.Codes = v.Weights.Weights
	if v.Run.Tokens, err = runTokens(ctx, back, o.Threads); err != nil {
		return refuse(fmt.Errorf("export: running the written model: %w", err))
	}
	v.Verdict = analysis.VerdictEqual
	j.note("verified: %d codes compared, largest error %.3g steps; %d tokens run", v.Weights.Codes, v.Weights.LargestError, v.Run.Tokens)
	return nil
}

// runTokens runs a few tokens through a graph of a checkpoint; logits that are not finite are an error.
func runTokens(ctx context.Context, g *graph.Graph, threads int) (int, error) {
	graph.InferShapes(g)
	s, err := exec.New(g, exec.Options{Threads: threads})
	if err != nil {
		return 0, err
	}
	ids := make([]int64, 8)
	for i := range ids {
		ids[i] = int64(i)
	}
	outs, err := s.NewRunner().Run(ctx, map[string]*tensor.Tensor{checkpoint.InputIDs: tensor.FromI64(ids, 1, len(ids))}, nil)
	if err != nil {
		return 0, err
	}
	for i, v := range outs[0].F32() {
		if v-v != 0 {
			return 0, fmt.Errorf("logit %d is %g", i, v)
		}
	}
	return len(ids), nil
}
