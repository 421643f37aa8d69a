package qwb

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

// CheckpointFormats are the formats that export writes of a checkpoint.
func CheckpointFormats() []weights.Format {
	return []weights.Format{llama2c.Q80(), llama2c.V0(), llama2c.V1(), kuiper.Format(), gguf.Format(), mllm.Format(), inferllm.Format()}
}

// verifiedTokens is how many tokens are run through a written checkpoint.
const verifiedTokens = 16

// CheckpointOptions are the arguments of export of a checkpoint.
type CheckpointOptions struct {
	Format     string
	Out        string
	Group      int
	Scales     string
	Matrices   string
	Tokenizer  string
	Threads    int
	Unverified bool
}

// The choices of --scales.
const (
	ScalesNearest = "rtn"
	ScalesSearch  = "mse"
)

// FormatNames lists the formats of checkpoints.
func FormatNames() string {
	names := []string{FormatONNX}
	for _, f := range CheckpointFormats() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// find returns the format after checking the options that depend on it.
func (o *CheckpointOptions) find(file string) (weights.Format, error) {
	formats := CheckpointFormats()
	at := slices.IndexFunc(formats, func(f weights.Format) bool { return f.Name == o.Format })
	if at < 0 {
		return weights.Format{}, Usagef("%s is a checkpoint, whose formats are %s, not %q", file, FormatNames(), o.Format)
	}
	if o.Tokenizer != "" && !formats[at].Tokenizer {
		return weights.Format{}, Usagef("--tokenizer: files of %s hold no tokens", o.Format)
	}
	return formats[at], o.Check(formats[at].Matrices)
}

// Check validates the options for a format whose matrices can have the given forms.
func (o *CheckpointOptions) Check(forms []string) error {
	switch {
	case o.Group < 0:
		return Usagef("--group-size %d: not negative", o.Group)
	case o.Scales != ScalesNearest && o.Scales != ScalesSearch:
		return Usagef("unknown scales %q: %s or %s", o.Scales, ScalesNearest, ScalesSearch)
	case o.Matrices != "" && !slices.Contains(forms, o.Matrices):
		return Usagef("%s has no weights %q, only %s", o.Format, o.Matrices, strings.Join(forms, ", "))
	}
	return nil
}

// CheckpointResult is what export --json prints of a checkpoint.
type CheckpointResult struct {
	Format   string        `json:"format"`
	File     string        `json:"file"`
	SHA256   string        `json:"sha256"`
	Warnings []tqc.Warning `json:"warnings"`
	// Verification says what reading the file back and running it found.
	Verification CheckpointVerification `json:"verification"`
}

type CheckpointVerification struct {
	Verdict string             `json:"verdict"` // equal, different or unverified
	Reason  string             `json:"reason,omitempty"`
	Weights weights.Comparison `json:"weights"`
	Run     groupsums.Result   `json:"run"`
}

func (j *job) exportCheckpoint(ctx context.Context, o CheckpointOptions) (*CheckpointResult, error) {
	format, err := o.find(j.Model)
	if err != nil {
		return nil, err
	}
	return j.exportAs(ctx, format, o)
}

// exportAs writes a checkpoint in a format.
func (j *job) exportAs(ctx context.Context, format weights.Format, o CheckpointOptions) (*CheckpointResult, error) {
	m, err := j.openCheckpointFile()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r := &CheckpointResult{Format: o.Format, File: o.Out}
	tokens, err := r.tokens(m, format, o.Tokenizer)
	if err != nil {
		return nil, err
	}
	layout, err := format.Layout(m, weights.Options{Group: o.Group, Matrices: o.Matrices, Search: o.Scales == ScalesSearch, Tokenizer: tokens})
	if err != nil {
		return nil, err
	}
	if r.Warnings = append(r.Warnings, layout.Warnings...); r.Warnings == nil {
		r.Warnings = []tqc.Warning{}
	}
	if r.File == "" {
		r.File = BaseName(filepath.Clean(j.Model)) + "." + o.Format + format.Suffix
	}
	if j.sameFile(r.File, j.Model) {
		return nil, fmt.Errorf("export: %s is the checkpoint itself", r.File)
	}
	for _, w := range r.Warnings {
		j.warnAbout(w)
	}
	staged, err := j.stageCheckpoint(ctx, layout, o.Threads, r)
	if err != nil {
		return nil, err
	}
	r.Verification.Verdict = analysis.VerdictUnverified
	if !o.Unverified {
		if r.Verification, err = j.verifyCheckpoint(ctx, layout, format, staged, o.Threads); err != nil {
			os.Remove(staged)
			return r, err
		}
		if layout.Unlike != "" {
			r.Verification.Verdict, r.Verification.Reason = analysis.VerdictUnverified, layout.Unlike
			j.note("the file reads back as it was written; that its engine computes the same is not so, see the warning above")
			return r, file.Commit(staged, r.File)
		}
		j.note("verified: %d weights and %d codes compared, largest error %.3g steps; %d int32 sums of %d tokens equal", r.Verification.Weights.Weights,
			r.Verification.Weights.Codes, r.Verification.Weights.LargestError, r.Verification.Run.Sums, r.Verification.Run.Tokens)
	}
	return r, file.Commit(staged, r.File)
}

// tokens returns what GGUF's metadata say about the tokens of a model, for a format that holds them: those of a GGUF checkpoint, or of the
// tokenizer that is named or lies beside it. None beside it is a warning, the named one has to fit.
func (r *CheckpointResult) tokens(m *checkpoint.Model, format weights.Format, named string) (map[string]any, error) {
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

// stageCheckpoint writes the file under a temporary name.
func (j *job) stageCheckpoint(ctx context.Context, f *weights.File, threads int, r *CheckpointResult) (string, error) {
	set, finish := j.progress("weights written", int(f.Elements()))
	defer finish()
	h := sha256.New()
	staged, err := file.Stage(r.File, func(w io.Writer) error {
		return f.Write(ctx, io.MultiWriter(w, h), weights.Run{Threads: threads, Progress: func(done int64) { set(int(done)) }})
	})
	r.SHA256 = hex.EncodeToString(h.Sum(nil))
	return staged, err
}

// verifyCheckpoint reads a written file back, compares it with its source, and runs tokens through it on the kernels and on plain loops.
func (j *job) verifyCheckpoint(ctx context.Context, f *weights.File, format weights.Format, staged string, threads int) (CheckpointVerification, error) {
	v := CheckpointVerification{Verdict: analysis.VerdictDifferent}
	refuse := func(err error) (CheckpointVerification, error) {
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		v.Reason = err.Error()
		return v, CheckError{fmt.Errorf("%w; nothing was written (--unverified writes it)", err)}
	}
	back, err := format.Open(staged, &f.Config)
	if err != nil {
		return refuse(fmt.Errorf("export: what was written cannot be read: %w", err))
	}
	defer back.Close()
	set, finish := j.progress("weights compared", int(f.Elements()))
	v.Weights, err = f.Compare(ctx, back, weights.Run{Threads: threads, Progress: func(done int64) { set(int(done)) }})
	finish()
	if err != nil {
		return refuse(err)
	}
	set, finish = j.progress("weights run", int(back.Parameters()))
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
