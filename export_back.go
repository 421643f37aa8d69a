package qwb

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/qdq"
)

// backSamples is how many samples the program of a file runs.
const backSamples = 1

// readBack reads what was written of a plan, compares every number with the plan, and refuses it where one differs. Without verification that
// is a warning.
func (j *job) readBack(ctx context.Context, f *export.Format, in *export.Input, out *export.Output, r *ExportResult, unverified bool) (err error) {
	if r.ReadBack, err = f.Equal(ctx, in, out); err == nil {
		return nil
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case unverified:
		j.warn("%v", err)
		return nil
	}
	return CheckError{fmt.Errorf("%w; nothing was written (--unverified writes it)", err)}
}

// runsBack returns what runs a graph that was read back: it is taken apart as an import does, lowered under the profile of the plan, and every tensor of
// integers that both programs have by one name and grid is compared. A graph that import does not take, and a plan of which parts have no
// integer form, are not run.
func (j *job) runsBack(p *Planned, profile qmath.Profile, o ExportOptions) func(context.Context, *graph.Graph) (int, int64, error) {
	return func(ctx context.Context, g *graph.Graph) (samples int, integers int64, err error) {
		own, err := lower.Compile(p.Graph, p.Set, p.Target, profile)
		if err != nil {
			return 0, 0, nil
		}
		if err := g.Adopt(j.Catalog.Operators); err != nil {
			return 0, 0, err
		}
		other := importedProgram(g, p, profile)
		if other == nil {
			return 0, 0, nil
		}
		set, _, err := j.verifyData(p, DataOptions{Threads: o.Threads, Samples: backSamples})
		if err != nil {
			return 0, 0, nil // no data of its own: what verified it was given some
		}
		backend, err := j.Catalog.backend("")
		if err != nil {
			return 0, 0, err
		}
		for i := range min(backSamples, set.Len()) {
			sample, err := set.Sample(i)
			if err != nil {
				return 0, 0, err
			}
			sums, err := integersOf(ctx, own, backend, sample.Feeds, o.Threads)
			if err != nil {
				return 0, 0, err
			}
			others, err := integersOf(ctx, other, backend, sample.Feeds, o.Threads)
			if err != nil {
				return 0, 0, fmt.Errorf("export: running what was written: %w", err)
			}
			by := map[[2]string]*computed{}
			for _, c := range others {
				by[[2]string{c.name, c.grid}] = c
			}
			for _, c := range sums {
				switch twin := by[[2]string{c.name, c.grid}]; {
				case twin == nil:
				case twin.sum != c.sum:
					return 0, 0, fmt.Errorf("export: the program of the file computes other integers than the plan, first in tensor %q", c.name)
				default:
					integers += int64(c.n)
				}
			}
			samples++
		}
		return samples, integers, nil
	}
}

// importedProgram is the program of a graph with pairs, nil where it is none.
func importedProgram(g *graph.Graph, p *Planned, profile qmath.Profile) *lower.Program {
	q, err := qdq.Read(g)
	if err != nil {
		return nil
	}
	im, err := q.Configure(p.Target)
	if err != nil {
		return nil
	}
	other, err := lower.Compile(im.Graph, im.Set, p.Target, profile)
	if err != nil {
		return nil
	}
	return other
}

// computed is what a step computed: a tensor of integers by name and grid.
type computed struct {
	name, grid string
	n          int
	sum        [sha256.Size]byte
}

// integersOf runs a program on a sample and returns its tensors of integers, but for those that something in float comes before: import may write it in
// another form, whose last bits are others.
func integersOf(ctx context.Context, p *lower.Program, b program.Backend, feeds map[string]*tensor.Tensor, threads int) (list []*computed, err error) {
	x, err := program.New(p, b, threads)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	behind := map[lower.TensorID]bool{}
	_, err = x.Run(ctx, feeds, func(s *lower.Step, _, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		_, float := s.Op.(*lower.Island)
		float = float || slices.ContainsFunc(s.Inputs, func(id lower.TensorID) bool { return behind[id] })
		for i, id := range s.Outputs {
			if behind[id] = float; float || id == lower.NoTensor || p.Tensors[id].Encoding == nil || i >= len(out) || out[i] == nil {
				continue
			}
			t := &p.Tensors[id]
			raw, err := binary.Append(nil, binary.LittleEndian, out[i].Data)
			if err != nil {
				return nil, err
			}
			list = append(list, &computed{t.Name, t.Encoding.String(), out[i].Len(), sha256.Sum256(raw)})
		}
		return nil, nil
	})
	return list, err
}
