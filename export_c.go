package qwb

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"qwb/export/cprogram"
	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/plan"
)

// The formats that export writes.
const (
	FormatONNX = "onnx"
	FormatC    = "c"
)

// SourceOptions are the arguments of export --format c.
type SourceOptions struct {
	Platform   string // empty: the plan's
	Profile    string // empty: the platform's
	Out        string
	Threads    int
	Batch      int64            // of inputs whose first dimension is open
	Sizes      map[string]int64 // of other open dimensions, by name
	Unverified bool
	Backend    string // that is verified against the reference
}

// SourceResult is what export --format c --json prints.
type SourceResult struct {
	Platform string `json:"platform"`
	Profile  string `json:"profile"`
	File     string `json:"file"`
	SHA256   string `json:"sha256"`
	// ArenaBytes is the memory for what is computed on the way, ConstantBytes that of weights and tables.
	ArenaBytes    int                `json:"arena_bytes"`
	ConstantBytes int                `json:"constant_bytes"`
	Verification  *plan.Verification `json:"verification"`
}

func (j *job) exportC(ctx context.Context, o SourceOptions) (*SourceResult, error) {
	if o.Batch < 1 {
		return nil, Usagef("--batch %d: at least 1", o.Batch)
	}
	p, err := j.openPlan(j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if o.Platform != "" && p.Plan.Platform != o.Platform {
		return nil, fmt.Errorf("%s is a plan for %s; make one for %s first: qwb calibrate %s --platform %s", j.Plan, p.Plan.Platform, o.Platform, p.Path, o.Platform)
	}
	profile, err := p.ProfileNamed(o.Profile)
	if err != nil {
		return nil, err
	}
	lowered, err := p.Program(profile)
	if err != nil {
		return nil, fmt.Errorf("C needs a plan that is integers as a whole: %w", err)
	}
	for _, w := range lowered.Warnings {
		j.warn("%s", w)
	}
	r := &SourceResult{Platform: p.Plan.Platform, Profile: profile.Name, File: o.Out}
	if r.File == "" {
		r.File = strings.TrimSuffix(j.Plan, PlanSuffix) + ".c"
	}
	err = j.ensureVerifiedUnder(ctx, p, profile, o)
	r.Verification = p.Plan.Verification
	if err != nil {
		return r, err
	}
	title := filepath.Base(p.Path)
	if v := p.Plan.Verification; v != nil && v.Profile == profile.Name {
		title = fmt.Sprintf("%s, verified: %s", title, v.Verdict)
	} else if o.Unverified {
		title += ", not verified"
	}
	var size cprogram.Size
	r.SHA256, err = WriteFile(j.store(), r.File, func(w io.Writer) error {
		size, err = cprogram.Write(w, lowered, cprogram.Options{Title: title, Sizes: openSizes(p.Graph, o)})
		return err
	})
	r.ArenaBytes, r.ConstantBytes = size.Arena, size.Constants
	if err != nil {
		return nil, err
	}
	if err := j.rewritePlan(p, p.Plan); err != nil { // with its verification
		j.warn("the verification is not kept: %v", err)
	}
	return r, nil
}

// ensureVerifiedUnder is ensureVerified for any profile. The plan keeps a verification under its platform's alone.
func (j *job) ensureVerifiedUnder(ctx context.Context, p *Planned, profile qmath.Profile, o SourceOptions) error {
	if profile.Name == p.Target.Profile {
		return j.ensureVerified(ctx, p, o.Backend, o.Threads, o.Unverified)
	}
	if o.Unverified {
		return nil
	}
	b, err := j.Catalog.present(o.Backend)
	if err != nil {
		return err
	}
	v, err := j.verifyPlan(ctx, p, profile, b, DataOptions{Threads: o.Threads})
	if err != nil {
		return fmt.Errorf("export verifies first (--unverified does without): %w", err)
	}
	j.note("verified on %d samples: %s", v.Samples, Summary(v))
	if !v.Holds() {
		return CheckError{fmt.Errorf("export: %s; nothing was written; qwb verify --profile %s %s shows more", Divergence(v), profile.Name, p.File)}
	}
	return nil
}

// openSizes are the sizes of dimensions that the model leaves open.
func openSizes(g *graph.Graph, o SourceOptions) map[string]int64 {
	sizes := map[string]int64{}
	for name, n := range o.Sizes {
		sizes[name] = n
	}
	for _, v := range g.Inputs {
		if s := g.Value(v).Shape; len(s) > 0 && !s[0].Known() {
			sizes[s[0].Symbol] = o.Batch
		}
	}
	return sizes
}
