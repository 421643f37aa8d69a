package cmd

import (
	"fmt"

	"qwb"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// feeds makes one batch of inputs for t: the first samples of the data, repeated where there are too few, or made-up ones.
func (e *Host) feeds(t *timed, d qwb.DataOptions, batch int) (map[string]*tensor.Tensor, error) {
	set, err := e.benchData(t, d, batch)
	if err != nil {
		return nil, err
	}
	samples := make([]*exec.Sample, batch)
	for i := range samples {
		if samples[i], err = set.Sample(i % set.Len()); err != nil {
			return nil, err
		}
	}
	if batch == 1 {
		return samples[0].Feeds, nil
	}
	feeds := map[string]*tensor.Tensor{}
	for _, in := range data.SpecOf(t.Graph) {
		parts := make([]*tensor.Tensor, batch)
		for i, s := range samples {
			parts[i] = s.Feeds[in.Name]
		}
		if feeds[in.Name], err = joined(parts); err != nil {
			return nil, fmt.Errorf("input %s: %w", in, err)
		}
	}
	return feeds, nil
}

// benchData opens the data given, else n made-up samples, about which there is nothing to warn of.
func (e *Host) benchData(t *timed, d qwb.DataOptions, n int) (*data.Set, error) {
	if len(d.Paths) > 0 {
		if t.plan != nil {
			d.Stored = &t.plan.Plan.Preprocess
		}
		set, _, err := e.Project("", "").OpenData(t.Graph, d.Of(t.Model))
		return set, err
	}
	spec := data.SpecOf(t.Graph)
	none, err := data.Preprocessing("none", spec, nil)
	if err != nil {
		return nil, err
	}
	set, _, err := data.Open([]string{fmt.Sprintf("synthetic:%d", n)}, spec, data.Options{Preprocess: &none})
	return set, err
}

// joined puts tensors of one type and shape behind each other along the first axis.
func joined(parts []*tensor.Tensor) (*tensor.Tensor, error) {
	first := parts[0]
	if len(first.Shape) == 0 {
		return nil, fmt.Errorf("%s has no axis for a batch", first.Type())
	}
	shape := append([]int(nil), first.Shape...)
	shape[0] *= len(parts)
	out := tensor.New(first.DType, shape...)
	for i, p := range parts {
		if p.Type() != first.Type() {
			return nil, fmt.Errorf("samples of different shapes, %s and %s, make no batch", first.Type(), p.Type())
		}
		p = p.ToRowMajor()
		switch first.DType {
		case tensor.Float32:
			place[float32](out, p, i)
		case tensor.Int64:
			place[int64](out, p, i)
		case tensor.Int32:
			place[int32](out, p, i)
		case tensor.Uint8:
			place[uint8](out, p, i)
		case tensor.Bool:
			place[bool](out, p, i)
		default:
			return nil, fmt.Errorf("inputs of type %s are not put into batches", first.DType)
		}
	}
	return out, nil
}

func place[T any](dst, part *tensor.Tensor, i int) {
	p := tensor.Of[T](part)
	copy(tensor.Of[T](dst)[i*len(p):], p)
}
