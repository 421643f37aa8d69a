package weights

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync"

	"qwb/graph"
	"qwb/graph/language/checkpoint"
)

// Run says how files are written and compared.
type Run struct {
	Threads  int              // at least 1; never changes a result
	Progress func(done int64) // elements of the file that are done, in growing order; may be nil
}

func (r Run) report(done int64) {
	if r.Progress != nil {
		r.Progress(done)
	}
}

// Write writes the file. Weights that are not finite or that the encoding cannot hold are an error that names the tensor.
func (f *File) Write(ctx context.Context, w io.Writer, r Run) error {
	var scales []byte // of the tensor, where they follow the codes
	done := int64(0)
	err := f.each(ctx, r, encodePiece, func(p *piece) error {
		if p.item.Tensor == nil {
			_, err := w.Write(p.item.Bytes)
			return err
		}
		if _, err := w.Write(p.out); err != nil {
			return err
		}
		if p.item.Encoding.Type == checkpoint.Groups {
			for _, s := range p.scales {
				scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(s))
			}
		}
		done += int64(len(p.x))
		r.report(done)
		if !p.last() {
			return nil
		}
		f.Source.Forget(p.item.Tensor)
		_, err := w.Write(scales)
		scales = scales[:0]
		return err
	})
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// encodePiece makes the bytes of a piece.
func encodePiece(p *piece) error {
	it := p.item
	if !it.Encoding.Quantized() {
		out, ok := it.Encoding.floats(p.out[:0], p.x)
		p.out = out
		if !ok {
			return it.unfit()
		}
		return nil
	}
	if it.Encoding.Type == checkpoint.Packed {
		l, err := it.levels(p.x)
		if err == nil {
			p.out = l.Bytes(p.out[:0])
		}
		return err
	}
	if it.Encoding.Type.Form() != nil {
		out, err := it.blocks(p.out[:0], p.x, p.from)
		p.out = out
		return err
	}
	if err := it.quantized(p.codes, p.scales, p.x, p.from); err != nil {
		return err
	}
	p.out = it.Encoding.Pack(p.out[:0], p.codes, p.scales)
	return nil
}

// piece is some elements of an item, and the memory to work on them.
type piece struct {
	item   *Item
	from   int
	x      []float32 // the elements of the source in the file's order
	codes  []int8    // as many, where they are quantized
	scales []float32 // of whole groups
	out    []byte
	found  Comparison // by comparePiece
	// Squares of errors and of elements, where weights are quantized once more.
	off, all float64

	err  error
	done chan struct{}
}

func (p *piece) last() bool { return p.from+len(p.x) == p.item.Tensor.Len() }

// cut makes the piece n elements of an item.
func (p *piece) cut(it *Item, from, n int) {
	p.item, p.from, p.err = it, from, nil
	p.off, p.all = 0, 0
	p.x = resize(p.x, n)
	if it.Encoding.Quantized() && it.Encoding.Type.Form() == nil && it.Encoding.Type != checkpoint.Packed {
		p.codes, p.scales = resize(p.codes, n), resize(p.scales, n/it.Encoding.group())
	}
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// each calls work on the pieces of all items, on several goroutines, and then take on one, in the order of the file. Bytes are a piece
// for take alone. It ends with the first error in that order, or when ctx does.
func (f *File) each(ctx context.Context, r Run, work, take func(*piece) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()

	threads := max(r.Threads, 1)
	free := make(chan *piece, 2*threads+2)
	for range cap(free) {
		free <- &piece{done: make(chan struct{}, 1)}
	}
	todo, queue := make(chan *piece, cap(free)), make(chan *piece, cap(free))
	for range threads {
		all.Go(func() {
			for p := range todo {
				p.err = graph.Try(func() error {
					p.item.read(p.x, p.from)
					return work(p)
				})
				p.done <- struct{}{}
			}
		})
	}
	all.Go(func() {
		defer close(queue)
		defer close(todo)
		f.feed(ctx, free, todo, queue)
	})
	for p := range queue {
		select {
		case <-p.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if p.err != nil {
			return p.err
		}
		if err := take(p); err != nil {
			return err
		}
		free <- p
	}
	return ctx.Err()
}

// feed cuts the items into pieces until ctx ends.
func (f *File) feed(ctx context.Context, free, todo, queue chan *piece) {
	for i := range f.Items {
		it := &f.Items[i]
		total, step := 1, 1
		if it.Tensor != nil {
			total, step = it.Tensor.Len(), it.chunk()
			if it.Row != nil && it.Tensor.Rows == 1 {
				step = total
			}
		}
		for from := 0; from < total; from += step {
			var p *piece
			select {
			case p = <-free:
			case <-ctx.Done():
				return
			}
			if it.Tensor == nil {
				p.item, p.err = it, nil
				p.done <- struct{}{}
			} else {
				p.cut(it, from, min(step, total-from))
				todo <- p
			}
			queue <- p
		}
	}
}
