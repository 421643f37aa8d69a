package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/plan"
	"qwb/quantizer/program"
	"qwb/reports"
)

// verifySamples is how many samples a verification takes unless told otherwise.
const verifySamples = 8

// verifyOptions are the arguments of verify.
type verifyOptions struct {
	plan    string
	backend string
	profile string // empty: the platform's
	against string // folder of recorded tensors, instead of a data set
	dump    string // folder for test vectors
	// patterns is a folder for test vectors of what repeats.
	patterns string
	data     dataOptions
	threads  int
}

func newVerify(e *env) *cobra.Command {
	var f flags
	var o verifyOptions
	var page string
	c := &cobra.Command{
		Use:   "verify [PLAN]",
		Short: "Run the plan as integers and hold them against plan, simulation and recorded tensors",
		Long: `Verify lowers the plan to an integer program under an arithmetic profile and checks it in three ways.

Every number of the program (weight codes, multipliers, shifts, zero points, biases, clamps, table bytes) is derived a second time from
model and plan. Then samples are run: the backend must give the integers of the reference (rule a), and every step's integers must be
the exact values rounded, computed from the integers that the step read; where an exact value lies within a stated bound of a rounding
boundary the other neighbour is allowed and counted as a tie (rule b). How far the whole program drifts from the whole simulation is
reported.

With --backend cuda the backend is an NVIDIA GPU, and steps without a kernel are listed; ptx interprets the GPU's kernels where there is
none. Where all steps agree, whole runs are compared too.
With --against, the integers are those of another engine: DIR holds K.npy and names.json as a runtime's or a board's dump, and every
step is computed again from the tensors recorded there.

The outcome is written into the plan. Exit code 3 says that something differs.`,
		Args: atMost(1, "one plan"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := f.check(); err != nil {
				return err
			}
			if o.plan, err = findPlan(args); err != nil {
				return err
			}
			o.data, o.threads = f.dataOptions(), f.workers()
			o.data.budget = f.budget()
			v, err := e.verify(c.Context(), o)
			if err != nil {
				return err
			}
			if page != "" {
				if err := writeVerification(page, o.plan, v); err != nil {
					return err
				}
			}
			if f.json {
				err = e.printJSON(v)
			} else {
				err = reports.VerificationText(e.stdout, v)
			}
			if err == nil && !v.Holds() {
				err = checkError{fmt.Errorf("verify: %s", divergence(v))}
			}
			return err
		},
	}
	f.addData(c)
	f.addRun(c)
	f.addBudget(c)
	f.addJSON(c)
	c.Flags().StringVar(&o.backend, "backend", defaultBackend().Name, "what runs the integers: "+backends())
	c.Flags().StringVar(&o.profile, "profile", "", "arithmetic profile (default: the platform's): "+profiles())
	c.Flags().StringVar(&o.against, "against", "", "folder with the tensors of another engine: K.npy and names.json")
	c.Flags().StringVar(&o.dump, "dump", "", "write test vectors of the first sample into this folder: every step's numbers as npy and hex, program.json")
	c.Flags().StringVar(&o.patterns, "patterns", "", "write what repeats in the program into this folder, each pattern as a program with its test vectors")
	c.Flags().StringVar(&page, "html", "", "write the report as one HTML file")
	return c
}

// defaultBackend is the one behind the reference: the CPU's kernels.
func defaultBackend() program.Backend {
	list := program.Backends()
	return list[min(1, len(list)-1)]
}

func backends() string {
	var names []string
	for _, b := range program.Backends() {
		names = append(names, b.Name)
	}
	return strings.Join(names, ", ")
}

func profiles() string {
	var names []string
	for _, p := range qmath.Profiles() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// divergence is a verification that does not hold in one line.
func divergence(v *analysis.Verification) string {
	s := fmt.Sprintf("%d integers differ", v.IntegersDifferent)
	if n := len(v.Static.Faults); n > 0 {
		s = fmt.Sprintf("%d numbers of the program are not the plan's, ", n) + s
	}
	if d := v.First; d != nil {
		s += fmt.Sprintf("; first at node %q, tensor %q, element %d: %s %v, expected %v by the %s", d.Node, d.Tensor, d.Index, d.What, d.Got, d.Expected, d.ExpectedBy)
	}
	return s
}

// verify runs a verification and writes its outcome into the plan.
func (e *env) verify(ctx context.Context, o verifyOptions) (*analysis.Verification, error) {
	backend, err := knownBackend(o.backend)
	if err != nil {
		return nil, err
	}
	p, err := e.openPlan(o.plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	profile, err := p.profile(o.profile)
	if err != nil {
		return nil, err
	}
	if o.against != "" {
		return e.verifyAgainst(ctx, p, profile, o)
	}
	if err := present(backend); err != nil {
		return nil, err
	}
	v, err := e.verifyPlan(ctx, p, profile, backend, o.data)
	if err != nil {
		return nil, err
	}
	if err := p.record(v); err != nil {
		return nil, err
	}
	if o.dump != "" || o.patterns != "" {
		if err := e.dumpVectors(ctx, p, profile, o); err != nil {
			return nil, err
		}
	}
	return v, p.plan.Write(p.file)
}

// backendNamed finds a backend. One that exists but not here is a failure, another name a wrong argument.
func backendNamed(name string) (program.Backend, error) {
	b, err := knownBackend(name)
	if err != nil {
		return b, err
	}
	return b, present(b)
}

// knownBackend finds a backend, which need not be here.
func knownBackend(name string) (program.Backend, error) {
	b, err := program.BackendNamed(name)
	if err != nil {
		return b, usageError{err}
	}
	return b, nil
}

// present says why a backend is not here.
func present(b program.Backend) error {
	if b.Missing == nil {
		return nil
	}
	if err := b.Missing(); err != nil {
		return fmt.Errorf("backend %s: %w", b.Name, err)
	}
	return nil
}

// profile finds an arithmetic profile, that of the platform for an empty name.
func (p *planned) profile(name string) (qmath.Profile, error) {
	if name == "" {
		name = p.target.Profile
	}
	r, err := qmath.ProfileNamed(name)
	if err != nil {
		return r, usageError{err}
	}
	return r, nil
}

// program lowers the plan.
func (p *planned) program(profile qmath.Profile) (*lower.Program, error) {
	q, err := lower.Compile(p.Graph, p.set, p.target, profile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.file, err)
	}
	return q, nil
}

// executor prepares the plan's program under a profile, for batches of so many samples.
func (p *planned) executor(backend string, profile qmath.Profile, batch, threads int) (*program.Executor, error) {
	b, err := backendNamed(backend)
	if err != nil {
		return nil, err
	}
	g := p.Graph
	if batch > 1 {
		if g, err = graph.OpenBatch(g); err != nil {
			return nil, p.name("--batch", err)
		}
	}
	lowered, err := lower.Compile(g, p.set, p.target, profile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.file, err)
	}
	return program.New(lowered, b, threads)
}

// verifyPlan verifies on a data set, the plan's own unless one is given.
func (e *env) verifyPlan(ctx context.Context, p *planned, profile qmath.Profile, backend program.Backend, o dataOptions) (*analysis.Verification, error) {
	lowered, err := p.program(profile)
	if err != nil {
		return nil, err
	}
	for _, w := range lowered.Warnings {
		e.warn("%s", w)
	}
	set, err := e.verifyData(p, o)
	if err != nil {
		return nil, err
	}
	s, err := simulator(p.Graph, p.set, p.target)
	if err != nil {
		return nil, err
	}
	tick, finish := e.progress("verify", set.Len()*len(lowered.Steps))
	defer finish()
	start := time.Now()
	v, err := verify.Run(ctx, set.Iterator(), verify.Config{Set: p.set, Program: lowered, Backend: backend, Simulator: s,
		Threads: o.threads, Memory: o.budget, Progress: tick})
	if err != nil {
		return nil, err
	}
	v.Seconds = time.Since(start).Seconds()
	return v, nil
}

// verifyData opens what to verify on: 8 samples unless a number was asked for.
func (e *env) verifyData(p *planned, o dataOptions) (*data.Set, error) {
	if len(o.paths) == 0 {
		return e.planData(p, o, verifySamples)
	}
	if asked := o.samples; asked == 0 {
		all, _, err := e.openData(p.Graph, p.data(o))
		if err != nil {
			return nil, err
		}
		if o.samples = min(verifySamples, all.Len()); o.samples == all.Len() {
			return all, nil
		}
	}
	set, _, err := e.openData(p.Graph, p.data(o))
	return set, err
}

// record puts the outcome of a verification into the plan in memory.
func (p *planned) record(v *analysis.Verification) error {
	digest, err := p.identity(v.Profile)
	if err != nil {
		return err
	}
	p.plan.Verification = &plan.Verification{Profile: v.Profile, Backend: v.Backend, Samples: v.Samples, Verdict: v.Verdict, Digest: digest}
	return nil
}

// verified reports whether the plan holds a verification of what it is now that found nothing wrong.
func (p *planned) verified() (bool, error) {
	v := p.plan.Verification
	if v == nil || v.Profile != p.target.Profile || v.Verdict != analysis.VerdictEqual && v.Verdict != analysis.VerdictTies {
		return false, nil
	}
	digest, err := p.identity(v.Profile)
	return digest == v.Digest, err
}
