// Package samples is what is done with samples on the way to work: the first of them, one half of them, their hashes, the parts that
// outputs are judged by.
package samples

import (
	"context"
	"errors"
	"fmt"
	"io"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/internal/shard"
)

// First reads at most so many samples.
func First(ctx context.Context, it exec.Iterator, most int) (list []*exec.Sample, err error) {
	for len(list) < most {
		s, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// Halved deals samples into those to fit on and those that are held out; see exec.Halves.
func Halved(list []*exec.Sample) (fit, held []*exec.Sample) {
	halves := exec.NewHalves(hashesOf(list))
	for _, s := range list {
		if halves[s.Hash] {
			held = append(held, s)
		} else {
			fit = append(fit, s)
		}
	}
	return fit, held
}

// ReadHashes reads all samples and returns their hashes in order. See gets each of them; nil is nobody.
func ReadHashes(ctx context.Context, it exec.Iterator, see func(*exec.Sample)) (hashes [][32]byte, err error) {
	for {
		s, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return hashes, nil
		}
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, s.Hash)
		if see != nil {
			see(s)
		}
	}
}

// hashesOf returns the hashes of samples in order.
func hashesOf(list []*exec.Sample) [][32]byte {
	hashes := make([][32]byte, len(list))
	for i, s := range list {
		hashes[i] = s.Hash
	}
	return hashes
}

// AnalysisSamples is how many samples of the plan's own data an analysis takes unless told otherwise.
const AnalysisSamples = 32

// Watched shows every sample to a function before it is used.
type Watched struct {
	exec.Iterator
	See func(*exec.Sample)
}

func (w *Watched) Next(ctx context.Context) (*exec.Sample, error) {
	s, err := w.Iterator.Next(ctx)
	if err == nil {
		w.See(s)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s, err
}

// Hashes returns the hashes of the samples of runs in order.
func Hashes(r *analysis.Runs) [][32]byte {
	hashes := make([][32]byte, len(r.Samples))
	for i := range hashes {
		hashes[i] = r.Samples[i].Hash
	}
	return hashes
}

// Dealt are the samples of a data set that the run in ctx runs: all of them, those of a part, or none where parts are put together.
// ranges says that the work on a sample can be cut too: it is where there are more parts than samples.
func Dealt(ctx context.Context, set *data.Set, ranges bool) (exec.Iterator, shard.Deal) {
	d := shard.Deal{Run: shard.In(ctx), Len: set.Len()}
	if d.Run != nil && ranges && d.Len > 0 && !set.Steps() {
		d.Ranges = (d.Of + d.Len - 1) / d.Len
	}
	switch {
	case d.IsPart() && d.Ranges > 1:
		for k := range d.Len {
			if d.Range(k) >= 0 {
				d.Places = append(d.Places, k)
			}
		}
		return set.Take(d.Places).Iterator(), d
	case d.IsPart():
		d.Places = set.Places(d.Index, d.Of)
		return set.Shard(d.Index, d.Of).Iterator(), d
	case d.IsMerge():
		return &exec.InMemory{}, d
	}
	return set.Iterator(), d
}

// Part iterates over some of the samples.
type Part struct {
	exec.Iterator
	N    int // how many, at most
	Ours func(*exec.Sample) bool
}

// Len implements exec.Iterator.
func (p *Part) Len() int { return p.N }

// Next implements exec.Iterator.
func (p *Part) Next(ctx context.Context) (*exec.Sample, error) {
	for {
		s, err := p.Iterator.Next(ctx)
		if err != nil || p.Ours(s) {
			return s, err
		}
	}
}

// Head is the beginning of an iterator.
type Head struct {
	exec.Iterator
	Left int
}

// Next implements exec.Iterator.
func (h *Head) Next(ctx context.Context) (*exec.Sample, error) {
	if h.Left == 0 {
		return nil, io.EOF
	}
	h.Left--
	return h.Iterator.Next(ctx)
}

// BudgetHint says of a run that would have taken too much memory how to allow it more.
func BudgetHint(err error) error {
	if full := (*exec.MemoryError)(nil); errors.As(err, &full) {
		return fmt.Errorf("%w; --mem SIZE allows more", err)
	}
	return err
}

// VerifySamples is how many samples a verification takes unless told otherwise.
const VerifySamples = 8
