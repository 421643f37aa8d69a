package npy

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// The files in testdata were written by NumPy 2.4.
func TestReadWhatNumPyWrote(t *testing.T) {
	ramp := make([]float32, 24)
	for i := range ramp {
		ramp[i] = float32(i)
	}
	for name, want := range map[string]*tensor.Tensor{
		"f4_c":        tensor.FromF32([]float32{0, .25, .5, .75, 1, 1.25}, 2, 3),
		"f4_fortran":  tensor.FromF32(ramp, 2, 3, 4),
		"f8_big_v2":   {DType: tensor.Float64, Shape: []int{3}, Data: []float64{1.5, -2.25, 1e300}},
		"i2_big_v3":   {DType: tensor.Int16, Shape: []int{2, 2}, Data: []int16{1, -2, 300, -400}},
		"f2":          {DType: tensor.Float16, Shape: []int{3}, Data: []uint16{0x3c00, 0xc000, 0x7bff}},
		"bool_scalar": {DType: tensor.Bool, Shape: []int{}, Data: []bool{true}},
		"u1_empty":    {DType: tensor.Uint8, Shape: []int{0, 3}, Data: []uint8{}},
		"i8_fortran":  tensor.FromI64([]int64{1, 2, 3, 4, 5, 6}, 2, 3),
	} {
		src, err := os.ReadFile("testdata/" + name + ".npy")
		require.NoError(t, err)
		got, err := Read(bytes.NewReader(src))
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		for n := range src {
			_, err := Read(bytes.NewReader(src[:n]))
			require.ErrorContains(t, err, "npy:", "%s cut to %d bytes", name, n)
		}
	}
}

func TestWriteIsWhatNumPyWrites(t *testing.T) {
	want, err := os.ReadFile("testdata/f4_c.npy")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Write(&b, tensor.FromF32([]float32{0, .25, .5, .75, 1, 1.25}, 2, 3)))
	require.Equal(t, want, b.Bytes())
}

func TestWriteReadIsIdentity(t *testing.T) {
	for _, k := range kinds {
		for _, shape := range [][]int{{}, {0}, {5}, {2, 1, 3}} {
			x := tensor.New(k.dtype, shape...)
			if f, ok := x.Data.([]float32); ok {
				for i := range f {
					f[i] = float32(i) - 1.5
				}
			}
			var b bytes.Buffer
			require.NoError(t, Write(&b, x))
			require.Zero(t, (int64(b.Len())-int64(x.Len()*k.dtype.Bits()/8))%64, "data starts at a multiple of 64")
			y, err := Read(&b)
			require.NoError(t, err)
			require.True(t, tensor.Equal(x, y), "%s", x.Type())
		}
	}
	require.ErrorContains(t, Write(&bytes.Buffer{}, tensor.New(tensor.BFloat16, 1)), "bf16 cannot be written")
}

func TestWriteChannelsLastInLogicalOrder(t *testing.T) {
	x := tensor.FromF32([]float32{1, 2, 3, 4, 5, 6}, 1, 2, 3)
	var a, b bytes.Buffer
	require.NoError(t, Write(&a, x))
	require.NoError(t, Write(&b, x.ToChannelsLast()))
	require.Equal(t, a.Bytes(), b.Bytes())
}

func TestReadRows(t *testing.T) {
	src, err := os.ReadFile("testdata/f4_c.npy")
	require.NoError(t, err)
	h, err := ReadHeader(bytes.NewReader(src))
	require.NoError(t, err)
	got, err := h.ReadRows(bytes.NewReader(src), 1, 2)
	require.NoError(t, err)
	require.Equal(t, tensor.FromF32([]float32{.75, 1, 1.25}, 1, 3), got)
	for _, r := range [][2]int{{-1, 1}, {0, 3}, {2, 1}} {
		_, err = h.ReadRows(bytes.NewReader(src), r[0], r[1])
		require.ErrorContains(t, err, "no rows")
	}
	_, err = h.ReadRows(bytes.NewReader(src[:len(src)-1]), 1, 2)
	require.ErrorContains(t, err, "11 of the 12 bytes")
}

func TestHeaderErrors(t *testing.T) {
	for dict, want := range map[string]string{
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}":             `unknown key "x"`,
		"{'descr': '<f4', 'fortran_order': False}":                                    "needs descr",
		"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False}":                    "twice",
		"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}":              "structured",
		"{'descr': '|O', 'fortran_order': False, 'shape': ()}":                        `"|O" is not supported`,
		"{'descr': '<U4', 'fortran_order': False, 'shape': ()}":                       "not supported",
		"{'descr': '<f4', 'fortran_order': 0, 'shape': ()}":                           "neither True nor False",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}":                    "bad shape",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999)}": "elements",
		"{'descr': '<f4', 'fortran_order': False, 'shape': ()} 1":                     "after the dictionary",
		"{'descr": "without end",
		"":        "expected",
	} {
		_, err := ReadHeader(strings.NewReader("\x93NUMPY\x01\x00" + string([]byte{byte(len(dict)), 0}) + dict))
		require.ErrorContains(t, err, want, dict)
	}
	_, err := ReadHeader(strings.NewReader("\x93NUMPY\x04\x00" + strings.Repeat("x", 20)))
	require.ErrorContains(t, err, "unknown format version 4.0")
	_, err = ReadHeader(strings.NewReader("\x93NUMPY\x02\x00\xff\xff\xff\xff" + strings.Repeat("x", 20)))
	require.ErrorContains(t, err, "a header of more than")
	_, err = ReadHeader(strings.NewReader("PK\x03\x04 not an array"))
	require.ErrorContains(t, err, "not a NumPy array file")
}

// A header may claim any size; what is allocated follows from what is there.
func TestAllocationFollowsTheData(t *testing.T) {
	dict := "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,)}"
	src := "\x93NUMPY\x01\x00" + string([]byte{byte(len(dict)), 0}) + dict + "12345678"
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Read(strings.NewReader(src)); err == nil {
				b.Fatal("read 8 GB from 8 bytes")
			}
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(4<<20))
}

func TestArchive(t *testing.T) {
	src, err := os.ReadFile("testdata/two.npz")
	require.NoError(t, err)
	a, err := OpenArchive(bytes.NewReader(src), int64(len(src)))
	require.NoError(t, err)
	require.Equal(t, []string{"ids", "mask"}, a.Names())
	h, err := a.Header("ids")
	require.NoError(t, err)
	require.Equal(t, []int{1, 4}, h.Shape)
	ids, err := a.Read("ids")
	require.NoError(t, err)
	require.Equal(t, tensor.FromI64([]int64{0, 1, 2, 3}, 1, 4), ids)
	_, err = a.Read("other")
	require.ErrorContains(t, err, `no array "other"`)
	_, err = OpenArchive(bytes.NewReader(src[:40]), 40)
	require.ErrorContains(t, err, "npz:")
}

// deflated is an archive with the array x, of a header and so many zeros.
func deflated(t *testing.T, dict string, zeros int64) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.CreateHeader(&zip.FileHeader{Name: "x.npy", Method: zip.Deflate})
	require.NoError(t, err)
	_, err = f.Write([]byte("\x93NUMPY\x01\x00" + string([]byte{byte(len(dict)), 0}) + dict))
	require.NoError(t, err)
	_, err = io.CopyN(f, zeroes{}, zeros)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Archives that deflate to a thousandth, and shapes that claim more than there is, take no memory that the archive is not worth.
func TestArchiveBombs(t *testing.T) {
	for what, c := range map[string]struct {
		shape string
		zeros int64
		want  string // empty: it is read
	}{
		"64 MB of zeros are an array":       {"(16777216,)", 64 << 20, ""},
		"64 GB are claimed over 8 MB":       {"(17179869184,)", 8 << 20, `array "x": 68719476736 bytes of f32[17179869184] out of 8`},
		"one dimension more than all bytes": {"(4294967296,4294967296)", 1 << 10, "elements"},
		"1 GB is claimed over 8 MB":         {"(268435456,)", 8 << 20, `array "x": npy: 8388608 of the 1073741824 bytes`},
	} {
		t.Run(what, func(t *testing.T) {
			src := deflated(t, "{'descr': '<f4', 'fortran_order': False, 'shape': "+c.shape+"}", c.zeros)
			a, err := OpenArchive(bytes.NewReader(src), int64(len(src)))
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			x, err := a.Read("x")
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20))
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, 16777216, x.Len())
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestWriteArchive(t *testing.T) {
	arrays := map[string]*tensor.Tensor{"b": tensor.FromF32([]float32{1}, 1), "a": tensor.FromI64([]int64{7}, 1)}
	var one, two bytes.Buffer
	require.NoError(t, WriteArchive(&one, arrays))
	require.NoError(t, WriteArchive(&two, arrays))
	require.Equal(t, one.Bytes(), two.Bytes())
	a, err := OpenArchive(bytes.NewReader(one.Bytes()), int64(one.Len()))
	require.NoError(t, err)
	for _, n := range a.Names() {
		got, err := a.Read(n)
		require.NoError(t, err)
		require.Equal(t, arrays[n], got)
	}
	damaged := bytes.Replace(one.Bytes(), []byte{7, 0, 0, 0, 0, 0, 0, 0}, []byte{8, 0, 0, 0, 0, 0, 0, 0}, 1)
	a, err = OpenArchive(bytes.NewReader(damaged), int64(len(damaged)))
	require.NoError(t, err)
	_, err = a.Read("a")
	require.ErrorIs(t, err, zip.ErrChecksum)
}

func FuzzRead(f *testing.F) {
	for _, n := range []string{"f4_fortran", "i2_big_v3", "bool_scalar"} {
		src, err := os.ReadFile("testdata/" + n + ".npy")
		require.NoError(f, err)
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		x, err := Read(bytes.NewReader(src))
		if err != nil {
			return
		}
		var b bytes.Buffer
		require.NoError(t, Write(&b, x))
		y, err := Read(&b)
		require.NoError(t, err)
		require.Equal(t, x.Type(), y.Type())
	})
}

func FuzzArchive(f *testing.F) {
	src, err := os.ReadFile("testdata/two.npz")
	require.NoError(f, err)
	f.Add(src)
	f.Fuzz(func(t *testing.T, src []byte) {
		a, err := OpenArchive(bytes.NewReader(src), int64(len(src)))
		if err != nil {
			return
		}
		for _, n := range a.Names() {
			if x, err := a.Read(n); err == nil {
				require.Equal(t, x.Len()*x.DType.Bits()/8 >= 0, true)
			}
		}
	})
}
