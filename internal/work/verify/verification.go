package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/export"
	"qwb/graph/onnx"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// ExportVerification is how what was exported was verified. Verdict, digest and all that the digest is of are those of the plan's
// Verification.
type ExportVerification struct {
	plan.Verification
	// Share is the part of the integer work that was verified: 1 for all of it, 0 where nothing was compared.
	Share float64 `json:"share"`
	// EngineKnown says whether the integers of the profile were ever held to those of the platform's own engine.
	EngineKnown bool `json:"engine_known"`
}

func ForExport(p *planning.Planned, v *plan.Verification) *ExportVerification {
	r := &ExportVerification{Verification: *v, EngineKnown: engineKnown(p, v.Profile)}
	switch {
	case v.Share != nil:
		r.Share = *v.Share
	case analysis.Holds(v.Verdict):
		r.Share = 1
	}
	return r
}

func engineKnown(p *planning.Planned, profile string) bool {
	e := target.EngineOf(p.Plan.Platform)
	return e.Knows(profile)
}

// Identity is the SHA-256 of everything that the outcome of a verification depends on and of what it says of itself: model, plan without
// its verification, the integer program, the version of qwb, profile, backend, samples, verdict.
func Identity(p *planning.Planned, program *lower.Program, v *plan.Verification) (string, error) {
	hash, err := p.Plan.Hash()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, part := range []string{"qwb verification 2", p.Digest, hash, lower.Format(program), p.Catalog.Version, v.Verdict,
		fmt.Sprint(v.Whole),
		v.How(false), NumberText(v.Share)} {
		fmt.Fprintf(sum, "%q\n", part)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// wanted is what an export or a gate asks of a verification.
type wanted struct {
	program *lower.Program // under the profile
	backend string
	samples int // 0: samples.VerifySamples, or as many as there are
}

// lacking says why the verification in the plan does not stand for what is asked for: empty where it does. A weaker one does not: by
// another backend or profile, on fewer samples, on made-up ones where the plan has real ones, of another plan, program or version of qwb.
func lacking(p *planning.Planned, w wanted) (string, error) {
	v := p.Plan.Verification
	need, own := w.samples, p.Plan.Samples
	if need == 0 {
		need = samples.VerifySamples
	}
	if own > 0 {
		need = min(need, own)
	}
	whole := own == 0 && w.samples == 0 && v != nil && v.Whole && v.Data == plan.RealData
	switch {
	case v == nil:
		return "there is none", nil
	case !analysis.Holds(v.Verdict):
		return "it says " + v.Verdict, nil
	case v.Data == "":
		return "it does not say on what", nil
	case v.Profile != w.program.Profile.Name:
		return fmt.Sprintf("it is of profile %s, not %s", v.Profile, w.program.Profile.Name), nil
	case v.Backend != w.backend:
		return fmt.Sprintf("it is by %s, not %s", v.Backend, w.backend), nil
	case v.Data == plan.SyntheticData && own > 0 && !p.Plan.Data.Synthetic:
		return "it is on synthetic data, and the plan has real ones", nil
	case v.Samples < need && !whole:
		return fmt.Sprintf("it is on %s, not %d", plain.Count(v.Samples, "sample"), need), nil
	}
	digest, err := Identity(p, w.program, v)
	if err != nil || digest == v.Digest {
		return "", err
	}
	return "it is of another plan, program or version of qwb", nil
}

// Terms is what an export asks of a verification: see export.Options.
type Terms struct {
	Backend    string
	Samples    int
	Threads    int
	Unverified bool
	Kept       *Compiled // gets the program and its integers
}

// Compiled is what a verification leaves for whoever runs what was written: the plan's program, and its integers where it was run.
type Compiled struct {
	Program *lower.Program
	Sums    *verify.Sums // nil: the plan was verified before, and its program has to run again
}

// Ensure verifies a plan under a profile, unless the plan holds a verification that stands for it, and returns the outcome. One under
// the platform's profile is then in the plan in memory, which has to be written. o.Unverified records that nobody looked instead.
func Ensure(ctx context.Context, j *open.Job, p *planning.Planned, profile qmath.Profile, o Terms) (*plan.Verification, error) {
	if err := p.Fresh("export"); err != nil {
		return nil, err
	}
	b, err := j.Catalog.Backend(o.Backend)
	if err != nil {
		return nil, err
	}
	program, err := p.Partial(profile)
	if err != nil {
		return nil, err
	}
	o.Kept.Program = program
	lacks, err := lacking(p, wanted{program, b.Name, o.Samples})
	if err != nil {
		return nil, err
	}
	if usual, err := j.Catalog.Backend(""); err != nil || b.Name != usual.Name {
		lacks = cmp.Or(lacks, "--backend "+b.Name+" verifies there each time")
	}
	if lacks == "" {
		v := p.Plan.Verification
		j.Note("verified before: %s: %s", ByWhom(p, v), v.Verdict)
		return v, nil
	}
	v := &analysis.Verification{Profile: profile.Name, Verdict: analysis.VerdictUnverified}
	if !o.Unverified {
		if err := open.Here(b); err != nil {
			return nil, err
		}
		o.Kept.Sums = &verify.Sums{}
		if v, err = verifyPlan(ctx, j, p, program, b, open.DataOptions{Threads: o.Threads, Samples: o.Samples}, o.Kept.Sums); err != nil {
			return nil, verifiesFirst(p, lacks, err)
		}
	}
	outcome, err := outcomeOf(p, program, v)
	if err != nil {
		return nil, err
	}
	if profile.Name == p.Target.Profile {
		p.Plan.Verification = outcome
	}
	return outcome, exportable(j, p, v, outcome, o)
}

// exportable says what a verification found, or refuses what it does not hold of.
func exportable(j *open.Job, p *planning.Planned, v *analysis.Verification, outcome *plan.Verification, o Terms) error {
	switch {
	case o.Unverified:
	case v.Verdict == analysis.VerdictNothing:
		tensors, operators := withoutIntegers(p.Set)
		if tensors+operators == 0 {
			return fault.CheckError{Err: fmt.Errorf("export: the plan changes nothing of the float model, there is nothing to verify; " +
				"nothing was written (--unverified exports it all the same)")}
		}
		j.Warn("the plan has no operator on integers (%s in fp8, in other formats without integers, or weights alone; %s in fp16 or bf16): "+
			"nothing could be verified on integers, the simulation alone stands behind the file",
			plain.Count(tensors, "quantized tensor"), plain.Count(operators, "operator"))
	case !v.Holds():
		option := ""
		if v.Profile != p.Target.Profile {
			option = "--profile " + v.Profile + " "
		}
		return Diverged("export", v, fmt.Sprintf("; nothing was written; qwb verify %s%s shows more", option, p.File))
	case v.Placed != nil && v.Placed.Device != "" && v.Placed.OnDevice == 0:
		return fault.CheckError{Err: fmt.Errorf("export: no step of the plan runs on %s, all of them ran on the processor: "+
			"nothing was verified there; nothing was written; export with --backend cpu",
			v.Placed.Device)}
	default:
		j.Note("verified on %s: %s", ByWhom(p, outcome), summary(v))
	}
	return nil
}

// ByWhom says in words on what data, by what and under whose arithmetic a verification was made.
func ByWhom(p *planning.Planned, v *plan.Verification) string {
	e := target.EngineOf(p.Plan.Platform)
	return fmt.Sprintf("%s of %s data, by %s under profile %s (%s)", plain.Count(v.Samples, "sample"), v.Data, v.Backend, v.Profile,
		e.Says(v.Profile))
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

// Stamp writes into what a format gets how a plan was verified.
func Stamp(in *export.Input, p *planning.Planned, v *plan.Verification) (err error) {
	switch {
	case v == nil:
	case analysis.Holds(v.Verdict):
		in.Verification = fmt.Sprintf("verified: %s on %s (%s) by %s", v.Verdict, plain.Count(v.Samples, "sample"), v.Data, v.Backend)
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
		s += fmt.Sprintf("; %d steps have no integer form and were simulated (%.2f %% of the %s verified)", len(v.Simulated),
			100*v.Share.Part(), v.Share.Of)
	}
	if d := v.Placed; d != nil && d.Device != "" {
		s += fmt.Sprintf("; %d of %d steps on %s", d.OnDevice, d.Steps, d.Device)
	}
	return s
}

// verifiesFirst is the error of a verification that an export could not do. Export takes no data of its own; verify does. lacks says why
// the verification in the plan does not stand.
func verifiesFirst(p *planning.Planned, lacks string, err error) error {
	held := ""
	if v := p.Plan.Verification; v != nil && analysis.Holds(v.Verdict) {
		held = " (the verification in the plan does not stand for this: " + lacks + ")"
	}
	if errors.Is(err, open.ErrNoData) {
		return fault.Usagef("export verifies the plan first, and the plan has no data of its own: run qwb verify %s --data D before, "+
			"or export with --unverified%s", p.File, held)
	}
	return fmt.Errorf("export verifies first (--unverified does without): %w%s", err, held)
}

// HeldVerdict is the verdict of the verification that a plan holds: unverified where it does not stand for the plan as it is, by whatever
// backend, and why.
func HeldVerdict(p *planning.Planned) (verdict, lacks string, err error) {
	v := p.Plan.Verification
	profile, err := p.ProfileNamed("")
	if err != nil || !analysis.Holds(v.Verdict) {
		return v.Verdict, "", err
	}
	program, err := p.Partial(profile)
	if err != nil {
		return "", "", err
	}
	if lacks, err = lacking(p, wanted{program: program, backend: v.Backend}); err != nil || lacks != "" {
		return analysis.VerdictUnverified, lacks, err
	}
	return v.Verdict, "", nil
}

func NumberText(x *float64) string {
	if x == nil {
		return "none"
	}
	return fmt.Sprintf("%g", *x)
}

// metadata is what an exported file says about its origin: the plan, and how it was verified. qwb.verification holds verdict, share and
// digest, qwb.verified the rest.
func metadata(p *planning.Planned, v *plan.Verification) ([]onnx.KeyValue, error) {
	hash, err := p.Plan.Hash()
	if err != nil {
		return nil, err
	}
	kv := []onnx.KeyValue{{Key: planning.PlanKey, Value: hash}, {Key: "qwb.platform", Value: p.Plan.Platform}}
	if v != nil {
		verdict := v.Verdict
		if v.Share != nil {
			verdict += fmt.Sprintf(" %.4f", *v.Share)
		}
		kv = append(kv, onnx.KeyValue{Key: "qwb.verification", Value: verdict + " " + v.Digest},
			onnx.KeyValue{Key: "qwb.verified", Value: v.How(engineKnown(p, v.Profile))})
	}
	return kv, nil
}
