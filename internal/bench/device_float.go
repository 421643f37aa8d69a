package bench

import (
	encoding "encoding/binary"
	"fmt"
	"math"

	"qwb/kernels/cuda"
)

// deviceFloats are kernels over float32, and those that observe tensors.
func deviceFloats() []DeviceCase {
	var list []DeviceCase
	for _, z := range deviceSizes {
		n := z.n / 4
		for _, f := range []struct {
			name string
			of   cuda.FloatFunction
		}{{"relu", cuda.FloatLimit}, {"sigmoid", cuda.FloatSigmoid}, {"gelu", cuda.FloatGelu}} {
			list = append(list, moving("float "+f.name, fmt.Sprintf("n=%d", n), "fp32", z.small, 4*n, []int{4 * n},
				func(_ *DeviceWork, _ *cuda.Stream, dst cuda.Buffer,
					src []cuda.Buffer) (func(*cuda.Stream) error, error) {
					return func(s *cuda.Stream) error {
						return cuda.FloatUnary(s, f.of, dst.Ptr, src[0].Ptr, n, 0, math.MaxFloat32)
					}, nil
				}))
		}
		list = append(list, moving("float add", fmt.Sprintf("n=%d", n), "fp32", z.small, 4*n, []int{4 * n, 4 * n},
			func(_ *DeviceWork, _ *cuda.Stream, dst cuda.Buffer,
				src []cuda.Buffer) (func(*cuda.Stream) error, error) {
				f := cuda.FloatBinary{Op: cuda.FloatAdd, Sizes: []int{n}, AStep: []int{1}, BStep: []int{1}, Scale: 1}
				return func(s *cuda.Stream) error { return f.Launch(s, dst.Ptr, src[0].Ptr, src[1].Ptr) }, nil
			}), deviceExtremes(n, z.small), deviceCount(n, z.small))
	}
	for _, z := range []struct {
		rows, n int
		small   bool
	}{{20, 48, true}, {32 * 128 * 12, 768, false}} {
		list = append(list, moving("float softmax", fmt.Sprintf("rows=%d n=%d", z.rows, z.n), "fp32", z.small, 4*z.rows*z.n,
			[]int{4 * z.rows * z.n}, func(_ *DeviceWork,
				_ *cuda.Stream, dst cuda.Buffer, src []cuda.Buffer) (func(*cuda.Stream) error, error) {
				return func(s *cuda.Stream) error { return cuda.FloatSoftmax(s, dst.Ptr, src[0].Ptr, z.rows, z.n) }, nil
			}))
	}
	for _, z := range []struct {
		m, n, k int
		small   bool
	}{{24, 40, 32, true}, {1024, 1024, 1024, false}, {4096, 4096, 4096, false}, {128, 3072, 768, false}} {
		c := moving("float gemm", fmt.Sprintf("m=%d n=%d k=%d", z.m, z.n, z.k), "fp32", z.small, 4*z.m*z.n, []int{4 * z.m * z.k, 4 * z.k * z.n},
			func(_ *DeviceWork,
				_ *cuda.Stream, dst cuda.Buffer, src []cuda.Buffer) (func(*cuda.Stream) error, error) {
				p := cuda.FloatProduct{A: src[0].Ptr, B: src[1].Ptr, C: dst.Ptr, M: z.m, N: z.n, K: z.k, ARow: z.k, ACol: 1, BRow: z.n,
					BCol: 1, CRow: z.n}
				return p.Launch, nil
			})
		c.Bound, c.Ops = BoundFloat, 2*float64(z.m)*float64(z.n)*float64(z.k)
		list = append(list, c)
	}
	return append(list, deviceGroups(256, 128, 64, true), deviceGroups(4096, 4096, 64, false), deviceGroups(32000, 4096, 64, false))
}

// floats makes n float32 numbers between -1 and 1, as bytes.
func floats(n int) []byte {
	var b []byte
	for _, v := range numbers(n) {
		b = encoding.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func deviceExtremes(n int, small bool) DeviceCase {
	c := moving("observe extremes", fmt.Sprintf("n=%d", n), "fp32", small, cuda.TallyBytes(true), []int{4 * n},
		func(w *DeviceWork, s *cuda.Stream, tally cuda.Buffer,
			src []cuda.Buffer) (func(*cuda.Stream) error, error) {
			words, err := w.upload(s, 8, make([]byte, 8))
			if err != nil {
				return nil, err
			}
			shape := cuda.TallySamples{Count: 1, Size: n}
			return func(s *cuda.Stream) error {
				return cuda.ObserveExtremes(s, tally, cuda.Buffer{}, words.Slice(0, 4), words.Slice(4, 4), src[0], shape)
			}, s.Fill(tally, 0)
		})
	c.Bytes = 4 * float64(n)
	return c
}

func deviceCount(n int, small bool) DeviceCase {
	c := moving("observe counts", fmt.Sprintf("n=%d", n), "fp32", small, cuda.TallyBytes(true), []int{4 * n},
		func(w *DeviceWork, s *cuda.Stream, tally cuda.Buffer,
			src []cuda.Buffer) (func(*cuda.Stream) error, error) {
			words, err := w.upload(s, 8, make([]byte, 8))
			if err != nil {
				return nil, err
			}
			for _, step := range []func() error{
				func() error { return s.Fill(tally, 0) },
				func() error {
					return cuda.ObserveExtremes(s, tally, cuda.Buffer{}, words.Slice(0, 4), words.Slice(4, 4), src[0],
						cuda.TallySamples{Count: 1, Size: n})
				},
				func() error { return cuda.ObserveSettle(s, tally) },
			} {
				if err := step(); err != nil {
					return nil, err
				}
			}
			return func(s *cuda.Stream) error { return cuda.ObserveCount(s, tally, src[0]) }, nil
		})
	c.Bytes = 4 * float64(n)
	return c
}

// deviceGroups is a row of activations by a matrix of a language model, of 8 bits in groups.
func deviceGroups(rows, columns, size int, small bool) DeviceCase {
	n := rows * columns
	return moving("groups", fmt.Sprintf("rows=%d columns=%d group=%d", rows, columns, size), "int8", small, 4*rows,
		[]int{n, 4 * n / size, columns, 4 * columns / size},
		func(w *DeviceWork, s *cuda.Stream, dst cuda.Buffer, src []cuda.Buffer) (func(*cuda.Stream) error, error) {
			for _, scales := range []cuda.Buffer{src[1], src[3]} { // noise makes no good scales
				if err := s.Fill(scales, 0x3c); err != nil {
					return nil, err
				}
			}
			m := cuda.GroupMatrix{Codes: src[0], Scales: src[1], Rows: rows, Cols: columns, Size: size, Bits: 8}
			x := cuda.GroupRows{Codes: src[2], Scales: src[3], N: 1}
			return func(s *cuda.Stream) error { return cuda.MulGroups(s, dst, &m, x) }, s.Synchronize()
		})
}
