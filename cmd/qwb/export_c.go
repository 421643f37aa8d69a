package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"qwb/export/cprogram"
	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/plan"
)

// The formats that export writes.
const (
	formatONNX = "onnx"
	formatC    = "c"
)

// sourceOptions are the arguments of export --format c.
type sourceOptions struct {
	plan       string
	platform   string // empty: the plan's
	profile    string // empty: the platform's
	out        string
	threads    int
	batch      int64            // of inputs whose first dimension is open
	sizes      map[string]int64 // of other open dimensions, by name
	unverified bool
	backend    string // that is verified against the reference
}

// sourceFlags are the flags that only C takes.
var sourceFlags = []string{"profile", "batch", "size"}

func (o *sourceOptions) addTo(c *cobra.Command) {
	c.Flags().StringVar(&o.profile, "profile", "", "with --format c: arithmetic profile (default: the platform's): "+profiles())
	c.Flags().Int64Var(&o.batch, "batch", 1, "with --format c: samples per run where the model leaves it open")
	c.Flags().StringToInt64Var(&o.sizes, "size", nil, "with --format c: sizes of other dimensions that the model leaves open, as H=96,W=96")
}

// sourceResult is what export --format c --json prints.
type sourceResult struct {
	Platform string `json:"platform"`
	Profile  string `json:"profile"`
	File     string `json:"file"`
	SHA256   string `json:"sha256"`
	// ArenaBytes is the memory for what is computed on the way, ConstantBytes that of weights and tables.
	ArenaBytes    int                `json:"arena_bytes"`
	ConstantBytes int                `json:"constant_bytes"`
	Verification  *plan.Verification `json:"verification"`
}

// printSource exports C and prints what was written.
func (e *env) printSource(ctx context.Context, o sourceOptions, json bool) error {
	r, err := e.exportC(ctx, o)
	return e.printExport(r, err, json, func() string {
		return fmt.Sprintf("%s: profile %s, %d bytes of constants, %d bytes of arena, SHA-256 %s", r.File, r.Profile, r.ConstantBytes, r.ArenaBytes, r.SHA256)
	})
}

func (e *env) exportC(ctx context.Context, o sourceOptions) (*sourceResult, error) {
	if o.batch < 1 {
		return nil, usagef("--batch %d: at least 1", o.batch)
	}
	p, err := e.openPlan(o.plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if o.platform != "" && p.plan.Platform != o.platform {
		return nil, fmt.Errorf("%s is a plan for %s; make one for %s first: qwb calibrate %s --platform %s", o.plan, p.plan.Platform, o.platform, p.path, o.platform)
	}
	profile, err := p.profile(o.profile)
	if err != nil {
		return nil, err
	}
	lowered, err := p.program(profile)
	if err != nil {
		return nil, err
	}
	for _, w := range lowered.Warnings {
		e.warn("%s", w)
	}
	r := &sourceResult{Platform: p.plan.Platform, Profile: profile.Name, File: o.out}
	if r.File == "" {
		r.File = strings.TrimSuffix(o.plan, planSuffix) + ".c"
	}
	err = e.ensureVerifiedUnder(ctx, p, profile, o)
	r.Verification = p.plan.Verification
	if err != nil {
		return r, err
	}
	title := filepath.Base(p.path)
	if v := p.plan.Verification; v != nil && v.Profile == profile.Name {
		title = fmt.Sprintf("%s, verified: %s", title, v.Verdict)
	} else if o.unverified {
		title += ", not verified"
	}
	var size cprogram.Size
	r.SHA256, err = writeFile(r.File, func(w io.Writer) error {
		size, err = cprogram.Write(w, lowered, cprogram.Options{Title: title, Sizes: openSizes(p.Graph, o)})
		return err
	})
	r.ArenaBytes, r.ConstantBytes = size.Arena, size.Constants
	if err != nil {
		return nil, err
	}
	if err := p.plan.Write(p.file); err != nil { // with its verification
		e.warn("the verification is not kept: %v", err)
	}
	return r, nil
}

// ensureVerifiedUnder is ensureVerified for any profile. The plan keeps a verification under its platform's alone.
func (e *env) ensureVerifiedUnder(ctx context.Context, p *planned, profile qmath.Profile, o sourceOptions) error {
	if profile.Name == p.target.Profile {
		return e.ensureVerified(ctx, p, o.backend, o.threads, o.unverified)
	}
	if o.unverified {
		return nil
	}
	b, err := backendNamed(cmp.Or(o.backend, defaultBackend().Name))
	if err != nil {
		return err
	}
	v, err := e.verifyPlan(ctx, p, profile, b, dataOptions{threads: o.threads})
	if err != nil {
		return fmt.Errorf("export verifies first (--unverified does without): %w", err)
	}
	e.note("verified on %d samples: %s", v.Samples, summary(v))
	if !v.Holds() {
		return checkError{fmt.Errorf("export: %s; nothing was written; qwb verify --profile %s %s shows more", divergence(v), profile.Name, p.file)}
	}
	return nil
}

// openSizes are the sizes of dimensions that the model leaves open.
func openSizes(g *graph.Graph, o sourceOptions) map[string]int64 {
	sizes := map[string]int64{}
	for name, n := range o.sizes {
		sizes[name] = n
	}
	for _, v := range g.Inputs {
		if s := g.Value(v).Shape; len(s) > 0 && !s[0].Known() {
			sizes[s[0].Symbol] = o.batch
		}
	}
	return sizes
}
