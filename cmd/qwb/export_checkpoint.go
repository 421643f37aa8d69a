package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"qwb/analysis"
	"qwb/analysis/groupsums"
	"qwb/export/gguf"
	"qwb/export/inferllm"
	"qwb/export/kuiper"
	"qwb/export/llama2c"
	"qwb/export/mllm"
	"qwb/export/weights"
	"qwb/graph/checkpoint"
	"qwb/graph/decode"
	"qwb/graph/exec"
	"qwb/internal/file"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/quantizer/tqc"
)

// checkpointFormats are the formats that export writes of a checkpoint.
func checkpointFormats() []weights.Format {
	return []weights.Format{llama2c.Q80(), llama2c.V0(), llama2c.V1(), kuiper.Format(), gguf.Format(), mllm.Format(), inferllm.Format()}
}

// verifiedTokens is how many tokens are run through a written checkpoint.
const verifiedTokens = 16

// checkpointOptions are the arguments of export of a checkpoint.
type checkpointOptions struct {
	file       string
	format     string
	out        string
	group      int
	scales     string
	matrices   string
	tokenizer  string
	threads    int
	unverified bool
}

// checkpointFlags are the flags that only checkpoints take.
var checkpointFlags = []string{"group-size", "scales", "weights", "tokenizer"}

// The choices of --scales.
const (
	scalesNearest = "rtn"
	scalesSearch  = "mse"
)

func (o *checkpointOptions) addTo(c *cobra.Command) {
	c.Flags().IntVar(&o.group, "group-size", 0, "of a checkpoint: neighbours that share a scale (0: 64, halved until it divides every row)")
	c.Flags().StringVar(&o.scales, "scales", scalesNearest, "of a checkpoint: "+scalesNearest+", the scale of the largest weight of a group, or "+scalesSearch+", the one with the smallest squared error")
	c.Flags().StringVar(&o.matrices, "weights", "", "of a checkpoint: how matrices are written where the format leaves that open: "+matrixForms())
	c.Flags().StringVar(&o.tokenizer, "tokenizer", "", "of a checkpoint: tokenizer.json or tokenizer.bin for formats that hold one (default: the one beside it)")
}

// matrixForms lists the choices of --weights by format.
func matrixForms() string {
	parts := []string{formatONNX + ": " + strings.Join(nbitsForms, ", ")}
	for _, f := range checkpointFormats() {
		if len(f.Matrices) > 1 {
			parts = append(parts, f.Name+": "+strings.Join(f.Matrices, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// formatNames lists the formats of checkpoints.
func formatNames() string {
	names := []string{formatONNX}
	for _, f := range checkpointFormats() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// find returns the format after checking the options that depend on it.
func (o *checkpointOptions) find() (weights.Format, error) {
	formats := checkpointFormats()
	at := slices.IndexFunc(formats, func(f weights.Format) bool { return f.Name == o.format })
	if at < 0 {
		return weights.Format{}, usagef("%s is a checkpoint, whose formats are %s, not %q", o.file, formatNames(), o.format)
	}
	if o.tokenizer != "" && !formats[at].Tokenizer {
		return weights.Format{}, usagef("--tokenizer: files of %s hold no tokens", o.format)
	}
	return formats[at], o.check(formats[at].Matrices)
}

// check validates the options for a format whose matrices can have the given forms.
func (o *checkpointOptions) check(forms []string) error {
	switch {
	case o.group < 0:
		return usagef("--group-size %d: not negative", o.group)
	case o.scales != scalesNearest && o.scales != scalesSearch:
		return usagef("unknown scales %q: %s or %s", o.scales, scalesNearest, scalesSearch)
	case o.matrices != "" && !slices.Contains(forms, o.matrices):
		return usagef("%s has no weights %q, only %s", o.format, o.matrices, strings.Join(forms, ", "))
	}
	return nil
}

// checkpointResult is what export --json prints of a checkpoint.
type checkpointResult struct {
	Format   string        `json:"format"`
	File     string        `json:"file"`
	SHA256   string        `json:"sha256"`
	Warnings []tqc.Warning `json:"warnings"`
	// Verification says what reading the file back and running it found.
	Verification checkpointVerification `json:"verification"`
}

type checkpointVerification struct {
	Verdict string             `json:"verdict"` // equal, different or unverified
	Reason  string             `json:"reason,omitempty"`
	Weights weights.Comparison `json:"weights"`
	Run     groupsums.Result   `json:"run"`
}

// printCheckpoint exports a checkpoint and prints what was written.
func (e *env) printCheckpoint(ctx context.Context, o checkpointOptions, json bool) error {
	export := e.exportCheckpoint
	if o.format == formatONNX {
		export = e.exportNBits
		if err := o.check(nbitsForms); err != nil {
			return err
		}
	}
	r, err := export(ctx, o)
	return e.printExport(r, err, json, func() string { return fmt.Sprintf("%s: %s, SHA-256 %s", r.File, r.Format, r.SHA256) })
}

func (e *env) exportCheckpoint(ctx context.Context, o checkpointOptions) (*checkpointResult, error) {
	format, err := o.find()
	if err != nil {
		return nil, err
	}
	return e.exportAs(ctx, format, o)
}

// exportAs writes a checkpoint in a format.
func (e *env) exportAs(ctx context.Context, format weights.Format, o checkpointOptions) (*checkpointResult, error) {
	m, err := checkpoint.Open(o.file)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r := &checkpointResult{Format: o.format, File: o.out}
	tokens, err := r.tokens(m, format, o.tokenizer)
	if err != nil {
		return nil, err
	}
	layout, err := format.Layout(m, weights.Options{Group: o.group, Matrices: o.matrices, Search: o.scales == scalesSearch, Tokenizer: tokens})
	if err != nil {
		return nil, err
	}
	if r.Warnings = append(r.Warnings, layout.Warnings...); r.Warnings == nil {
		r.Warnings = []tqc.Warning{}
	}
	if r.File == "" {
		r.File = baseName(filepath.Clean(o.file)) + "." + o.format + format.Suffix
	}
	if samePath(r.File, o.file) {
		return nil, fmt.Errorf("export: %s is the checkpoint itself", r.File)
	}
	for _, w := range r.Warnings {
		e.warnAbout(w)
	}
	staged, err := e.stageCheckpoint(ctx, layout, o.threads, r)
	if err != nil {
		return nil, err
	}
	r.Verification.Verdict = analysis.VerdictUnverified
	if !o.unverified {
		if r.Verification, err = e.verifyCheckpoint(ctx, layout, format, staged, o.threads); err != nil {
			os.Remove(staged)
			return r, err
		}
		e.note("verified: %d weights and %d codes compared, largest error %.3g steps; %d int32 sums of %d tokens equal", r.Verification.Weights.Weights,
			r.Verification.Weights.Codes, r.Verification.Weights.LargestError, r.Verification.Run.Sums, r.Verification.Run.Tokens)
	}
	return r, file.Commit(staged, r.File)
}

// tokens returns what GGUF's metadata say about the tokens of a model, for a format that holds them: those of a GGUF checkpoint, or of the
// tokenizer that is named or lies beside it. None beside it is a warning, the named one has to fit.
func (r *checkpointResult) tokens(m *checkpoint.Model, format weights.Format, named string) (map[string]any, error) {
	if !format.Tokenizer {
		return nil, nil
	}
	const prefix = "tokenizer.ggml."
	if named == "" && m.Metadata[prefix+"model"] != nil {
		out := map[string]any{}
		for key, value := range m.Metadata {
			if strings.HasPrefix(key, prefix) {
				out[key] = value
			}
		}
		return out, nil
	}
	t, err := decode.OpenTokenizer(named, m)
	if err == nil {
		if known, ok := t.(interface{ GGUFMetadata(end int) map[string]any }); ok {
			return known.GGUFMetadata(append(m.EOS, -1)[0]), nil
		}
		err = fmt.Errorf("tokenizer: byte-pair encoding of a tokenizer.json is not written into %s files", format.Name)
	}
	if named != "" {
		return nil, err
	}
	r.Warnings = append(r.Warnings, tqc.Warning{Text: err.Error()})
	return nil, nil
}

// samePath reports whether two paths are one file that exists.
func samePath(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// stageCheckpoint writes the file under a temporary name.
func (e *env) stageCheckpoint(ctx context.Context, f *weights.File, threads int, r *checkpointResult) (string, error) {
	set, finish := e.progress("weights written", int(f.Elements()))
	defer finish()
	h := sha256.New()
	staged, err := file.Stage(r.File, func(w io.Writer) error {
		return f.Write(ctx, io.MultiWriter(w, h), weights.Run{Threads: threads, Progress: func(done int64) { set(int(done)) }})
	})
	r.SHA256 = hex.EncodeToString(h.Sum(nil))
	return staged, err
}

// verifyCheckpoint reads a written file back, compares it with its source, and runs tokens through it on the kernels and on plain loops.
func (e *env) verifyCheckpoint(ctx context.Context, f *weights.File, format weights.Format, staged string, threads int) (checkpointVerification, error) {
	v := checkpointVerification{Verdict: analysis.VerdictDifferent}
	refuse := func(err error) (checkpointVerification, error) {
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		v.Reason = err.Error()
		return v, checkError{fmt.Errorf("%w; nothing was written (--unverified writes it)", err)}
	}
	back, err := format.Open(staged, &f.Config)
	if err != nil {
		return refuse(fmt.Errorf("export: what was written cannot be read: %w", err))
	}
	defer back.Close()
	set, finish := e.progress("weights compared", int(f.Elements()))
	v.Weights, err = f.Compare(ctx, back, weights.Run{Threads: threads, Progress: func(done int64) { set(int(done)) }})
	finish()
	if err != nil {
		return refuse(err)
	}
	set, finish = e.progress("weights run", int(back.Parameters()))
	v.Run, err = groupsums.Run(ctx, back, groupsums.Options{Table: kernels.Select(cpu.Detect()), Parallel: exec.Parallel(threads), Tokens: verifiedTokens,
		Progress: func(done int64) { set(int(done)) }})
	finish()
	if err != nil {
		return refuse(err)
	}
	if v.Run.Different > 0 {
		return refuse(fmt.Errorf("export: %d of %d int32 sums differ, the first: %s", v.Run.Different, v.Run.Sums, v.Run.First))
	}
	v.Verdict = analysis.VerdictEqual
	return v, nil
}
