package calibrate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"qwb/calib"
	"qwb/internal/kind"
	"qwb/internal/shard"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/internal/work/tune"
	"qwb/quantizer/tqc"
)

// MergeResult is what merge --json prints.
type MergeResult struct {
	File    string `json:"file"`
	Parts   int    `json:"parts"`
	Samples int    `json:"samples"`
}

// Part observes a part of the data.
func Part(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	elapsed := j.Stopwatch()
	o.Data.Memory = o.Memory / DataShare
	m, err := j.OpenNormal(j.Model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := open.Unquantized(m); err != nil {
		return nil, err
	}
	res := &Result{Stats: j.StatsFile(), Backend: o.Backend, Shard: o.Shard.String()}
	stats, err := observe(ctx, j, m, o, res)
	if err != nil {
		return nil, err
	}
	if _, err := store.WriteFile(j.Files(), res.Stats, func(w io.Writer) error {
		b := []byte(planning.ShardMagic)
		for _, n := range []int{o.Shard.Index, o.Shard.Of, res.Total} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		return stats.Write(w)
	}); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	if res.Warnings == nil {
		res.Warnings = []tqc.Warning{}
	}
	res.Samples, res.Seconds, res.PeakRSS = stats.Samples(), elapsed(), j.PeakMemory()
	return res, nil
}

// statsPart is the statistics of a part.
type statsPart struct {
	shard open.Shard
	total int
	stats *calib.Stats
}

// readPart reads the statistics of a part.
func readPart(j *open.Job, name string) (*statsPart, error) {
	r, size, end, err := store.ReadAt(j.Files(), name)
	if err != nil {
		return nil, err
	}
	defer end()
	head := make([]byte, min(size, int64(len(planning.ShardMagic)+3*binary.MaxVarintLen64)))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.HasPrefix(head, []byte(planning.ShardMagic)) {
		return nil, fmt.Errorf("%s: not a part that calibrate --shard wrote", name)
	}
	at := int64(len(planning.ShardMagic))
	var numbers [3]uint64
	for i := range numbers {
		n, used := binary.Uvarint(head[at:])
		if used <= 0 || n > 1<<40 {
			return nil, &fault.FileError{File: name, Err: calib.ErrDamaged}
		}
		numbers[i], at = n, at+int64(used)
	}
	p := &statsPart{shard: open.Shard{Index: int(numbers[0]), Of: int(numbers[1])}, total: int(numbers[2])}
	if p.shard.Index < 1 || p.shard.Index > p.shard.Of || p.shard.Of > open.MaxShards {
		return nil, &fault.FileError{File: name, Err: calib.ErrDamaged}
	}
	if p.stats, err = calib.Read(io.NewSectionReader(r, at, size-at), size-at); err != nil {
		return nil, &fault.FileError{File: name, Err: err}
	}
	return p, nil
}

// Merge puts the parts of a run together.
func Merge(ctx context.Context, j *open.Job, parts []string, out string) (*MergeResult, error) {
	head := make([]byte, len(planning.ShardMagic))
	r, _, end, err := store.ReadAt(j.Files(), parts[0])
	if err != nil {
		return nil, err
	}
	n, _ := r.ReadAt(head, 0) // a file that is too short is of another kind
	if err := end(); err != nil {
		return nil, err
	}
	switch kind.OfBytes(head[:n], int64(n)) {
	case kind.Shard:
		return mergeParts(ctx, j, parts, out)
	case kind.Grams:
		return mergeGrams(j, parts, out)
	}
	return nil, fmt.Errorf("%s: not a part that qwb calibrate --shard or qwb tune --shard wrote", parts[0])
}

// mergeParts merges parts of statistics.
func mergeParts(ctx context.Context, j *open.Job, names []string, out string) (*MergeResult, error) {
	var first *statsPart
	var all *calib.Stats
	var have []string
	for i, name := range names {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		p, err := readPart(j, name)
		if err != nil {
			return nil, err
		}
		p.stats.Sources = relocate(name, out, p.stats.Sources)
		if first == nil {
			first, all, have = p, p.stats, make([]string, p.shard.Of+1)
		} else {
			if sameRun(first, p) != nil {
				return nil, stranger(j, names, i, out)
			}
			if all, _, err = calib.Merge(all, p.stats); err != nil {
				return nil, &fault.FileError{File: name, Err: err}
			}
		}
		if other := have[p.shard.Index]; other != "" {
			return nil, fmt.Errorf("merge: %s and %s are both part %s", other, name, p.shard)
		}
		have[p.shard.Index] = name
	}
	for i, name := range have[1:] {
		if name == "" {
			return nil, fmt.Errorf("merge: part %d of %d is missing", i+1, first.shard.Of)
		}
	}
	if all.Samples() != first.total {
		return nil, fmt.Errorf("merge: the parts hold %d samples, not %d", all.Samples(), first.total)
	}
	if err := planning.SaveStats(j, all, 0, out); err != nil {
		return nil, fmt.Errorf("merge: %w", err)
	}
	return &MergeResult{File: out, Parts: len(names), Samples: all.Samples()}, nil
}

// stranger is the error of parts of which the first and another one are not of one run. Parts are read again: they may not be in memory
// together.
func stranger(j *open.Job, names []string, other int, out string) error {
	return shard.Stranger(names, other, func(a, b int) error {
		var two [2]*statsPart
		for i, at := range [2]int{a, b} {
			var err error
			if two[i], err = readPart(j, names[at]); err != nil {
				return err
			}
			two[i].stats.Sources = relocate(names[at], out, two[i].stats.Sources)
		}
		return sameRun(two[0], two[1])
	})
}

// sameRun reports why two parts cannot be of one run; nil where they can.
func sameRun(a, b *statsPart) error {
	switch x, y := a.stats, b.stats; {
	case a.shard.Of != b.shard.Of || a.total != b.total:
		return fmt.Errorf("it is one of %d parts of %d samples, not of %d parts of %d", b.shard.Of, b.total, a.shard.Of, a.total)
	case x.Model != y.Model:
		return fmt.Errorf("it is of another model (%.12s..., not %.12s...)", y.Model, x.Model)
	case x.Preprocess != y.Preprocess || x.Seed != y.Seed || !slices.Equal(x.Sources, y.Sources):
		return errors.New("its samples were taken from other data, or chosen or preprocessed differently")
	case x.HasBins() != y.HasBins() && x.Samples() > 0 && y.Samples() > 0:
		return errors.New("one of them was made with --minmax-only")
	}
	return nil
}

// mergeGrams merges parts of Gram statistics, one operator at a time.
func mergeGrams(j *open.Job, names []string, out string) (*MergeResult, error) {
	var parts []*calib.GramFile
	for _, name := range names {
		f, end, err := tune.OpenGrams(j, name)
		if err != nil {
			return nil, err
		}
		defer end()
		parts = append(parts, f)
	}
	if _, err := store.WriteFile(j.Files(), out, func(w io.Writer) error { return calib.MergeGrams(w, names, parts) }); err != nil {
		return nil, err
	}
	return &MergeResult{File: out, Parts: len(names), Samples: parts[0].Total}, nil
}
