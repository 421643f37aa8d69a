package tune

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/internal/kind"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/observers"
)

// unfinishedGrams begins Gram statistics of a run that was interrupted: the magic, a file of the operators that are done, one of those
// under way with the samples that they have seen, and the lengths of the two (uint64, little-endian; 0: there is none). Only the same
// command, which goes on from there, reads them.
const unfinishedGrams = "qwbgrpt\x01"

// GramsResult is what tune --shard --json prints.
type GramsResult struct {
	Grams     string  `json:"grams"` // the file
	Shard     string  `json:"shard"`
	Samples   int     `json:"samples"`
	HeldOut   int     `json:"held_out"` // of them, in no sum
	Operators int     `json:"operators"`
	Passes    int     `json:"passes"` // over the data, in this run
	Seconds   float64 `json:"seconds"`
	Backend   string  `json:"backend"`
	Device    string  `json:"device,omitempty"` // what a backend other than cpu ran on
}

// Grams writes the Gram statistics of a part of the data in float.
func Grams(ctx context.Context, j *open.Job, o Options) (*GramsResult, error) {
	elapsed := j.Stopwatch()
	if o.Out == "" {
		return nil, fault.Usagef("--shard needs -o: the file of Gram statistics to write")
	}
	c, err := planning.NewChange(ctx, j, o.Threads)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c.Derivation.Stats == nil {
		return nil, fmt.Errorf("%s: Gram statistics need the range statistics of qwb calibrate, and the plan has none", c.Planned.File)
	}
	if c.Planned.Overlay != nil && len(c.Planned.Overlay.Steps) > 0 {
		return nil, fmt.Errorf("%s: tuning has rewritten the model, and Gram statistics need the original model: run qwb plan undo first",
			c.Planned.File)
	}
	set, pre, err := planning.PlanDataBy(c.Job, c.Planned, o.Data, TuneSamples)
	if err != nil {
		return nil, err
	}
	r := &gramsRun{Change: c, o: o, set: set.Shard(o.Shard.Index, o.Shard.Of), end: func() {}}
	r.head = calib.GramHead{Model: c.Planned.Digest, Shard: o.Shard.Index, Shards: o.Shard.Of, Total: set.Len()}
	if r.head.Preprocess, err = planning.PreprocessKey(pre); err != nil {
		return nil, err
	}
	if r.head.Ranges, err = c.Derivation.Stats.RangesHash(); err != nil {
		return nil, err
	}
	res := &GramsResult{Grams: o.Out, Shard: o.Shard.String(), Samples: r.set.Len(), Backend: cmp.Or(o.Backend, open.FloatCPU)}
	if res.Backend != open.FloatCPU {
		dev, err := j.Catalog.Device(res.Backend)
		if err != nil {
			return nil, fmt.Errorf("tune: %w", err)
		}
		// What the device failed with is the error of the run.
		defer func() { _ = dev.Close() }()
		res.Device, r.dev = dev.Label(), dev
		r.o.Memory = min(o.Memory, dev.MemoryBytes()/3) // its sums have twice the size
		j.Detail("tune: on %s", dev.Label())
	}
	if err := r.run(ctx, res); err != nil {
		return nil, err
	}
	res.HeldOut, res.Operators, res.Seconds = r.samples.Seen-len(r.samples.Summed), r.operators, elapsed()
	return res, nil
}

// gramsRun is one run over a part of the data, in passes.
type gramsRun struct {
	*planning.Change
	o       Options
	dev     calib.Device // nil: the processor
	set     *data.Set
	head    calib.GramHead
	samples calib.GramSamples // of a whole pass
	done    *calib.GramFile   // operators that are done; nil: none
	end     func()            // closes the file of done

	operators int // written
}

// run makes all passes and writes the file.
func (r *gramsRun) run(ctx context.Context, res *GramsResult) error {
	part, err := r.resume()
	if err != nil {
		return err
	}
	defer func() { r.end() }()
	passes, left, err := calib.GramPasses(r.Planned.Reference, r.Derivation.Stats, r.o.Memory, r.o.Threads, func(node string) bool {
		return r.done != nil && r.done.Has(node)
	})
	if err != nil {
		return err
	}
	for _, name := range left {
		r.Warn("%s: its Gram statistics take more memory than --mem gives and are left out", name)
	}
	for i, ops := range passes {
		var seen calib.GramSamples
		if i == 0 && part != nil {
			if seen.Summed, err = takeOver(ops, part); err != nil {
				return &fault.FileError{File: r.o.Out, Err: err}
			}
		}
		tick, finish := r.Progress(fmt.Sprintf("gram, pass %d of %d", i+1, len(passes)), r.set.Len())
		seen, err = calib.RunGrams(ctx, r.Planned.Reference, ops, r.set.Iterator(), seen, r.dev, r.o.Threads, tick)
		finish()
		if errors.Is(err, context.Canceled) && len(seen.Summed) > 0 {
			if saveErr := r.save(nil, ops, seen); saveErr != nil {
				return errors.Join(err, saveErr)
			}
			r.Note("interrupted in pass %d of %d. %s keeps what is done; run the same command to continue", i+1, len(passes), r.o.Out)
		}
		if err != nil {
			return r.Planned.Named("tune", err)
		}
		if r.done != nil && !slices.Equal(r.done.Summed, seen.Summed) {
			return fmt.Errorf("tune: the data changed while they were read: the samples of pass %d are not those of the passes before", i+1)
		}
		res.Passes++
		r.samples = seen
		if i+1 == len(passes) {
			_, err := store.WriteFile(r.Files(), r.o.Out, func(w io.Writer) error { return r.write(w, ops, seen) })
			return err
		}
		if err := r.save(ops, nil, calib.GramSamples{}); err != nil {
			return err
		}
		if _, err := r.resume(); err != nil { // what is done need not be kept in memory
			return err
		}
	}
	if r.done == nil {
		return fmt.Errorf("%s: no operator has Gram statistics", r.Planned.File)
	}
	_, err = store.WriteFile(r.Files(), r.o.Out, func(w io.Writer) error { return r.write(w, nil, r.samples) })
	return err
}

// write writes the operators that are done, and more.
func (r *gramsRun) write(w io.Writer, ops []*calib.GramOp, of calib.GramSamples) error {
	h := r.head
	h.Seen, h.Summed, h.Operators = of.Seen, of.Summed, len(ops)
	if r.done != nil {
		h.Operators += len(r.done.Nodes)
	}
	r.operators = h.Operators
	return calib.WriteGrams(w, &h, func(put func(string, *observers.Gram) error) error {
		if r.done != nil {
			for _, node := range r.done.Nodes {
				g, err := r.done.Gram(node)
				if err != nil {
					return err
				}
				if err := put(node, g); err != nil {
					return err
				}
			}
		}
		for _, op := range ops {
			if err := put(op.Node, op.Gram); err != nil {
				return err
			}
		}
		return nil
	})
}

// save keeps what there is: the operators that are done, with more of them, and those under way with the samples that they have seen.
func (r *gramsRun) save(more, underWay []*calib.GramOp, seen calib.GramSamples) error {
	_, err := store.WriteFile(r.Files(), r.o.Out, func(w io.Writer) error {
		var lengths []byte
		file := func(write func(io.Writer) error) error {
			n := &counted{w: w}
			err := write(n)
			lengths = binary.LittleEndian.AppendUint64(lengths, uint64(n.n))
			return err
		}
		if _, err := io.WriteString(w, unfinishedGrams); err != nil {
			return err
		}
		if err := file(func(w io.Writer) error {
			if r.done == nil && len(more) == 0 {
				return nil
			}
			of := r.samples
			if r.done != nil {
				of = calib.GramSamples{Summed: r.done.Summed, Seen: r.done.Seen}
			}
			return r.write(w, more, of)
		}); err != nil {
			return err
		}
		if err := file(func(w io.Writer) error {
			if len(underWay) == 0 {
				return nil
			}
			h := r.head
			h.Seen, h.Summed, h.Operators = len(seen.Summed), seen.Summed, len(underWay)
			return calib.WriteGrams(w, &h, func(put func(string, *observers.Gram) error) error {
				for _, op := range underWay {
					if err := put(op.Node, op.Gram); err != nil {
						return err
					}
				}
				return nil
			})
		}); err != nil {
			return err
		}
		_, err := w.Write(lengths)
		return err
	})
	return err
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// resume opens what an interrupted run of the same command left: r.done, and the operators that were under way. What is left of another run
// is passed over.
func (r *gramsRun) resume() (part *calib.GramFile, err error) {
	f, size, end, err := store.ReadAt(r.Files(), r.o.Out)
	if store.Missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	const trailer = 16
	magic, lengths := make([]byte, len(unfinishedGrams)), make([]byte, trailer)
	from := int64(len(magic))
	if size < from+trailer {
		return nil, end()
	}
	if _, err := f.ReadAt(magic, 0); err != nil || string(magic) != unfinishedGrams {
		return nil, errors.Join(err, end())
	}
	if _, err := f.ReadAt(lengths, size-trailer); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, end())
	}
	var files [2]*calib.GramFile
	for i := range files {
		n := int64(binary.LittleEndian.Uint64(lengths[8*i:]))
		if n < 0 || n > size-trailer-from {
			return nil, end()
		}
		if n == 0 {
			continue
		}
		g, err := calib.OpenGrams(io.NewSectionReader(f, from, n), n)
		if err != nil || r.head.Alike(&g.GramHead) != nil || r.head.Shard != g.Shard {
			return nil, end()
		}
		files[i], from = g, from+n
	}
	r.end() // of the one before
	r.done, r.end = files[0], func() { _ = end() }
	if files[0] != nil {
		r.samples = calib.GramSamples{Summed: files[0].Summed, Seen: files[0].Seen}
	}
	return files[1], nil
}

// takeOver gives operators the moments that they had when they were interrupted, and returns the samples that they have seen. Where other
// operators were under way nothing is taken over.
func takeOver(ops []*calib.GramOp, part *calib.GramFile) ([]calib.Hash, error) {
	if len(ops) != len(part.Nodes) {
		return nil, nil
	}
	var list []*observers.Gram
	for i, op := range ops {
		g, err := part.Gram(part.Nodes[i])
		if err != nil {
			return nil, err
		}
		if op.Node != part.Nodes[i] || !op.Fits(g) {
			return nil, nil
		}
		list = append(list, g)
	}
	for i, op := range ops {
		op.Gram = list[i]
	}
	return part.Summed, nil
}

// OpenGrams opens Gram statistics of a run that has ended.
func OpenGrams(j *open.Job, name string) (*calib.GramFile, func(), error) {
	if err := j.Check(name, "a file of Gram statistics", kind.Grams); err != nil {
		return nil, nil, err
	}
	r, size, end, err := store.ReadAt(j.Files(), name)
	if err != nil {
		return nil, nil, err
	}
	head := make([]byte, len(unfinishedGrams))
	if n, _ := r.ReadAt(head, 0); string(head[:n]) == unfinishedGrams {
		return nil, nil, errors.Join(fmt.Errorf("%s holds the Gram statistics of an interrupted run: repeat the command that was interrupted, "+
			"and it goes on from there", name), end())
	}
	f, err := calib.OpenGrams(r, size)
	if err != nil {
		return nil, nil, errors.Join(&fault.FileError{File: name, Err: err}, end())
	}
	return f, func() { _ = end() }, nil
}
