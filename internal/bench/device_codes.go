package bench

import (
	"fmt"

	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
)

// deviceSizes are the numbers of elements of kernels that only move memory: more than fits into any cache, and few for devices that are
// emulated.
var deviceSizes = []struct {
	n     int
	small bool
}{{5000, true}, {1 << 28, false}}

// deviceCodes are kernels over codes of 8 bits.
func deviceCodes() []DeviceCase {
	var list []DeviceCase
	for _, z := range deviceSizes {
		n := z.n
		one := func(kind string, out, in cuda.Element,
			prepare func(w *DeviceWork, s *cuda.Stream, dst, src cuda.Buffer) (func(*cuda.Stream) error, error)) {
			list = append(list, moving(kind, fmt.Sprintf("n=%d", n), "int8", z.small, n*out.Size(), []int{n * in.Size()},
				func(w *DeviceWork, s *cuda.Stream,
					dst cuda.Buffer, src []cuda.Buffer) (func(*cuda.Stream) error, error) {
					return prepare(w, s, dst, src[0])
				}))
		}
		one("table", cuda.Int8, cuda.Uint8, func(w *DeviceWork, s *cuda.Stream, dst, src cuda.Buffer) (func(*cuda.Stream) error, error) {
			table, err := w.upload(s, 256, noise(256))
			return func(s *cuda.Stream) error {
				return cuda.MapCodes(s, dst, src, cuda.Int8, cuda.Uint8, cuda.Lines{N: n}, table)
			}, err
		})
		one("clamp", cuda.Int8, cuda.Int8, func(w *DeviceWork, s *cuda.Stream, dst, src cuda.Buffer) (func(*cuda.Stream) error, error) {
			return func(s *cuda.Stream) error {
				return cuda.ClampCodes(s, dst, src, cuda.Int8, cuda.Lines{N: n}, -100, 100)
			}, nil
		})
		one("quantize", cuda.Int8, cuda.Float32, func(w *DeviceWork, s *cuda.Stream, dst, src cuda.Buffer) (func(*cuda.Stream) error, error) {
			q, err := cuda.QuantizerOf(qmath.Quantizer{Grid: deviceGrid(0.02)})
			return func(s *cuda.Stream) error { return cuda.QuantizeCodes(s, dst, src, cuda.Int8, n, q, cuda.Buffer{}) }, err
		})
		one("dequantize", cuda.Float32, cuda.Int8, func(w *DeviceWork, s *cuda.Stream, dst, src cuda.Buffer) (func(*cuda.Stream) error, error) {
			return func(s *cuda.Stream) error { return cuda.DequantizeCodes(s, dst, src, cuda.Int8, n, 3, 0.02) }, nil
		})
		for _, profile := range []string{"trt", "tflite2"} {
			list = append(list, devicePair("add", profile, n, z.small), devicePair("multiply", profile, n, z.small))
		}
	}
	return append(list, deviceImages("small", 2, 9, 32, true), deviceMeans(2, 7, 64, true), deviceTurn(2, 16, 50, true),
		deviceSoftmax(40, 33, true),
		deviceImages("resnet50", 256, 112, 64, false), deviceMeans(256, 7, 2048, false), deviceTurn(256, 64, 112*112, false),
		deviceSoftmax(32*12*128, 128, false))
}

// moving is a case that is bounded by bandwidth: it reads buffers of so many bytes, full of noise, and writes one.
func moving(kind, shape, mode string, small bool, out int, in []int,
	prepare func(w *DeviceWork, s *cuda.Stream, dst cuda.Buffer, src []cuda.Buffer) (
		func(*cuda.Stream) error, error)) DeviceCase {
	c := DeviceCase{Kind: kind, Shape: shape, Mode: mode, Small: small, Bound: BoundCopy, Bytes: float64(out)}
	for _, n := range in {
		c.Bytes += float64(n)
	}
	c.Prepare = func(s *cuda.Stream) (w *DeviceWork, err error) {
		w = &DeviceWork{device: s.Device}
		defer func() {
			if err != nil {
				w.Close()
				w = nil
			}
		}()
		dst, err := w.alloc(out)
		if err != nil {
			return w, err
		}
		src := make([]cuda.Buffer, len(in))
		for i, n := range in {
			pattern := noise(min(n, 1<<20))
			if mode == "fp32" || kind == "quantize" {
				pattern = floats(min(n/4, 1<<18))
			}
			if src[i], err = w.upload(s, n, pattern); err != nil {
				return w, err
			}
		}
		w.Run, err = prepare(w, s, dst, src)
		return w, err
	}
	return c
}

// deviceGrid is a grid of int8 codes.
func deviceGrid(scale float32) qmath.Grid {
	return qmath.Grid{Scale: scale, ZeroPoint: 3, QMin: -128, QMax: 127}
}

func devicePair(kind, profile string, n int, small bool) DeviceCase {
	return moving(kind, fmt.Sprintf("%s n=%d", profile, n), "int8", small, n, []int{n, n},
		func(_ *DeviceWork, _ *cuda.Stream, dst cuda.Buffer, src []cuda.Buffer) (
			func(*cuda.Stream) error, error) {
			p, err := qmath.ProfileNamed(profile)
			if err != nil {
				return nil, err
			}
			to, err := cuda.NewBroadcast([]int{n}, []int{n}, []int{n})
			if err != nil {
				return nil, err
			}
			a, b := cuda.Operand{Codes: src[0], Type: cuda.Int8}, cuda.Operand{Codes: src[1], Type: cuda.Int8}
			if kind == "multiply" {
				product, err := p.PrepareProduct(deviceGrid(0.02), deviceGrid(0.03), deviceGrid(0.04))
				if err != nil {
					return nil, err
				}
				args, err := cuda.ProductOf(product)
				return func(s *cuda.Stream) error { return cuda.MultiplyCodes(s, dst, cuda.Int8, a, b, &to, args) }, err
			}
			sum, err := p.PrepareSum(deviceGrid(0.02), deviceGrid(0.03), deviceGrid(0.04), false)
			if err != nil {
				return nil, err
			}
			args, err := cuda.SumOf(sum)
			return func(s *cuda.Stream) error { return cuda.AddCodes(s, dst, cuda.Int8, a, b, &to, args) }, err
		})
}

// deviceImages is the largest of 3x3 codes, two steps apart, as in front of ResNets.
func deviceImages(network string, images, h, c int, small bool) DeviceCase {
	out := (h + 1) / 2
	return moving("maxpool", fmt.Sprintf("%s n=%d h=%d c=%d k=3 stride=2", network, images, h, c), "int8", small, images*out*out*c,
		[]int{images * h * h * c},
		func(_ *DeviceWork, _ *cuda.Stream, dst cuda.Buffer, src []cuda.Buffer) (func(*cuda.Stream) error, error) {
			w, err := cuda.NewWindow([]int{h, h}, []int{out, out}, []int{3, 3}, []int{2, 2}, []int{1, 1}, []int{1, 1}, []int{1, 1})
			return func(s *cuda.Stream) error { return cuda.MaxPoolCodes(s, dst, src[0], cuda.Int8, images, c, w, -128) }, err
		})
}

// deviceMeans is the mean over whole pictures.
func deviceMeans(images, h, c int, small bool) DeviceCase {
	return moving("mean", fmt.Sprintf("n=%d h=%d c=%d", images, h, c), "int8", small, images*c, []int{images * h * h * c},
		func(w *DeviceWork, s *cuda.Stream,
			dst cuda.Buffer, src []cuda.Buffer) (func(*cuda.Stream) error, error) {
			p, err := qmath.ProfileNamed("tflite2")
			if err != nil {
				return nil, err
			}
			mean, err := p.PrepareAverage(deviceGrid(0.02), deviceGrid(0.02), h*h, qmath.GlobalMean)
			if err != nil {
				return nil, err
			}
			raw := cuda.PackAverages(h*h, h*h, func(int) *qmath.Average { return &mean })
			table, err := w.upload(s, len(raw), raw)
			if err != nil {
				return nil, err
			}
			args, err := cuda.AverageOf(&mean, table.Ptr, h*h, 0)
			return func(s *cuda.Stream) error {
				return cuda.MeanCodes(s, dst, src[0], cuda.Int8, cuda.Int8, []int{images, h, h, c}, []int{1, 2}, args)
			}, err
		})
}

// deviceTurn brings planes channels-last.
func deviceTurn(images, channels, positions int, small bool) DeviceCase {
	n := images * channels * positions
	return moving("transpose", fmt.Sprintf("n=%d rows=%d columns=%d", images, channels, positions), "int8", small, n, []int{n},
		func(_ *DeviceWork, _ *cuda.Stream,
			dst cuda.Buffer, src []cuda.Buffer) (func(*cuda.Stream) error, error) {
			return func(s *cuda.Stream) error {
				return cuda.TurnCodes(s, dst, src[0], cuda.Int8, images, channels, positions)
			}, nil
		})
}

// deviceSoftmax is that of the attention of BERT.
func deviceSoftmax(rows, n int, small bool) DeviceCase {
	return moving("softmax", fmt.Sprintf("tflite2 rows=%d n=%d", rows, n), "int8", small, rows*n, []int{rows * n},
		func(w *DeviceWork, s *cuda.Stream, dst cuda.Buffer,
			src []cuda.Buffer) (func(*cuda.Stream) error, error) {
			p, err := qmath.ProfileNamed("tflite2")
			if err != nil {
				return nil, err
			}
			m, err := p.PrepareSoftmax(deviceGrid(0.05), qmath.Grid{Scale: 1.0 / 256, ZeroPoint: -128, QMin: -128, QMax: 127}, n)
			if err != nil {
				return nil, err
			}
			table := cuda.Buffer{}
			if raw := cuda.PackSoftmax(&m); raw != nil {
				if table, err = w.upload(s, len(raw), raw); err != nil {
					return nil, err
				}
			}
			args := cuda.SoftmaxOf(&m, table.Ptr)
			return func(s *cuda.Stream) error {
				return cuda.SoftmaxCodes(s, dst, src[0], cuda.Int8, cuda.Int8, rows, n, 1, args)
			}, nil
		})
}
