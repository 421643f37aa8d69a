package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

// part is the file of one part, parts are those of several by their numbers.
type (
	part struct {
		Index int
		Bytes []byte
	}
	parts struct{ List []part }
)

var errDamaged = errors.New("damaged part")

// encodeParts writes parts in the order of their numbers: each as number, length (uvarint) and bytes.
func encodeParts(p parts) []byte {
	var b []byte
	for _, x := range p.List {
		b = binary.AppendUvarint(b, uint64(x.Index))
		b = binary.AppendUvarint(b, uint64(len(x.Bytes)))
		b = append(b, x.Bytes...)
	}
	return b
}

// decodeParts reads them; it takes no more memory than b has.
func decodeParts(b []byte) (p parts, err error) {
	for len(b) > 0 {
		i, n := binary.Uvarint(b)
		if n <= 0 || i < 1 || i > 1<<16 {
			return parts{}, errDamaged
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > maxPart || size > uint64(len(b)-n-m) {
			return parts{}, errDamaged
		}
		b = b[n+m:]
		if len(p.List) > 0 && p.List[len(p.List)-1].Index >= int(i) {
			return parts{}, errDamaged
		}
		p.List = append(p.List, part{int(i), slices.Clone(b[:size])}) // b is the runner's
		b = b[size:]
	}
	return p, nil
}

// registerAll tells Beam functions and types, which it finds by their names; every worker does it before beam.Init.
func registerAll() {
	beam.RegisterCoder(reflect.TypeFor[parts](), encodeParts, decodeParts)
	register.DoFn2x2[context.Context, int, parts, error](&doPart{})
	register.DoFn2x1[context.Context, []byte, error](&writeResult{})
	register.Combiner3[parts, parts, []byte](&mergeParts{})
}

// doPart is a DoFn: the number of a part to the part.
type doPart struct{ Spec spec }

func (d *doPart) Setup() error { return d.Spec.check() }

func (d *doPart) ProcessElement(ctx context.Context, i int) (parts, error) {
	b, err := d.Spec.do(ctx, i)
	return parts{[]part{{i, b}}}, err
}

// mergeParts is a CombineFn. What it has gathered is a set, so that neither the order nor what was done twice changes it.
type mergeParts struct{ Spec spec }

func (m *mergeParts) CreateAccumulator() parts { return parts{} }

func (m *mergeParts) AddInput(a, p parts) (parts, error) { return m.MergeAccumulators(a, p) }

func (m *mergeParts) MergeAccumulators(a, b parts) (parts, error) {
	all := parts{slices.Clone(a.List)}
	for _, p := range b.List {
		k, found := slices.BinarySearchFunc(all.List, p.Index, func(x part, i int) int { return x.Index - i })
		switch {
		case !found:
			all.List = slices.Insert(all.List, k, p)
		case !bytes.Equal(all.List[k].Bytes, p.Bytes):
			return parts{}, fmt.Errorf("part %d/%d was done twice, with different results: workers differ in model, data, processor or build",
				p.Index, m.Spec.Shards)
		}
	}
	return all, nil
}

func (m *mergeParts) ExtractOutput(a parts) ([]byte, error) {
	return m.Spec.merge(context.Background(), a.List)
}

// writeResult is a DoFn: it gives the result its name.
type writeResult struct{ Spec spec }

func (w *writeResult) ProcessElement(ctx context.Context, b []byte) error {
	return w.Spec.write(ctx, b)
}

// pipeline does the parts in so many branches.
func (s *spec) pipeline(workers int) *beam.Pipeline {
	p, scope := beam.NewPipelineWithRoot()
	numbers := make([][]int, max(1, min(workers, s.Shards)))
	for i := range s.Shards {
		k := i % len(numbers)
		numbers[k] = append(numbers[k], i+1)
	}
	var branches []beam.PCollection
	for _, list := range numbers {
		branches = append(branches, beam.ParDo(scope, &doPart{*s}, beam.Reshuffle(scope, beam.CreateList(scope, list))))
	}
	beam.ParDo0(scope, &writeResult{*s}, beam.Combine(scope, &mergeParts{*s}, beam.Flatten(scope, branches...)))
	return p
}
