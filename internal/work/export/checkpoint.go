package export

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"qwb/analysis"
	"qwb/analysis/language"
	"qwb/analysis/language/groupsums"
	"qwb/export"
	"qwb/export/language/weights"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/graph/tensor"
	"qwb/internal/work/fault"
	worklanguage "qwb/internal/work/language"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/quantizer/tqc"
)

// verifiedTokens is how many tokens are run through the int32 sums of a written checkpoint, graphTokens how many through a graph.
const (
	verifiedTokens = 16
	graphTokens    = 8
)

// CheckpointVerification says what reading the file of a checkpoint back and running it found.
type CheckpointVerification struct {
	Verdict string            `json:"verdict"` // equal, different or unverified
	Reason  string            `json:"reason,omitempty"`
	Weights export.Comparison `json:"weights"`
	Run     groupsums.Result  `json:"run"`
}

// exportCheckpoint writes the language model in a format of checkpoints.
func exportCheckpoint(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	if o.Platform != "" {
		return nil, fault.Usagef("--platform is not for a checkpoint: it has no plan")
	}
	f, err := export.ForCheckpoint(j.Catalog.Formats, o.Format)
	if err != nil {
		return nil, fault.Usagef("%s is a checkpoint: %w", j.Model, err)
	}
	in, err := input(j, f, o)
	if err != nil {
		return nil, err
	}
	m, err := worklanguage.OpenCheckpointFile(j)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r := newExportResult(f)
	in.Title, in.Checkpoint = filepath.Base(j.Model), m
	if named := in.Options.Text(export.Tokenizer.Name); named != noTokens {
		if err := j.Readable(named); err != nil {
			return nil, err
		}
	}
	if f.Tokens {
		w, err := tokens(in)
		if err != nil {
			return nil, err
		}
		for _, w := range w {
			j.WarnAbout(w)
		}
		r.Warnings = append(r.Warnings, w...)
	}
	if f.Check != nil {
		if err := f.Check(in); err != nil {
			return nil, err
		}
	}
	if r.File = o.Out; r.File == "" {
		r.File = store.BaseName(filepath.Clean(j.Model)) + suffix(f, "")
	}
	if j.SameFile(r.File, j.Model) {
		return nil, fmt.Errorf("export: %s is the input checkpoint: name another file with -o", r.File)
	}
	if err := outFile(j, f, nil, r.File, &o); err != nil {
		return nil, err
	}
	if err := chooseWeights(ctx, j, in, f, r); err != nil {
		return nil, err
	}
	out := j.Output(f, r.File)
	defer out.Discard()
	if err := writeExport(ctx, j, f, in, out, r, o.Unverified); err != nil {
		return nil, err
	}
	r.Checkpoint = &CheckpointVerification{Verdict: analysis.VerdictUnverified}
	if !o.Unverified && f.Back != nil {
		if err := verifyWritten(ctx, j, f, in, out, r.Checkpoint); err != nil {
			return r, err
		}
	}
	if err := commit(j, out, []string{j.Model}, r); err != nil {
		return r, err
	}
	return r, finished(unfinished(j, r))
}

// chooseWeights chooses scales, types and codes by the texts that are named for it.
func chooseWeights(ctx context.Context, j *open.Job, in *export.Input, f *export.Format, r *Result) (err error) {
	method, fit := in.Options.Text(weights.Method.Name), in.Options.Text(weights.Fit.Name)
	static := staticScheme(in)
	switch {
	case static != nil && fit == "":
		return fault.Usagef("--weights %s needs --%s FILE: the scales of what matrices read are taken from that text", static.Name,
			weights.Fit.Name)
	case static != nil && !weights.WayOf(method).Fit:
		fit = "" // the text is of the inputs, not of the method
	}
	if err := worklanguage.CheckTexts(method, in.Options.Text(weights.Judge.Name), fit, in.Options.Text(weights.Imatrix.Name)); err != nil {
		return err
	}
	if r.Judged, err = judgeExport(ctx, j, in, f); err != nil {
		return err
	}
	if err := mixExport(ctx, j, in, f); err != nil {
		return err
	}
	if static != nil && fit == "" {
		return inputScales(ctx, j, in, static)
	}
	return fitExport(ctx, j, in, f, unfinished(j, r))
}

// staticScheme is the scheme of a file that holds a scale of what matrices read; nil: it is none.
func staticScheme(in *export.Input) *checkpoint.Scheme {
	if layout, ok := in.State.(*weights.File); ok {
		for i := range layout.Items {
			if s := layout.Items[i].Encoding.Scheme; s != nil && s.Static {
				return s
			}
		}
	}
	return nil
}

// inputScales gives each matrix of a static scheme the scale of what it reads, by the text of --fit.
func inputScales(ctx context.Context, j *open.Job, in *export.Input, s *checkpoint.Scheme) error {
	text := in.Options.Text(weights.Fit.Name)
	l, err := textModel(ctx, j, in, text)
	if err != nil {
		return err
	}
	top := s.Number.Decode(s.Number.Encode(math.Inf(1), true))
	scales, err := worklanguage.InputScales(ctx, j, l, text, tokensOf(in), in.Threads, top)
	if err != nil {
		return err
	}
	layout := in.State.(*weights.File)
	for i := range layout.Items {
		layout.Items[i].Input = scales[layout.Items[i].Part]
	}
	return nil
}

// textModel is the checkpoint for a text; where that is asked for, the importance matrix of the text is written.
func textModel(ctx context.Context, j *open.Job, in *export.Input, text string) (*open.Language, error) {
	l, err := languageOf(in)
	if err != nil {
		return nil, err
	}
	if file := in.Options.Text(weights.ImatrixOut.Name); file != "" {
		err = worklanguage.WriteImportance(ctx, j, l, text, tokensOf(in), file, in.Threads)
	}
	return l, err
}

// finished removes what was kept for an interrupted run.
func finished(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unfinished is where matrices that are fitted are kept until the export has ended; empty where files are not the system's.
func unfinished(j *open.Job, r *Result) string {
	path, _ := j.Files().Path(r.File + worklanguage.UnfinishedSuffix)
	return path
}

// noTokens as the name of a tokenizer leaves the tokens out.
const noTokens = "none"

// tokens fills in what GGUF's metadata say about the tokens of a model: those of a GGUF checkpoint, or of the tokenizer that is named or
// lies beside it. None beside it is a warning, and so is one beside a file that is another model's; the named one, and that in a folder of
// Hugging Face, which is the model's own, has to fit and to be transcribed.
func tokens(in *export.Input) ([]tqc.Warning, error) {
	const prefix = "tokenizer."
	named, m := in.Options.Text(export.Tokenizer.Name), in.Checkpoint
	if named == noTokens {
		return nil, nil
	}
	if named == "" && m.Metadata[prefix+"ggml.model"] != nil {
		in.Tokens = map[string]any{}
		for key, value := range m.Metadata {
			if strings.HasPrefix(key, prefix) {
				in.Tokens[key] = value
			}
		}
		return nil, nil
	}
	t, err := decode.TokensForGGUF(named, m)
	switch {
	case err == nil:
		in.Tokens = t.Metadata
		return t.Warnings, nil
	case named != "":
		return nil, err
	case m.Folder() && !errors.Is(err, decode.ErrNoTokenizer):
		return nil, fmt.Errorf("export: %w; --%s %s writes the file without one", err, export.Tokenizer.Name, noTokens)
	}
	return []tqc.Warning{{Text: err.Error()}}, nil
}

// languageOf is the checkpoint with the tokenizer that is named, or its own.
func languageOf(in *export.Input) (*open.Language, error) {
	t, err := decode.OpenTokenizer(in.Options.Text(export.Tokenizer.Name), in.Checkpoint)
	if err != nil {
		return nil, err
	}
	return &open.Language{Model: in.Checkpoint, Tokenizer: t}, nil
}

// judgeExport finds out for which matrices the scales of the file are to be searched, where that was asked for: by the weights in the
// groups of the format, with scales as float32, whatever the format rounds them to, and float activations.
func judgeExport(ctx context.Context, j *open.Job, in *export.Input, f *export.Format) ([]language.Judged, error) {
	file, named := in.Options.Text(weights.Judge.Name), in.Options.Text(export.Tokenizer.Name)
	method := in.Options.Text(weights.Method.Name)
	judged := method == weights.Judged
	switch {
	case !judged && in.Options.Text(weights.Fit.Name) == "" && !f.Tokens && named != "":
		return nil, fault.Usagef("--%s is for format %s with --method %s only: its files have no tokens", export.Tokenizer.Name, f.Name,
			weights.Judged)
	case !judged:
		return nil, nil
	}
	size, bits, err := f.Groups(in)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, fault.Usagef("--method %s: format %s quantizes no weights here", weights.Judged, f.Name)
	}
	l, err := languageOf(in)
	if err != nil {
		return nil, err
	}
	kept, list, err := worklanguage.Judge(ctx, j, l, decode.Weights{Group: size, Bits: bits, Float: true,
		Whole: in.Options.Text(weights.Fallback.Name) == weights.FallbackIgnore}, file, in.Threads)
	in.Searched = []string{}
	for _, role := range kept {
		in.Searched = append(in.Searched, role.String())
		if l.Tied && role == checkpoint.Embedding {
			in.Searched = append(in.Searched, checkpoint.Classifier.String())
		}
	}
	return list, err
}

// mixExport gives each matrix a type, where a number of bits was named.
func mixExport(ctx context.Context, j *open.Job, in *export.Input, f *export.Format) error {
	text := in.Options.Text(weights.Bits.Name)
	if text == "" {
		return nil
	}
	bits, err := strconv.ParseFloat(text, 64)
	if err != nil || !(bits > 0 && bits <= 32) {
		return fault.Usagef("--%s %s: not a number of bits above 0", weights.Bits.Name, text)
	}
	file := in.Options.Text(weights.Fit.Name)
	if file == "" {
		return fault.Usagef("--%s is for --method %s with --fit: what a matrix does is measured on that text", weights.Bits.Name,
			weights.FittedMethods)
	}
	l, err := languageOf(in)
	if err != nil {
		return err
	}
	in.Types, err = worklanguage.Mix(ctx, j, l, worklanguage.Mixing{Text: file, Tokens: tokensOf(in), Bits: bits,
		Types: in.State.(*weights.File).Types, Way: weights.WayOf(in.Options.Text(weights.Method.Name)), Threads: in.Threads})
	if err != nil {
		return err
	}
	in.State = nil
	return f.Check(in)
}

// tokensOf is how many tokens of the text are taken, 0 where that was not said.
func tokensOf(in *export.Input) int { return int(in.Options.Whole(weights.Tokens.Name)) }

// fitExport replaces the matrices that the file will have quantized by those that were fitted to a text, where that was asked for: from
// there on the checkpoint is a quantized one, whose codes and scales the file takes as they are.
func fitExport(ctx context.Context, j *open.Job, in *export.Input, f *export.Format, unfinished string) error {
	method, file := in.Options.Text(weights.Method.Name), in.Options.Text(weights.Fit.Name)
	imatrix := in.Options.Text(weights.Imatrix.Name)
	if in.Options.Text(weights.ImatrixOut.Name) != "" && file == "" {
		return fault.Usagef("--%s is of the text of --%s", weights.ImatrixOut.Name, weights.Fit.Name)
	}
	if tokensOf(in) != 0 && file == "" {
		return fault.Usagef("--%s is of the text of --%s", weights.Tokens.Name, weights.Fit.Name)
	}
	if file == "" && imatrix == "" {
		return nil
	}
	layout, ok := in.State.(*weights.File)
	if !ok {
		return fault.Usagef("--method %s: not for format %s", method, f.Name)
	}
	encodings := map[checkpoint.Part]weights.Encoding{}
	for i := range layout.Items {
		it := &layout.Items[i]
		if it.Tensor == nil {
			continue
		}
		if had, twice := encodings[it.Tensor.Part]; twice && had != it.Encoding {
			return fmt.Errorf("export: format %s writes %s in two forms, which cannot be fitted", f.Name, it.Tensor.Part)
		}
		if s := it.Encoding.Scheme; s != nil && s.Number != nil {
			return fault.Usagef("--method %s is for integers, which %s are not", method, s.Name)
		}
		encodings[it.Tensor.Part] = it.Encoding
	}
	encoding := func(t *checkpoint.Tensor) weights.Encoding { return encodings[t.Part] }
	var err error
	if imatrix != "" {
		in.Checkpoint, err = worklanguage.Weigh(ctx, j, in.Checkpoint, imatrix, in.Threads, encoding)
	} else {
		in.Checkpoint, err = fitText(ctx, j, in, worklanguage.Fitting{Text: file, Tokens: tokensOf(in),
			Way: weights.WayOf(method), Bits: 8, Threads: in.Threads, Encoding: encoding, Unfinished: unfinished})
	}
	if err != nil {
		return err
	}
	warned := layout.Warnings
	in.State = nil
	if err := f.Check(in); err != nil {
		return err
	}
	in.State.(*weights.File).Warnings = warned // that weights were quantized before is what was asked for
	return nil
}

// fitText fits the checkpoint to a text.
func fitText(ctx context.Context, j *open.Job, in *export.Input, o worklanguage.Fitting) (*checkpoint.Model, error) {
	l, err := textModel(ctx, j, in, o.Text)
	if err != nil {
		return nil, err
	}
	return worklanguage.Fit(ctx, j, l, o)
}

// verifyWritten reads what was written back, compares it with its source, and runs tokens through it.
func verifyWritten(ctx context.Context, j *open.Job, f *export.Format, in *export.Input, out *export.Output,
	v *CheckpointVerification) error {
	v.Verdict = analysis.VerdictDifferent
	refuse := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.Reason = err.Error()
		return fault.CheckError{Err: fmt.Errorf("%w; nothing was written (--unverified writes it)", err)}
	}
	back, err := f.Back(ctx, in, out)
	if err != nil {
		return refuse(err)
	}
	if back.Close != nil {
		defer back.Close()
	}
	v.Weights = back.Comparison
	what := "no tokens run"
	if back.Model != nil {
		done, end := j.Progress("weights run", int(back.Model.Parameters()))
		v.Run, err = groupsums.Run(ctx, back.Model, groupsums.Options{Table: kernels.Select(cpu.Detect()), Parallel: in.Parallel,
			Tokens:   verifiedTokens,
			Progress: func(n int64) { done(int(n)) }})
		end()
		if err == nil && v.Run.Different > 0 {
			err = fmt.Errorf("export: %d of %d int32 sums differ, the first: %s", v.Run.Different, v.Run.Sums, v.Run.First)
		}
		if what = fmt.Sprintf("%d tokens run", v.Run.Tokens); v.Run.Sums > 0 {
			what = fmt.Sprintf("%d int32 sums of %d tokens equal", v.Run.Sums, v.Run.Tokens)
		}
	}
	if err == nil && back.Graph != nil {
		if v.Run.Tokens, err = runTokens(ctx, back.Graph, in.Threads); err != nil {
			err = fmt.Errorf("export: running the written model: %w", err)
		}
		what = fmt.Sprintf("%d tokens run", v.Run.Tokens)
	}
	if err != nil {
		return refuse(err)
	}
	if back.Unlike != "" {
		v.Verdict, v.Reason = analysis.VerdictUnverified, back.Unlike
		j.Note("the file reads back as written, but its engine computes something else: see the warning above")
		return nil
	}
	for _, t := range v.Weights.Lost {
		j.Note("%s: quantized once more, error %.3g", t.Part, t.Error)
	}
	if v.Weights.Equal > 0 && !weights.WayOf(in.Options.Text(weights.Method.Name)).Fit {
		j.Note("%d tensors are those of the source, bit for bit", v.Weights.Equal)
	}
	v.Verdict = analysis.VerdictEqual
	j.Note("verified: %d weights and %d codes compared, largest error %.3g steps; %s", v.Weights.Weights, v.Weights.Codes,
		v.Weights.LargestError, what)
	return nil
}

// runTokens runs a few tokens through a graph of a checkpoint; logits that are not finite are an error.
func runTokens(ctx context.Context, g *graph.Graph, threads int) (int, error) {
	graph.InferShapes(g)
	s, err := exec.New(g, exec.Options{Context: ctx, Threads: threads})
	if err != nil {
		return 0, err
	}
	ids := make([]int64, graphTokens)
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
