package lift

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"qwb/graph/tensor"
	"qwb/graph/tflite"
	"qwb/kernels/qmath"
)

// room is how many bytes of constants are decoded: tensors may share a buffer, so that a small file can describe huge ones.
func room(tensors []tflite.Tensor) int {
	seen, n := map[*byte]bool{}, 1<<20
	for i := range tensors {
		if b := tensors[i].Data; len(b) > 0 && !seen[&b[0]] {
			seen[&b[0]] = true
			n += 64 * len(b)
		}
	}
	return n
}

// value decodes a constant.
func (l *lifter) value(t *tflite.Tensor) (*tensor.Tensor, error) {
	if l.room -= len(t.Data); l.room < 0 {
		return nil, fmt.Errorf("constant %q: constants that share their buffers are much larger than these", t.Name)
	}
	d, ok := types[t.Type]
	if !ok {
		return nil, fmt.Errorf("constant %q: %v has no type in ONNX", t.Name, t.Type)
	}
	c := tensor.New(d, slices.Clone(t.Shape)...)
	if b, ok := c.Data.([]bool); ok {
		for i := range b {
			b[i] = t.Data[i] != 0
		}
		return c, nil
	}
	if err := binary.Read(bytes.NewReader(t.Data), binary.LittleEndian, c.Data); err != nil {
		return nil, fmt.Errorf("constant %q: %w", t.Name, err)
	}
	return c, nil
}

// ints decodes a constant of integers, such as a shape or a list of axes.
func (l *lifter) ints(t *tflite.Tensor) ([]int64, error) {
	if t.Data == nil {
		return nil, fmt.Errorf("%q is computed when the model runs; only a constant can be read", t.Name)
	}
	c, err := l.value(t)
	if err != nil {
		return nil, err
	}
	if x := c.I64(); x != nil {
		return x, nil
	}
	if x := tensor.Of[int32](c); x != nil {
		out := make([]int64, len(x))
		for i, v := range x {
			out[i] = int64(v)
		}
		return out, nil
	}
	if c.Len() == 0 {
		return []int64{}, nil
	}
	return nil, fmt.Errorf("%q is %v, not integers", t.Name, t.Type)
}

// narrow makes int32 of integers of 64 bits, which biases of 16-bit activations have and ONNX has no pair for.
func narrow(name string, c *tensor.Tensor) (*tensor.Tensor, error) {
	x := c.I64()
	if x == nil {
		return c, nil
	}
	out := tensor.New(tensor.Int32, c.Shape...)
	for i, v := range x {
		if v < math.MinInt32 || v > math.MaxInt32 {
			return nil, fmt.Errorf("bias %q: element %d is %d: ONNX has no pair for more than 32 bits", name, i, v)
		}
		out.Data.([]int32)[i] = int32(v)
	}
	return out, nil
}

// lastFirst moves the last axis of c in front of the others, but for the first keep ones, and gives the result a shape: [N,H,W,C] becomes
// [N,C,H,W] with keep 1, and [H,W,C] becomes [C,H,W] with keep 0.
func lastFirst(c *tensor.Tensor, keep int, shape ...int) *tensor.Tensor {
	d := c.DType
	if d.Bits() < 8 { // packed: turned as bytes
		wide := tensor.New(tensor.Int16, c.Shape...)
		c = wide.WithIntegers(c.Integers())
	}
	n, channels := tensor.Count(c.Shape[:keep]), c.Shape[len(c.Shape)-1]
	rest := tensor.Count(c.Shape[keep : len(c.Shape)-1])
	c = (&tensor.Tensor{DType: c.DType, Layout: tensor.ChannelsLast, Shape: []int{n, channels, rest}, Data: c.Data}).ToRowMajor()
	if d != c.DType {
		c = tensor.New(d, c.Shape...).WithIntegers(c.Integers())
	}
	return &tensor.Tensor{DType: d, Shape: shape, Data: c.Data}
}

// singles are the bytes of float32 numbers of these in half precision.
func singles(half []uint16) []byte {
	b := make([]byte, 0, 4*len(half))
	for _, h := range half {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(qmath.FromHalf(h)))
	}
	return b
}
