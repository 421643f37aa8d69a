package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
)

// qlinearPoolEvals are ONNX Runtime's average pools of 8-bit codes. The inputs are x, scale, zero point, and scale and zero point
// of the result; with channels_last, x and the result are [N, spatial..., C].
var qlinearPoolEvals = []evaluator{
	{op: "QLinearAveragePool", build: onRuntime(evalQLinearAveragePool)},
	{op: "QLinearGlobalAveragePool", build: onRuntime(evalQLinearGlobalAveragePool)},
}

// codePool is what both pools read of their node.
type codePool struct {
	x, out *tensor.Tensor // in logical shape, whichever way the channels lie
	gx, gy qmath.Grid
}

func (c *call) codePool() (p codePool, err error) {
	if err = c.byteCodes(0); err != nil {
		return
	}
	if p.gx, err = c.grid(c.raw(0).DType, 1, 2); err != nil {
		return
	}
	if p.gy, err = c.grid(c.raw(0).DType, 3, 4); err != nil {
		return
	}
	if p.out, err = c.out(0); err != nil {
		return
	}
	if p.x = c.in(0); len(p.x.Shape) < 3 {
		return p, fmt.Errorf("input %s has no spatial axes", p.x.Type())
	}
	if c.node.AttrInt("channels_last", 0) != 0 {
		p.x, p.out = channelsLastView(p.x), channelsLastView(p.out)
	}
	return
}

// channelsLastView shows a row-major tensor of shape [N, spatial..., C] as [N, C, spatial...].
func channelsLastView(t *tensor.Tensor) *tensor.Tensor {
	last := len(t.Shape) - 1
	shape := append([]int{t.Shape[0], t.Shape[last]}, t.Shape[1:last]...)
	return &tensor.Tensor{DType: t.DType, Layout: tensor.ChannelsLast, Shape: shape, Data: t.Data}
}

func evalQLinearAveragePool(c *call, profile qmath.Profile) error {
	p, err := c.codePool()
	if err != nil {
		return err
	}
	geo, err := graph.PoolGeometry(c.node, graph.Static(p.x.Shape...))
	if err != nil {
		return err
	}
	geo.Group = 1
	s, err := Window(geo, p.x.Shape[0], p.x.Shape[1], p.x.Shape[1])
	if err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return err
	}
	a, err := profile.PrepareAverage(p.gx, p.gy, 1, qmath.WindowMean)
	if err != nil {
		return err
	}
	s = s.Full()
	counted := c.node.Pool().CountPadding
	codes, q := p.x.Integers(), make([]int32, p.out.Len())
	c.parallel(s.N*s.C, s.OutD*s.OutH*s.OutW*s.KD*s.KH*s.KW, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			from, to := planeOf(p.x, i), planeOf(p.out, i)
			for k := range s.OutD * s.OutH * s.OutW {
				z, y, x := k/(s.OutH*s.OutW), k/s.OutW%s.OutH, k%s.OutW
				mean := a
				mean.N = s.WindowCount(z, y, x, counted)
				q[to.at(k)] = mean.AtFloat(from.sum(codes, &s, z, y, x, mean.AverageTerm))
			}
		}
	})
	packInts(p.out, q)
	return nil
}

// plane is one channel of one image: position k, counted row-major, lies at start + k*step.
type plane struct{ start, step int }

// planeOf returns plane i of all the channels of all images of t.
func planeOf(t *tensor.Tensor, i int) plane {
	s, channels := strides(t), t.Shape[1]
	return plane{i/channels*s[0] + i%channels*s[1], s[len(s)-1]}
}

func (p plane) at(k int) int { return p.start + k*p.step }

// sum adds up the terms of one window of the plane in order.
func (p plane) sum(codes []int32, s *kernels.ConvShape, z, y, x int, term func(int32) float32) (sum float32) {
	for kd := range s.KD {
		d := z*s.StrideD - s.PadFront + kd*s.DilD
		for kh := range s.KH {
			h := y*s.StrideH - s.PadTop + kh*s.DilH
			for kw := range s.KW {
				w := x*s.StrideW - s.PadLeft + kw*s.DilW
				if d >= 0 && d < s.D && h >= 0 && h < s.H && w >= 0 && w < s.W {
					sum += term(codes[p.at((d*s.H+h)*s.W+w)])
				}
			}
		}
	}
	return sum
}

func evalQLinearGlobalAveragePool(c *call, profile qmath.Profile) error {
	p, err := c.codePool()
	if err != nil {
		return err
	}
	positions := tensor.Count(p.x.Shape[2:])
	a, err := profile.PrepareAverage(p.gx, p.gy, positions, qmath.GlobalMean)
	if err != nil {
		return err
	}
	codes, q := p.x.Integers(), make([]int32, p.out.Len())
	for i := range q {
		from, sum := planeOf(p.x, i), int32(0)
		for k := range positions {
			sum += a.Term(codes[from.at(k)])
		}
		q[planeOf(p.out, i).at(0)] = a.At(sum)
	}
	packInts(p.out, q)
	return nil
}
