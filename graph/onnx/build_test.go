package onnx

import (
	"bytes"
	"testing"

	"qwb/graph"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// msg builds a protobuf message by hand, so that tests do not depend on the encoder under test.
type msg []byte

func (m msg) str(num protowire.Number, s string) msg {
	return protowire.AppendString(protowire.AppendTag(m, num, protowire.BytesType), s)
}
func (m msg) int(num protowire.Number, v int64) msg {
	return protowire.AppendVarint(protowire.AppendTag(m, num, protowire.VarintType), uint64(v))
}
func (m msg) add(num protowire.Number, c msg) msg {
	return protowire.AppendBytes(protowire.AppendTag(m, num, protowire.BytesType), c)
}

// info is a ValueInfoProto of a float32 tensor.
func info(name string, dims ...int64) msg {
	shape := msg{}
	for _, d := range dims {
		shape = shape.add(1, msg{}.int(1, d))
	}
	return msg{}.str(1, name).add(2, msg{}.add(1, msg{}.int(1, 1).add(2, shape)))
}

// node is a NodeProto without attributes; outputs and inputs are names.
func node(op, name string, outputs, inputs []string) msg {
	m := msg{}
	for _, s := range inputs {
		m = m.str(1, s)
	}
	for _, s := range outputs {
		m = m.str(2, s)
	}
	if name != "" {
		m = m.str(3, name)
	}
	return m.str(4, op)
}

// floats is a TensorProto with raw_data.
func floats(name string, dims []int64, raw string) msg {
	m := msg{}
	for _, d := range dims {
		m = m.int(1, d)
	}
	return m.int(2, 1).str(8, name).str(9, raw)
}

// model is a ModelProto of opset 13, IR 8 around a graph.
func model(g msg) msg {
	return msg{}.int(1, 8).str(2, "test").add(7, g).add(8, msg{}.str(1, "").int(2, 13))
}

// read loads a model from memory.
func read(b []byte) (*Model, []graph.Warning, error) {
	return Read(bytes.NewReader(b), int64(len(b)), nil)
}

func mustRead(t testing.TB, b []byte) *Model {
	t.Helper()
	m, _, err := read(b)
	require.NoError(t, err)
	return m
}

// written returns what Write writes.
func written(t testing.TB, m *Model) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, m.Write(&out))
	return out.Bytes()
}
