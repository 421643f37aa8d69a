package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/shard"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// keptBytes is what the tensors of the samples that pass together may take, and mostTogether how many samples do at most.
const (
	keptBytes    = 384 << 20
	mostTogether = 32
)

// inspection is one sample on its way through the program.
type inspection struct {
	feeds   map[string]*tensor.Tensor
	bytes   int64              // that its tensors were thought to take
	values  []*tensor.Tensor   // by tensor
	kept    [][]*tensor.Tensor // by step and output: what the reference computed
	tallies [][]*tally
	pairs   []pairCount // by entry of the program's Safety
}

// next reads the samples that pass together, until their tensors take keptBytes: none at the end of the data.
func (r *runner) next(ctx context.Context, samples exec.Iterator) ([]*inspection, error) {
	var list []*inspection
	for room := r.room; (len(list) == 0 || room > 0) && len(list) < mostTogether; {
		s, err := samples.Next(ctx)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		bytes := r.bytesOf(s)
		if r.room == 0 {
			if err := r.fit(ctx, s, bytes); err != nil {
				return nil, err
			}
			room = r.room
		}
		if r.taken > 0 {
			room -= int64(float64(bytes) * r.taken)
		} else {
			room -= bytes
		}
		list = append(list, &inspection{feeds: s.Feeds, bytes: bytes, values: make([]*tensor.Tensor, len(r.program.Tensors)),
			kept: make([][]*tensor.Tensor, len(r.program.Steps)), tallies: r.newTallies(), pairs: make([]pairCount, len(r.pairs))})
	}
	return list, nil
}

// fit refuses what does not fit into memory, judged by the first sample, and says what the tensors of several may take.
func (r *runner) fit(ctx context.Context, s *exec.Sample, bytes int64) error {
	fits := func(bytes int64) error {
		_, _, err := exec.Fit(ctx, r.program.Graph, s.Feeds, exec.Work{Extra: bytes}, 0)
		return err
	}
	if err := fits(0); err != nil {
		return err
	}
	for r.room = keptBytes; r.room > bytes && fits(r.room) != nil; {
		r.room /= 2
	}
	r.room = max(1, r.room)
	return nil
}

// bytesOf is about what the tensors of a sample take: open dimensions are those of the inputs of that name, or the largest open one of an
// input. What samples before have taken says how far that is off.
func (r *runner) bytesOf(s *exec.Sample) int64 {
	sizes, largest := map[string]int64{}, int64(1)
	for _, id := range r.program.Inputs {
		in := &r.program.Tensors[id]
		t := s.Feeds[in.Name]
		for i, d := range in.Shape {
			if t == nil || i >= len(t.Shape) || d.Known() {
				continue
			}
			n := int64(t.Shape[i])
			sizes[d.Symbol], largest = n, max(largest, n)
		}
	}
	delete(sizes, "")
	var all int64
	for i := range r.program.Steps {
		for _, id := range r.program.Steps[i].Outputs {
			if id == lower.NoTensor {
				continue
			}
			t := &r.program.Tensors[id]
			n := int64(t.DType.Bits())
			for _, d := range t.Shape {
				switch size, named := sizes[d.Symbol]; {
				case d.Known():
					n *= max(int64(d.N), 1)
				case named:
					n *= max(size, 1)
				default:
					n *= largest
				}
				n = min(n, 1<<40)
			}
			all += n / 8
		}
	}
	return all
}

// measure compares what samples were thought to take with what they took.
func (r *runner) measure(list []*inspection) {
	var thought, took int64
	for _, x := range list {
		thought += x.bytes
		for _, outs := range x.kept {
			for _, t := range outs {
				if t != nil {
					took += int64(t.DType.Bytes(t.Len()))
				}
			}
		}
	}
	r.taken = float64(took) / float64(max(thought, 1))
}

// inspect runs samples through everything: the program step by step, then what follows from all integers of each.
func (r *runner) inspect(ctx context.Context, list []*inspection) error {
	if len(list) == 0 {
		return nil
	}
	for _, x := range list {
		feeds, err := program.Feeds(r.program, x.feeds)
		if err != nil {
			return err
		}
		for i := range r.program.Tensors {
			x.values[i] = r.program.Tensors[i].Const
		}
		for i, id := range r.program.Inputs {
			x.values[id] = feeds[i]
		}
	}
	for i := range r.program.Steps {
		if err := r.inspectStep(ctx, &r.program.Steps[i], list); err != nil {
			return err
		}
	}
	r.measure(list)
	for k, x := range list {
		if err := r.conclude(ctx, x); err != nil {
			return err
		}
		list[k] = nil // its tensors are not needed any more
	}
	return nil
}

// inspectStep computes one step of all samples by the reference and holds it to its exact values: rule (b). Samples share the threads;
// where there are fewer of them, so do the loops within.
func (r *runner) inspectStep(ctx context.Context, s *lower.Step, list []*inspection) error {
	workers := min(r.threads, len(list))
	each := max(r.threads/workers, 1)
	var kernel program.Kernel
	c := &computer{ctx: ctx, threads: each, step: &prepared{}}
	defer program.Forget(r.program, s)
	op := r.operations[s.ID]
	err := inParallel(r.threads, 2, func(i int) (err error) { // what is made of the weights, once for each side
		if i == 0 {
			if kernel, err = program.NewKernel(r.program, s, each); err != nil {
				return program.StepError(r.program, s, err)
			}
			return nil
		}
		if l, ok := op.(*linear); ok {
			_, pairs := r.counted[s.ID]
			c.step.prepare(l, pairs)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return inParallel(workers, len(list), func(i int) error {
		defer r.tick()
		return r.step(c, kernel, s, list[i])
	})
}

// step is inspectStep for one sample.
func (r *runner) step(c *computer, kernel program.Kernel, s *lower.Step, x *inspection) error {
	in := make([]*tensor.Tensor, len(s.Inputs))
	for i, id := range s.Inputs {
		in[i] = x.values[id]
	}
	out, err := kernel.Run(c.ctx, r.program, s, in)
	if err != nil {
		return err
	}
	if op := r.operations[s.ID]; op != nil {
		expected, err := r.expect(op, c, in)
		if err != nil {
			return program.StepError(r.program, s, err)
		}
		for k, e := range expected {
			if t := x.tallies[s.ID][k]; e != nil && t != nil {
				t.compare(e, out[k])
			}
		}
		if l, ok := op.(*linear); ok && c.step.pairs != nil {
			at := r.counted[s.ID]
			if err := l.countPairs(c, in[0], r.program.Safety[at].Pairs, &x.pairs[at]); err != nil {
				return program.StepError(r.program, s, err)
			}
		}
	}
	for k, id := range s.Outputs {
		if id == lower.NoTensor {
			out[k] = nil
			continue
		}
		x.values[id] = out[k]
	}
	x.kept[s.ID] = out
	return nil
}

// conclude is what follows from all integers of a sample, at the same time: the digest, the backend (rule a), the free-running simulation
// (rule c).
func (r *runner) conclude(ctx context.Context, x *inspection) error {
	f := findings{Pairs: x.pairs}
	outs := make([]*tensor.Tensor, len(r.program.Outputs))
	for i, id := range r.program.Outputs {
		if outs[i] = x.values[id]; outs[i] == nil {
			return fmt.Errorf("run: output %q was not computed", r.program.Tensors[id].Name)
		}
		f.Suspect = f.Suspect || infinite(outs[i])
	}
	parts := []func() error{
		func() error {
			f.Digest = r.digest.of(x.kept)
			r.cfg.Sums.add(r.program, x.kept, outs)
			return nil
		},
		func() error { return r.sameBackend(ctx, x, outs) },
		func() error { return r.drifts(ctx, x, outs, &f) },
	}
	if err := inParallel(r.threads, len(parts), func(i int) error { return parts[i]() }); err != nil {
		return err
	}
	for i := range x.tallies {
		f.Counts = append(f.Counts, make([]*counts, len(x.tallies[i])))
		for k, t := range x.tallies[i] {
			if t != nil {
				f.Counts[i][k] = &t.counts
			}
		}
	}
	f.Suspect = f.Suspect || r.session != nil && len(r.cfg.Simulator.Infinite()) > 0
	return r.keep(&f)
}

// drifts compares the outputs of a sample with those of the free-running simulation.
func (r *runner) drifts(ctx context.Context, x *inspection, outs []*tensor.Tensor, f *findings) error {
	if r.session == nil {
		return nil
	}
	simulated, err := r.session.Run(ctx, x.feeds, r.hooks)
	if err != nil {
		return err
	}
	f.Drift = make([]driftMeter, len(r.drift))
	for k := range f.Drift {
		f.Drift[k].add(simulated[k], outs[k])
	}
	return nil
}

// findings are what one sample showed: plain data.
type findings struct {
	Digest  sampleDigest
	Counts  [][]*counts // by step and output, nil where nothing is compared
	Pairs   []pairCount // by entry of the program's Safety
	Drift   []driftMeter
	Suspect bool // see runner
}

// keep adds a sample to those before it, or keeps it as it is in a part of a run.
func (r *runner) keep(f *findings) error {
	d := &r.cfg.Deal
	if !d.IsPart() {
		r.add(f)
		return nil
	}
	_, err := shard.Unit(d.Run, unit(d.Places[r.concluded]), true, func() (*findings, error) { return f, nil })
	r.concluded++
	return err
}

func unit(place int) string { return fmt.Sprintf("verify, sample %d", place) }

// add adds a sample to those before it.
func (r *runner) add(f *findings) {
	r.digest.add(&f.Digest)
	for i := range r.tallies {
		for k, t := range r.tallies[i] {
			if t != nil {
				t.add(f.Counts[i][k])
			}
		}
	}
	for i := range r.pairs {
		r.pairs[i].sums += f.Pairs[i].sums
		r.pairs[i].saturated += f.Pairs[i].saturated
		r.pairs[i].affected += f.Pairs[i].affected
	}
	for k := range f.Drift {
		r.drift[k].join(&f.Drift[k])
	}
	r.suspect = r.suspect || f.Suspect
}

// gather adds the samples of all parts of a run.
func (r *runner) gather() (*analysis.Verification, error) {
	for i := range r.cfg.Deal.Len {
		f, err := shard.Unit[*findings](r.cfg.Deal.Run, unit(i), false, nil)
		if err != nil {
			return nil, err
		}
		if !r.holds(f) {
			return nil, fmt.Errorf("merge: %s is of another program", unit(i))
		}
		r.add(f)
	}
	return r.verdict(r.cfg.Deal.Len)
}

// holds reports whether findings are as many as the program has steps and outputs.
func (r *runner) holds(f *findings) bool {
	if f == nil || len(f.Counts) != len(r.tallies) || len(f.Pairs) != len(r.pairs) || len(f.Drift) != len(r.drift) {
		return false
	}
	for i, list := range f.Counts {
		if len(list) != len(r.tallies[i]) {
			return false
		}
		for k, c := range list {
			if (c == nil) != (r.tallies[i][k] == nil) {
				return false
			}
		}
	}
	return true
}

// infinite reports whether an output holds NaN or infinite numbers.
func infinite(t *tensor.Tensor) bool {
	return t.DType == tensor.Float32 && slices.ContainsFunc(t.F32(), func(v float32) bool { return v-v != 0 })
}

// inParallel calls f for every i in [0, n) by up to so many goroutines, and returns the error of the first i that has one.
func inParallel(workers, n int, f func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool // then no further i is begun; all before the one that failed have been
	work := func() {
		for !failed.Load() {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if errs[i] = graph.Try(func() error { return f(i) }); errs[i] != nil {
				failed.Store(true)
			}
		}
	}
	var group sync.WaitGroup
	for range min(workers, n) - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
