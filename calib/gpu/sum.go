package gpu

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/cuda"
	"qwb/observers"
)

// summer sums the rows that operators read: their codes are made on the device, and only the sums leave it, at the end.
type summer struct {
	session *device.Session
	ops     map[graph.ValueID][]*sums // by what they read
	stream  *cuda.Stream              // nil before the first value
	odd     cuda.Buffer               // of one input how many codes were limited, and how many are not finite
	codes   cuda.Buffer               // of one input
}

// sums are those of one operator.
type sums struct {
	op       *calib.GramOp
	unfold   *calib.Unfold
	places   *calib.Places // nil before the first input
	shape    []int
	layout   tensor.Layout
	at, base cuda.Buffer
	offset   cuda.Buffer
	buf      cuda.Buffer
	rows     uint64
	limited  uint64
	odd      *observers.GramAdder // of inputs that are not finite: the processor sums the rows that are
}

func (s *session) Sum(ops []*calib.GramOp) calib.DeviceSummer {
	w := &summer{session: s.Session, ops: map[graph.ValueID][]*sums{}}
	for _, op := range ops {
		v := s.Graph().Node(op.ID).Inputs[0]
		w.ops[v] = append(w.ops[v], &sums{op: op})
	}
	return w
}

// Run implements calib.DeviceSummer.
func (w *summer) Run(ctx context.Context, feeds map[string]*tensor.Tensor) error {
	_, err := w.session.Run(ctx, feeds, &device.Taps{Wants: func(v graph.ValueID) bool { return w.ops[v] != nil },
		Tap: func(s *cuda.Stream, v device.Value) error {
			w.stream = s
			for _, of := range w.ops[v.ID] {
				if err := w.add(s, of, v); err != nil {
					return w.session.Graph().ErrorAt("", of.op.ID, err)
				}
			}
			return nil
		}})
	return err
}

// add puts the kernels on the stream that sum the rows of an input.
func (w *summer) add(s *cuda.Stream, of *sums, v device.Value) error {
	if v.DType != tensor.Float32 {
		return fmt.Errorf("an input of type %s", tensor.TypeString(v.DType, v.Shape))
	}
	if err := w.place(s, of, v); err != nil {
		return err
	}
	p := of.places
	if err := w.room(&w.codes, 2*p.Image); err != nil {
		return err
	}
	if err := w.room(&w.odd, 16); err != nil {
		return err
	}
	if p.Image != v.Len() {
		if err := s.Fill(w.codes, 0); err != nil {
			return err
		}
	}
	var odd [2]uint64
	if v.Len() > 0 {
		if err := s.Fill(w.odd, 0); err != nil {
			return err
		}
		if err := cuda.GramCodes(s, w.codes, w.odd, v.Buffer, of.at, p.Run, of.op.Gram.X); err != nil {
			return err
		}
		if err := s.Download(raw(odd[:]), w.odd); err != nil {
			return err
		}
	}
	if odd[1] > 0 {
		return of.addFinite(s, v)
	}
	of.rows, of.limited = of.rows+uint64(len(p.Base)), of.limited+odd[0]
	return cuda.Gram(s, of.buf, w.codes, of.base, of.offset, of.op.Gram.Groups, of.op.Gram.K)
}

// place makes ready what says where the rows of an input lie, and at first the sums.
func (w *summer) place(s *cuda.Stream, of *sums, v device.Value) (err error) {
	if of.places != nil && slices.Equal(of.shape, v.Shape) && of.layout == v.Layout {
		return nil
	}
	if of.unfold == nil {
		if of.unfold, err = calib.NewUnfold(w.session.Graph(), of.op.ID); err != nil {
			return err
		}
		n := cuda.GramSumsBytes(of.op.Gram.Groups, of.op.Gram.K)
		if of.buf, err = w.session.Device().Alloc(n); err != nil {
			return fmt.Errorf("sums of %d bytes: %w", n, err)
		}
		if err := s.Fill(of.buf, 0); err != nil {
			return err
		}
	}
	if of.places, err = of.unfold.Places(v.Shape, v.Layout); err != nil {
		return err
	}
	of.shape, of.layout = slices.Clone(v.Shape), v.Layout
	for _, b := range []struct {
		at   *cuda.Buffer
		list []int32
	}{{&of.at, of.places.At}, {&of.base, of.places.Base}, {&of.offset, of.places.Offset}} {
		w.session.Device().Free(*b.at)
		if *b.at, err = w.session.Device().Alloc(4 * len(b.list)); err != nil {
			return err
		}
		if err := s.Upload(*b.at, raw(b.list)); err != nil {
			return err
		}
	}
	return nil
}

// room makes a buffer at least so large.
func (w *summer) room(b *cuda.Buffer, bytes int) (err error) {
	if b.Bytes >= bytes {
		return nil
	}
	w.session.Device().Free(*b)
	*b = cuda.Buffer{}
	*b, err = w.session.Device().Alloc(bytes)
	return err
}

// addFinite adds the finite rows of an input that has others too.
func (of *sums) addFinite(s *cuda.Stream, v device.Value) error {
	t, err := v.Download(s)
	if err != nil {
		return err
	}
	rows, err := of.unfold.Rows(t, of.op.Gram.X, nil)
	if err != nil {
		return err
	}
	if of.odd == nil {
		of.odd = of.op.Gram.Add(kernels.Select(cpu.Detect()), nil)
	}
	if !of.odd.Rows(rows, nil) {
		return calib.ErrGramRows
	}
	return nil
}

// Finish implements calib.DeviceSummer.
func (w *summer) Finish() error {
	for _, list := range w.ops {
		for _, of := range list {
			if of.odd != nil {
				of.odd.Close()
			}
			if of.places == nil {
				continue
			}
			sums := make([]int64, of.buf.Bytes/8)
			if err := w.stream.Download(raw(sums), of.buf); err != nil {
				return err
			}
			if !of.op.Gram.AddSums(sums, of.rows, of.limited) {
				return w.session.Graph().ErrorAt("", of.op.ID, calib.ErrGramRows)
			}
		}
	}
	return nil
}

// Close implements calib.DeviceSummer.
func (w *summer) Close() {
	dev := w.session.Device()
	if w.stream != nil { // what is freed may soon be somebody else's, on another stream
		// What failed was reported before.
		_ = w.stream.Synchronize()
	}
	for _, list := range w.ops {
		for _, of := range list {
			for _, b := range []cuda.Buffer{of.at, of.base, of.offset, of.buf} {
				dev.Free(b)
			}
		}
	}
	dev.Free(w.odd)
	dev.Free(w.codes)
	w.ops = nil
}

// raw are the bytes of integers, as they lie in memory.
func raw[T int32 | int64 | uint64](list []T) []byte {
	if len(list) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), len(list)*int(unsafe.Sizeof(list[0])))
}
