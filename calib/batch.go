package calib

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"unsafe"

	"qwb/graph"
	"qwb/graph/tensor"
)

// names quotes the names of a group of samples.
func names(group []job) string {
	var list []string
	for _, j := range group {
		list = append(list, fmt.Sprintf("%q", j.sample.Name))
	}
	return strings.Join(list, ", ")
}

// batch is a group of samples that are run together.
type batch struct {
	group []job
	feeds map[string]*tensor.Tensor // nil as long as nobody has stacked them
	err   error
}

// batch returns a group to hand to a worker. A device works while the next inputs are put together; the processor's workers do that
// themselves.
func (r *run) batch(group ...job) *batch {
	b := &batch{group: group}
	if r.device != nil {
		b.feeds, b.err = stack(group)
	}
	return b
}

// stacked returns the inputs of all samples as one.
func (b *batch) stacked() (map[string]*tensor.Tensor, error) {
	if b.feeds == nil && b.err == nil {
		b.feeds, b.err = stack(b.group)
	}
	return b.feeds, b.err
}

// stack joins the inputs of several samples along axis 0. One sample's inputs are returned as they are.
func stack(group []job) (map[string]*tensor.Tensor, error) {
	first := group[0].sample.Feeds
	if len(group) == 1 {
		return first, nil
	}
	feeds := make(map[string]*tensor.Tensor, len(first))
	for _, name := range slices.Sorted(maps.Keys(first)) {
		parts := make([]*tensor.Tensor, len(group))
		for i, j := range group {
			t := j.sample.Feeds[name]
			if t == nil || len(t.Shape) == 0 || t.DType != first[name].DType || !slices.Equal(t.Shape, first[name].Shape) {
				return nil, fmt.Errorf("input %q has not the same type and shape in all samples", name)
			}
			parts[i] = t.ToRowMajor()
		}
		t, err := tensor.Join(parts)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
		feeds[name] = t
	}
	return feeds, nil
}

// slice returns what belongs to sample k of n: part k of the first axis, in t's memory and layout.
func slice(t *tensor.Tensor, k, n int) (*tensor.Tensor, error) {
	if n == 1 {
		return t, nil
	}
	if len(t.Shape) == 0 || t.Shape[0]%n != 0 {
		return nil, fmt.Errorf("%s does not fall into %d samples", t.Type(), n)
	}
	shape := slices.Clone(t.Shape)
	shape[0] /= n
	size := tensor.Count(shape)
	return &tensor.Tensor{DType: t.DType, Layout: t.Layout, Shape: shape, Data: t.F32()[k*size : (k+1)*size]}, nil
}

// tryBatch runs a batch, and its samples one at a time, and reports the first float tensor of which a sample's part differs in
// any bit: then the graph mixes the samples of a batch, or does not take one.
func (r *run) tryBatch(ctx context.Context, w worker, group []job) error {
	feeds, err := stack(group)
	if err != nil {
		return err
	}
	seed := maphash.MakeSeed()
	together, err := r.signatures(ctx, w, seed, feeds, len(group))
	if err != nil {
		return err
	}
	for k, j := range group {
		alone, err := r.signatures(ctx, w, seed, j.sample.Feeds, 1)
		if err != nil {
			return err
		}
		for v, part := range alone {
			if part != nil && (together[v] == nil || part[0] != together[v][k]) {
				return fmt.Errorf("tensor %q: it depends on the other samples of a batch", r.g.Value(graph.ValueID(v)).Name)
			}
		}
	}
	return nil
}

// signatures runs the graph on n samples and returns, for each float tensor, a number for each sample's part: the same where shape and
// all bits are the same. Keeping them takes little memory, whatever the tensors take.
func (r *run) signatures(ctx context.Context, w worker, seed maphash.Seed, feeds map[string]*tensor.Tensor, n int) ([][]uint64, error) {
	list := make([][]uint64, len(r.trackers))
	err := w.all(ctx, feeds, func(v graph.ValueID, t *tensor.Tensor) error {
		for k := range n {
			part, err := slice(t, k, n)
			if err != nil {
				return fmt.Errorf("tensor %q: %w", r.g.Value(v).Name, err)
			}
			var h maphash.Hash
			h.SetSeed(seed)
			fmt.Fprintln(&h, part.Shape)
			data := part.ToRowMajor().F32()
			h.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), 4*len(data)))
			list[v] = append(list[v], h.Sum64())
		}
		return nil
	})
	return list, err
}
