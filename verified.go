package qwb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"qwb/analysis"
	"qwb/export"
	"qwb/internal/plain"
	"qwb/kernels/qmath"
	"qwb/quantizer/plan"
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

// ensureVerified verifies a plan under a profile, unless the plan holds a verification that fits, and returns the outcome. One under the
// platform's profile is then in the plan in memory, which has to be written. o.Unverified records that nobody looked instead.
func (j *job) ensureVerified(ctx context.Context, p *Planned, profile qmath.Profile, o ExportOptions) (*plan.Verification, error) {
	if err := p.fresh("export"); err != nil {
		return nil, err
	}
	own, option := profile.Name == p.Target.Profile, ""
	if !own {
		option = "--profile " + profile.Name + " "
	} else if ok, err := p.verified(); err != nil || ok {
		return p.Plan.Verification, err
	}
	v := &analysis.Verification{Profile: profile.Name, Verdict: analysis.VerdictUnverified}
	if !o.Unverified {
		b, err := j.Catalog.present(o.Backend)
		if err != nil {
			return nil, err
		}
		if v, err = j.verifyPlan(ctx, p, profile, b, DataOptions{Threads: o.Threads}); err != nil {
			return nil, verifiesFirst(p, err)
		}
	}
	outcome, err := p.outcome(v)
	if err != nil {
		return nil, err
	}
	if own {
		p.Plan.Verification = outcome
	}
	switch {
	case o.Unverified:
	case v.Verdict == analysis.VerdictNothing:
		tensors, operators := withoutIntegers(p.Set)
		if tensors+operators == 0 {
			return outcome, CheckError{fmt.Errorf("export: the plan changes nothing of the float model, there is nothing to verify; nothing was written (--unverified exports it all the same)")}
		}
		j.warn("the plan has no operator on integers (%s in fp8, in other formats without integers, or weights alone; %s in fp16 or bf16): nothing could be verified on integers, the simulation alone stands behind the file",
			plain.Count(tensors, "quantized tensor"), plain.Count(operators, "operator"))
	case !v.Holds():
		return outcome, CheckError{fmt.Errorf("export: %s; nothing was written; qwb verify %s%s shows more", Divergence(v), option, p.File)}
	default:
		j.note("verified on %d samples: %s", v.Samples, summary(v))
	}
	return outcome, nil
}

// withoutIntegers counts the tensors that a plan quantizes, none of which integers are computed with, and the operators in fp16 and bf16.
func withoutIntegers(set *tqc.Set) (tensors, operators int) {
	for id := range tqc.SlotID(set.NumSlots()) {
		if set.Slot(id).State().Quantizes() {
			tensors++
		}
	}
	for _, d := range set.Domains {
		if d == tqc.DomainFP16 || d == tqc.DomainBF16 {
			operators++
		}
	}
	return tensors, operators
}

// stamp writes into what a format gets how a plan was verified.
func stamp(in *export.Input, p *plan.Plan, v *plan.Verification) (err error) {
	switch {
	case v == nil:
	case analysis.Holds(v.Verdict):
		in.Verification = "verified: " + v.Verdict
	case v.Verdict == analysis.VerdictNothing:
		in.Verification = "no integers to verify"
	default:
		in.Verification = "not verified"
	}
	in.Metadata, err = metadata(p, v)
	return err
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
