package cuda

import (
	"qwb/kernels/cuda/driver"
	"qwb/kernels/ref"
)

// floatPool mirrors FloatPool of float_pool.cu.
type floatPool struct {
	x, y                                          driver.Ptr
	count                                         uint32
	channels, average, includePad                 int32
	in, out, kernel, stride, dilation, begin, end [3]int32
	_                                             uint32
}

// FloatMaxPool is ref.MaxPool: x and y are channels-last, of the sizes that shape says for input and output.
func FloatMaxPool(s *Stream, y, x driver.Ptr, shape ref.ConvShape) error {
	return windowPool(s, y, x, shape, false, false)
}

// FloatAveragePool is ref.AveragePool, channels-last. With includePad the mean counts positions of the padding, as zeros.
func FloatAveragePool(s *Stream, y, x driver.Ptr, shape ref.ConvShape, includePad bool) error {
	return windowPool(s, y, x, shape, true, includePad)
}

func windowPool(stream *Stream, y, x driver.Ptr, s ref.ConvShape, average, includePad bool) error {
	if err := s.Check(); err != nil {
		return err
	}
	s = s.Full()
	if err := fits("a pool", s.N, s.D, s.H, s.W, s.C); err != nil {
		return err
	}
	if err := fits("a pool", s.N, s.OutD, s.OutH, s.OutW, s.C); err != nil {
		return err
	}
	count := s.N * s.OutD * s.OutH * s.OutW * s.C
	p := floatPool{x: x, y: y, count: uint32(count), channels: int32(s.C), average: flag(average), includePad: flag(includePad)}
	for i, v := range [7][3]int{{s.D, s.H, s.W}, {s.OutD, s.OutH, s.OutW}, {s.KD, s.KH, s.KW}, {s.StrideD, s.StrideH, s.StrideW},
		{s.DilD, s.DilH, s.DilW}, {s.PadFront, s.PadTop, s.PadLeft}, {s.PadBack, s.PadBottom, s.PadRight}} {
		to := [...]*[3]int32{&p.in, &p.out, &p.kernel, &p.stride, &p.dilation, &p.begin, &p.end}[i]
		for a := range v {
			to[a] = int32(v[a])
		}
	}
	return overElements(stream, "float_pool", "pool", count, 256, &p)
}

// floatGlobal mirrors FloatGlobal of float_pool.cu.
type floatGlobal struct {
	x, y                         driver.Ptr
	count                        uint32
	channels, positions, average int32
}

// FloatGlobalAverage is ref.GlobalAverage: of x, [n][positions][channels], the mean over positions of each image and channel.
func FloatGlobalAverage(s *Stream, y, x driver.Ptr, n, positions, channels int) error {
	return globalPool(s, y, x, n, positions, channels, true)
}

// FloatGlobalMax is the largest of all positions for every image and channel, NaN where there is one.
func FloatGlobalMax(s *Stream, y, x driver.Ptr, n, positions, channels int) error {
	return globalPool(s, y, x, n, positions, channels, false)
}

func globalPool(s *Stream, y, x driver.Ptr, n, positions, channels int, average bool) error {
	if err := fits("a pool", n, positions, channels); err != nil {
		return err
	}
	p := floatGlobal{x: x, y: y, count: uint32(n * channels), channels: int32(channels), positions: int32(positions), average: flag(average)}
	return overElements(s, "float_pool", "global_pool", n*channels, 128, &p)
}
