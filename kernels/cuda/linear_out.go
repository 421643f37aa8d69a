package cuda

import (
	"fmt"

	"qwb/kernels/cuda/driver"
	"qwb/kernels/qmath"
)

// sink is where sums go: an output, or the workspace.
type sink struct {
	e      Epilogue
	output int // -1: the workspace
	at     int // there
	table  int // of multipliers, in the constants
}

// outputSink returns the sink of output i.
func (l *Linear) outputSink(g *layout, i int) (*sink, error) {
	o := &l.op.Outputs[i]
	if !o.Type.IsCode() && o.Type != Float32 {
		return nil, fmt.Errorf("cuda: an output of type %s", o.Type)
	}
	k := &sink{output: i, e: Epilogue{Stride: int64(g.allChannels), Kind: o.Type, Channels: int32(g.channels)}}
	if o.Stride != 0 {
		if k.e.Stride = int64(o.Stride); o.Stride < g.allChannels {
			return nil, fmt.Errorf("cuda: rows of %d channels, %d elements apart", g.allChannels, o.Stride)
		}
	}
	if l.op.Adds {
		if k.e.ResidualKind = l.op.Residual; !l.op.Residual.IsCode() {
			return nil, fmt.Errorf("cuda: a residual of type %s", l.op.Residual)
		}
		k.e.ResidualStride = int64(g.allChannels)
		if o.Type != Float32 && !o.Scaling.Float() {
			return nil, fmt.Errorf("cuda: a residual with %s, which adds nothing before it rounds", o.Scaling.Form)
		}
	}
	if o.Type == Float32 {
		if len(o.Channels) == 0 {
			return nil, fmt.Errorf("cuda: a real output without scales")
		}
		k.table = l.constants.add(PackChannels(o.Channels, g.allChannels))
		k.e.Accumulated = NewAccumulated(o.Channels, 0, o.Grid, o.RealLo, o.RealHi)
	} else {
		var err error
		if k.e.Requantize, err = NewRequantize(o.Scaling, o.Multipliers, 0, o.Skip, o.Zero, o.Lo, o.Hi); err != nil {
			return nil, err
		}
		k.table = l.constants.add(PackMultipliers(o.Scaling, o.Multipliers, g.allChannels))
	}
	k.e.setVector(o.Scaling, g.table)
	return k, nil
}

// workSink returns a sink for sums in the workspace, in so many slices, uncorrected.
func (l *Linear) workSink(g *layout, slices int) *sink {
	k := &sink{output: -1, e: Epilogue{Stride: int64(g.allChannels), Kind: Int32, Channels: int32(g.channels)}}
	if l.op.Wide {
		k.e.Kind = Int64
	}
	k.at = l.reserve(slices * g.allRows * g.allChannels * k.e.Kind.Size())
	k.e.setVector(qmath.Scaling{}, g.table)
	return k
}

// setVector decides whether four channels may be made at once.
func (e *Epilogue) setVector(s qmath.Scaling, parts []Part) {
	ok := e.Channels%4 == 0 && e.Stride%4 == 0 && e.ResidualStride%4 == 0 && (e.ResidualStride == 0 || e.ResidualKind.Size() == 1)
	switch e.Kind {
	case Int8, Uint8:
		ok = ok && (FormsOf(s) == OnlyScale || s.Form == qmath.DoubleUpAway || s.Form == qmath.SingleUp)
	case Int16, Uint16, Int64:
		ok = false
	}
	for _, p := range parts {
		ok = ok && p.Channel%4 == 0
	}
	if e.Vector = 0; ok {
		e.Vector = 1
	}
}

// corrections are the tables that an epilogue adds to sums with.
type corrections struct {
	correction, zeros, sums driver.Ptr
	zerosStep               int32
}

// bind returns the epilogue of a sink with its addresses.
func (k *sink) bind(a *LinearArgs, c corrections) Epilogue {
	e := k.e
	if k.output < 0 {
		e.Out = a.work(k.at)
		return e
	}
	e.Out = a.Outputs[k.output].Ptr
	if e.ResidualStride != 0 {
		e.Residual = a.Residual.Ptr
	}
	e.Requantize.Multipliers, e.Accumulated.Multipliers = a.constant(k.table), a.constant(k.table)
	e.Correction, e.Zeros, e.Sums, e.ZerosStep = c.correction, c.zeros, c.sums, c.zerosStep
	return e
}

// Finish mirrors the struct of linear.cu.
type Finish struct {
	Sums          driver.Ptr
	Parts         driver.Ptr
	Slice, Stride int64
	Slices, Rows  int32
	Width         Divisor
	_             int32
	Epilogue      Epilogue
}

// prepareOutputs returns the sink of the kernel that makes the sums, in so many slices. Where that is the workspace, it adds steps
// that make the outputs; later brings what they add to the sums.
func (l *Linear) prepareOutputs(g *layout, slices, parts int, later func(a *LinearArgs) corrections) (main *sink,
	finish func() error, err error) {
	var outs []*sink
	for i := range l.op.Outputs {
		k, err := l.outputSink(g, i)
		if err != nil {
			return nil, nil, err
		}
		outs = append(outs, k)
	}
	if len(outs) == 1 && slices == 1 {
		return outs[0], func() error { return nil }, nil
	}
	main = l.workSink(g, slices)
	entry := "finish_s32"
	if l.op.Wide {
		entry = "finish_s64"
	}
	kernel, err := l.device.Kernel("linear", entry)
	if err != nil {
		return nil, nil, err
	}
	return main, func() error {
		for _, k := range outs {
			p := Finish{Slice: int64(g.allRows) * int64(g.allChannels), Stride: int64(g.allChannels), Slices: int32(slices), Rows: int32(g.rows)}
			width := g.channels
			if main.e.Kind == Int64 {
				k.e.Vector = 0
			}
			if k.e.Vector != 0 {
				width /= 4
			}
			p.Width = DivisorOf(width)
			grid := driver.Dim{X: uint32(ceilDiv(g.rows*width, 256)), Y: 1, Z: uint32(g.parts)}
			l.steps = append(l.steps, func(s *Stream, a *LinearArgs) error {
				p.Sums, p.Parts, p.Epilogue = a.work(main.at), a.constant(parts), k.bind(a, later(a))
				return Launch(s, kernel, grid, driver.Dim{X: 256, Y: 1, Z: 1}, 0, &p)
			})
		}
		return nil
	}, nil
}
