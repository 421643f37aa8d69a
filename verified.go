package qwb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"qwb/analysis"
	"qwb/internal/plain"
	"qwb/quantizer/tqc"
)

// identity is the SHA-256 of everything that the outcome of a verification depends on: model, plan without its verification, profile,
// and the version of qwb.
func (p *Planned) identity(profile string) (string, error) {
	hash, err := p.Plan.Hash()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, part := range []string{"qwb verification", p.Digest, hash, profile, p.catalog.Version} {
		fmt.Fprintf(sum, "%s\n", part)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// ensureVerified verifies a plan under its platform's profile unless it holds a verification that fits; the outcome is then in
// memory and has to be written. unverified records that nobody looked instead.
func (j *job) ensureVerified(ctx context.Context, p *Planned, backend string, threads int, unverified bool) error {
	if err := p.fresh("export"); err != nil {
		return err
	}
	ok, err := p.verified()
	if err != nil || ok {
		return err
	}
	if unverified {
		return p.record(&analysis.Verification{Profile: p.Target.Profile, Verdict: analysis.VerdictUnverified})
	}
	profile, err := p.ProfileNamed("")
	if err != nil {
		return err
	}
	b, err := j.Catalog.present(backend)
	if err != nil {
		return err
	}
	v, err := j.verifyPlan(ctx, p, profile, b, DataOptions{Threads: threads})
	if err != nil {
		return verifiesFirst(p, err)
	}
	if err := p.record(v); err != nil {
		return err
	}
	j.note("verified on %d samples: %s", v.Samples, summary(v))
	if v.Verdict == analysis.VerdictNothing {
		if n := withoutIntegers(p.Set); n > 0 {
			j.warn("the plan has no operator on integers (fp8, other formats without integers, or weights alone: %s): nothing could be verified on integers, the simulation alone stands behind the file", plain.Count(n, "quantized tensor"))
			return nil
		}
		return CheckError{fmt.Errorf("export: %s; nothing was written (--unverified exports it all the same)", Divergence(v))}
	}
	if !v.Holds() {
		return CheckError{fmt.Errorf("export: %s; nothing was written; qwb verify %s shows more", Divergence(v), p.File)}
	}
	return nil
}

// withoutIntegers counts the tensors that a plan quantizes, none of which integers are computed with.
func withoutIntegers(set *tqc.Set) (n int) {
	for id := range tqc.SlotID(set.NumSlots()) {
		if set.Slot(id).State().Quantizes() {
			n++
		}
	}
	return n
}

// summary is a verification in a few words.
func summary(v *analysis.Verification) string {
	s := fmt.Sprintf("%s: %d of %d integers differ, %d rounding ties", v.Verdict, v.IntegersDifferent, v.IntegersCompared, v.Ties)
	if len(v.Simulated) > 0 {
		s += fmt.Sprintf("; %d steps have no integer form and were simulated (%.2f %% of the %s verified)", len(v.Simulated), 100*v.Share.Part(), v.Share.Of)
	}
	return s
}

// verifiesFirst is the error of a verification that an export could not do. Export takes no data of its own; verify does.
func verifiesFirst(p *Planned, err error) error {
	if errors.Is(err, errNoData) {
		return Usagef("export verifies the plan first, and the plan has no data of its own: run qwb verify %s --data D before, or export with --unverified", p.File)
	}
	return fmt.Errorf("export verifies first (--unverified does without): %w", err)
}
