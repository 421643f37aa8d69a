package onnx

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph/tensor"
)

// packed is a length-delimited field: raw_data, or a packed list of numbers.
func packed(num protowire.Number, b string) msg { return msg{}.str(num, b) }

// TestReadTensorEncodings reads the same elements from every field that may hold them. The bytes were written by hand after
// onnx.proto.
func TestReadTensorEncodings(t *testing.T) {
	cases := []struct {
		what  string
		dtype int64
		dims  []int64
		data  msg
		want  any
	}{
		{"f32 raw", 1, []int64{2}, packed(9, "\x00\x00\x80\x3f\x00\x00\x00\xc0"), []float32{1, -2}},
		{"f32 packed", 1, []int64{2}, packed(4, "\x00\x00\x80\x3f\x00\x00\x00\xc0"), []float32{1, -2}},
		{"f32 one by one", 1, []int64{2}, msg("\x25\x00\x00\x80\x3f\x25\x00\x00\x00\xc0"), []float32{1, -2}},
		{"f32 packed in two pieces", 1, []int64{2}, msg("\x22\x04\x00\x00\x80\x3f\x22\x04\x00\x00\x00\xc0"), []float32{1, -2}},
		{"f32 scalar", 1, nil, packed(9, "\x00\x00\x80\x3f"), []float32{1}},
		{"f32 empty", 1, []int64{0, 7}, nil, []float32{}},
		{"f32 empty raw", 1, []int64{3, 0}, packed(9, ""), []float32{}},
		{"f64 raw", 11, []int64{1}, packed(9, "\x00\x00\x00\x00\x00\x00\xf0\x3f"), []float64{1}},
		{"f64 packed", 11, []int64{1}, packed(10, "\x00\x00\x00\x00\x00\x00\xf0\x3f"), []float64{1}},
		{"f64 one by one", 11, []int64{1}, msg("\x51\x00\x00\x00\x00\x00\x00\xf0\x3f"), []float64{1}},
		{"i8 raw", 3, []int64{2}, packed(9, "\x01\xff"), []int8{1, -1}},
		{"i8 in int32_data", 3, []int64{2}, packed(5, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), []int8{1, -1}},
		{"u8 in int32_data", 2, []int64{2}, packed(5, "\x01\xff\x01"), []uint8{1, 255}},
		{"i16 raw", 5, []int64{1}, packed(9, "\xfe\xff"), []int16{-2}},
		{"i16 in int32_data", 5, []int64{1}, packed(5, "\x07"), []int16{7}},
		{"u16 in int32_data", 4, []int64{1}, packed(5, "\xff\xff\x03"), []uint16{65535}},
		{"i32 raw", 6, []int64{1}, packed(9, "\xfd\xff\xff\xff"), []int32{-3}},
		{"i32 one by one", 6, []int64{2}, msg("\x28\x05\x28\x06"), []int32{5, 6}},
		{"i64 raw", 7, []int64{1}, packed(9, "\xfd\xff\xff\xff\xff\xff\xff\xff"), []int64{-3}},
		{"i64 packed", 7, []int64{2}, packed(7, "\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), []int64{5, -1}},
		{"u32 in uint64_data", 12, []int64{1}, packed(11, "\xff\xff\xff\xff\x0f"), []uint32{math.MaxUint32}},
		{"u64 in uint64_data", 13, []int64{1}, packed(11, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), []uint64{math.MaxUint64}},
		{"bool raw", 9, []int64{3}, packed(9, "\x00\x01\x02"), []bool{false, true, true}},
		{"bool in int32_data", 9, []int64{2}, packed(5, "\x01\x00"), []bool{true, false}},
		{"string", 8, []int64{2}, msg("\x32\x02hi\x32\x00"), []string{"hi", ""}},
		{"f16 raw", 10, []int64{1}, packed(9, "\x00\x3c"), []uint16{0x3c00}},
		{"f16 in int32_data", 10, []int64{1}, packed(5, "\x80\x78"), []uint16{0x3c00}},
		{"bf16 raw", 16, []int64{1}, packed(9, "\x80\x3f"), []uint16{0x3f80}},
		{"c64 in float_data", 14, []int64{1}, packed(4, "\x00\x00\x80\x3f\x00\x00\x00\xc0"), []complex64{complex(1, -2)}},
		{"c128 raw", 15, []int64{1}, packed(9, "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\x00"), []complex128{1}},
		{"f8e4m3fn raw", 17, []int64{2}, packed(9, "\x38\x7f"), []uint8{0x38, 0x7f}},
		{"f8e5m2 in int32_data", 19, []int64{1}, packed(5, "\xfc\x01"), []uint8{0xfc}},
		{"u4 raw, odd", 21, []int64{3}, packed(9, "\x21\x03"), []uint8{0x21, 0x03}},
		{"i4 in int32_data", 22, []int64{3}, packed(5, "\xf1\x01\x03"), []uint8{0xf1, 0x03}},
		{"f4 raw", 23, []int64{2}, packed(9, "\x72"), []uint8{0x72}},
		{"e8m0 raw", 24, []int64{1}, packed(9, "\x7f"), []uint8{0x7f}},
		{"u2 raw", 25, []int64{5}, packed(9, "\xe4\x01"), []uint8{0xe4, 0x01}},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			m := msg{}
			for _, d := range c.dims {
				m = m.int(1, d)
			}
			m = append(m.int(2, c.dtype).str(8, "t"), c.data...)
			name, got, err := ReadTensor(m)
			require.NoError(t, err)
			assert.Equal(t, "t", name)
			assert.Equal(t, tensor.DType(c.dtype), got.DType)
			assert.Equal(t, c.want, got.Data)
			assert.Len(t, got.Shape, len(c.dims))

			again, err := WriteTensor(name, got)
			require.NoError(t, err)
			_, back, err := ReadTensor(again)
			require.NoError(t, err)
			assert.True(t, tensor.Equal(got, back))
		})
	}
}

// TestReadTensorRefuses lists broken tensors and what is said about each.
func TestReadTensorRefuses(t *testing.T) {
	dims := func(d ...int64) msg {
		m := msg{}.int(2, 1)
		for _, n := range d {
			m = m.int(1, n)
		}
		return m
	}
	cases := []struct {
		what string
		b    msg
		says string
	}{
		{"too few bytes", append(dims(2), packed(9, "1234")...), "f32 with shape [2] does not agree with the 4 bytes present"},
		{"too many bytes", append(dims(1), packed(9, "12345678")...), "does not agree with the 8 bytes"},
		{"half an element", append(dims(1), packed(9, "12345")...), "does not agree"},
		{"a product that overflows to 0", append(dims(1<<32, 1<<32), packed(9, "1234")...), "does not agree"},
		{"a product that overflows to the right size", append(dims(1<<62, 4, 1), packed(9, "")...), "does not agree"},
		{"a huge dimension without data", dims(1 << 62), "does not agree with the 0 elements present"},
		{"a negative dimension", append(dims(-1), packed(9, "1234")...), "dimension 0 is -1"},
		{"no type", msg{}.int(1, 1).str(9, "1234"), "unknown element type 0"},
		{"a type of the future", msg{}.int(2, 99), "unknown element type 99"},
		{"a type beyond a byte", msg{}.int(2, 257), "unknown element type 257"},
		{"strings in raw_data", msg{}.int(2, 8).int(1, 1).str(9, "x"), "strings cannot be in raw_data"},
		{"floats in int32_data", append(dims(1), packed(5, "\x01")...), "f32 elements cannot be in field 5"},
		{"ragged float_data", append(dims(1), packed(4, "12345")...), "not a list of 4-byte numbers"},
		{"a broken varint", append(msg{}.int(2, 7).int(1, 1), packed(7, "\xff")...), "field 7"},
		{"an unfinished varint after a good one", append(msg{}.int(2, 7).int(1, 1), packed(7, "\x01\xff")...), "field 7"},
		{"a segment", append(dims(1), msg{}.str(3, "")...), "segmented"},
		{"data in another file", dims(1).add(13, msg{}.str(1, "location").str(2, "w")).int(14, 1), "which is not at hand"},
		{"cut off", msg("\x4a\x7f12"), "truncated"},
		{"a tag of another type", msg("\x48\x01"), "wire type"},
		{"a group that does not end", msg("\x7b"), "truncated"},
		{"too many 4-bit elements", append(msg{}.int(2, 22).int(1, 4), packed(5, "\x01")...), "does not agree with the 1 bytes"},
	}
	for _, c := range cases {
		_, _, err := ReadTensor(c.b)
		if assert.Error(t, err, c.what) {
			assert.Contains(t, err.Error(), c.says, c.what)
			assert.False(t, strings.Contains(err.Error(), "\n"), c.what)
		}
	}
}

// TestWriteTensorChannelsLast shows that the layout in memory does not reach the file.
func TestWriteTensorChannelsLast(t *testing.T) {
	x := tensor.FromF32([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 2, 2, 2)
	want, err := WriteTensor("x", x)
	require.NoError(t, err)
	got, err := WriteTensor("x", x.ToChannelsLast())
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// TestWriteTensorRefuses gives tensors whose elements do not fit their shape.
func TestWriteTensorRefuses(t *testing.T) {
	for _, x := range []*tensor.Tensor{
		{DType: tensor.Float32, Shape: []int{2}, Data: []float32{1}},
		{DType: tensor.Float32, Shape: []int{1}, Data: []uint8{1}},
		{DType: tensor.Float32, Shape: []int{1}},
		{DType: tensor.String, Shape: []int{1}, Data: []uint8{1}},
		{DType: tensor.String, Shape: []int{2}, Data: []string{"a"}},
		{DType: tensor.Int8, Shape: []int{1}, Data: []string{"a"}},
	} {
		_, err := WriteTensor("x", x)
		assert.ErrorContains(t, err, `tensor "x"`, x.Type())
	}
}

// TestConformanceTensors reads every input and output of the backend tests that is a tensor.
func TestConformanceTensors(t *testing.T) {
	tensors := 0
	conformance(t, ".pb", func(name string, b []byte) {
		_, x, err := ReadTensor(b)
		if err != nil { // sequences and optionals are other messages
			assert.Regexp(t, "seq|opt|loop|split_to", name, err)
			return
		}
		tensors++
		again, err := WriteTensor("", x)
		require.NoError(t, err, name)
		_, back, err := ReadTensor(again)
		require.NoError(t, err, name)
		require.True(t, tensor.Equal(x, back), name)
	})
	assert.Greater(t, tensors, 4000)
}
