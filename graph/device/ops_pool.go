package device

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

var poolEmitters = map[string]emitter{
	"MaxPool": emitPool, "AveragePool": emitPool, "GlobalAveragePool": emitGlobalPool, "GlobalMaxPool": emitGlobalPool,
}

func emitPool(e *emission) error {
	if err := e.floats(); err != nil {
		return err
	}
	if len(e.n.Outputs) > 1 && e.n.Outputs[1] != graph.NoValue {
		return onHost("indices as an output")
	}
	x := e.shape(0)
	geo, err := graph.PoolGeometry(e.n, graph.Static(x...))
	if err != nil {
		return err
	}
	geo.Group = 1
	shape, err := window(geo, x[0], x[1], x[1])
	if err != nil {
		return err
	}
	if err := shape.Check(); err != nil {
		return onHost(err.Error())
	}
	src := e.in(0, tensor.ChannelsLast)
	dst := e.make(0, tensor.ChannelsLast)
	average, includePad := e.n.Op == "AveragePool", e.n.Pool().CountPadding
	e.launch(func(s *cuda.Stream, m *ports) error {
		if average {
			return cuda.FloatAveragePool(s, m.ptr(dst), m.ptr(src), shape, includePad)
		}
		return cuda.FloatMaxPool(s, m.ptr(dst), m.ptr(src), shape)
	}, dst, src)
	return nil
}

func emitGlobalPool(e *emission) error {
	if err := e.floats(); err != nil {
		return err
	}
	x := e.shape(0)
	if len(x) < 3 || tensor.Count(x) == 0 {
		return onHost("no positions")
	}
	src := e.in(0, tensor.ChannelsLast)
	dst := e.make(0, tensor.ChannelsLast)
	pool := cuda.FloatGlobalAverage
	if e.n.Op == "GlobalMaxPool" {
		pool = cuda.FloatGlobalMax
	}
	e.launch(func(s *cuda.Stream, m *ports) error {
		return pool(s, m.ptr(dst), m.ptr(src), x[0], tensor.Count(x[2:]), x[1])
	}, dst, src)
	return nil
}
