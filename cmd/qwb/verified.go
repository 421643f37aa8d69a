package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"qwb/analysis"
	"qwb/quantizer/plan"
	"qwb/reports"
)

// identity is the SHA-256 of everything that the outcome of a verification depends on: model, plan without its verification, tuned
// weights, profile, and the version of qwb.
func (p *planned) identity(profile string) (string, error) {
	hash, err := p.plan.Hash()
	if err != nil {
		return "", err
	}
	tuned := "none"
	if p.plan.Tuned != nil {
		if tuned, err = sha256File(plan.Resolve(p.file, p.plan.Tuned.Path)); err != nil {
			return "", fmt.Errorf("tuned weights: %w", err)
		}
	}
	sum := sha256.New()
	for _, part := range []string{"qwb verification", p.digest, hash, tuned, profile, version} {
		fmt.Fprintf(sum, "%s\n", part)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// ensureVerified verifies a plan under its platform's profile unless it holds a verification that fits; the outcome is then in
// memory and has to be written. unverified records that nobody looked instead.
func (e *env) ensureVerified(ctx context.Context, p *planned, backend string, threads int, unverified bool) error {
	ok, err := p.verified()
	if err != nil || ok {
		return err
	}
	if unverified {
		return p.record(&analysis.Verification{Profile: p.target.Profile, Verdict: analysis.VerdictUnverified})
	}
	profile, err := p.profile("")
	if err != nil {
		return err
	}
	b, err := backendNamed(cmp.Or(backend, defaultBackend().Name))
	if err != nil {
		return err
	}
	v, err := e.verifyPlan(ctx, p, profile, b, dataOptions{threads: threads})
	if err != nil {
		return fmt.Errorf("export verifies first (--unverified does without): %w", err)
	}
	if err := p.record(v); err != nil {
		return err
	}
	e.note("verified on %d samples: %s", v.Samples, summary(v))
	if !v.Holds() {
		return checkError{fmt.Errorf("export: %s; nothing was written; qwb verify %s shows more", divergence(v), p.file)}
	}
	return nil
}

// summary is a verification in a few words.
func summary(v *analysis.Verification) string {
	return fmt.Sprintf("%s, %d integers of %d tensors compared, %d different, %d ties", v.Verdict, v.IntegersCompared, v.Tensors, v.IntegersDifferent, v.Ties)
}

// writeVerification writes the report of a verification as HTML.
func writeVerification(path, planFile string, v *analysis.Verification) error {
	title := cmp.Or(strings.TrimSuffix(filepath.Base(planFile), planSuffix), planFile)
	_, err := writeFile(path, func(w io.Writer) error { return reports.VerificationHTML(w, title, v) })
	return err
}
