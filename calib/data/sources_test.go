package data

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
)

func TestNpyRows(t *testing.T) {
	for _, c := range []struct {
		name  string
		array *tensor.Tensor
		dims  []int // -1: open
		n     int
		shape []int
	}{
		{"as it is", ramp(0, 1, 3), []int{1, 3}, 1, []int{1, 3}},
		{"without batch", ramp(0, 3), []int{1, 3}, 1, []int{1, 3}},
		{"rows", ramp(0, 4, 3), []int{1, 3}, 4, []int{1, 3}},
		{"rows of an open batch", ramp(0, 4, 3), []int{-1, 3}, 4, []int{1, 3}},
		{"a fixed batch", ramp(0, 4, 3), []int{4, 3}, 1, []int{4, 3}},
		{"an open vector", ramp(0, 5), []int{-1}, 1, []int{5}},
		{"scalars", ramp(0, 5), []int{1}, 5, []int{1}},
	} {
		set, _ := open(t, tree{"a.npy": npyFile(c.array)}, input("x", c.dims...), Options{}, "a.npy")
		list := all(t, set)
		require.Len(t, list, c.n, c.name)
		at := 0
		for _, s := range list {
			x := s.Feeds["x"]
			require.Equal(t, c.shape, x.Shape, c.name)
			require.Equal(t, c.array.F32()[at:at+x.Len()], x.F32(), c.name)
			at += x.Len()
		}
	}
	for _, dims := range [][]int{{1, 4}, {2, 3}, {1, 1, 3}} {
		require.ErrorContains(t, openError(tree{"a.npy": npyFile(ramp(0, 5, 3))}, input("x", dims...), Options{}, "a.npy"),
			"f32[5,3] does not fit input x f32")
	}
	require.ErrorContains(t, openError(tree{"a.npy": npyFile(tensor.New(tensor.Float32, 0, 3))}, input("x", 1, 3), Options{}, "a.npy"),
		"no samples")
	b := npyFile(ramp(0, 5, 3))
	require.ErrorContains(t, openError(tree{"a.npy": b[:len(b)-1]}, input("x", 1, 3), Options{}, "a.npy"), "takes 60 bytes, 59 are there")
}

// Rows of an array in Fortran order, and of an archive, cannot be read alone; they come out the same.
func TestRowsThatDoNotLieTogether(t *testing.T) {
	fortran := "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}"
	b := []byte("\x93NUMPY\x01\x00" + string([]byte{byte(len(fortran)), 0}) + fortran)
	for _, v := range []float32{0, 3, 1, 4, 2, 5} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	want, _ := open(t, tree{"a.npy": npyFile(ramp(0, 2, 3))}, input("x", 1, 3), Options{}, "a.npy")
	for name, f := range map[string]tree{"a.npy": {"a.npy": b},
		"a.npz": {"a.npz": npzFile(map[string]*tensor.Tensor{"arr_0": ramp(0, 2, 3)})}} {
		got, _ := open(t, f, input("x", 1, 3), Options{Ahead: 2}, name)
		for i, s := range all(t, got) {
			require.Equal(t, all(t, want)[i].Hash, s.Hash, name)
		}
	}
}

func TestNpz(t *testing.T) {
	spec := InputSpec{{Name: "ids", DType: tensor.Int64, Shape: graph.Shape{{N: -1}, {N: 3}}},
		{Name: "state", DType: tensor.Float32, Shape: graph.Static(2, 1, 2)}}
	ids := tensor.FromI64([]int64{1, 2, 3}, 1, 3)
	f := tree{"d/b.npz": npzFile(map[string]*tensor.Tensor{"ids": ids, "state": ramp(0, 2, 1, 2), "extra": ramp(0, 1)}),
		"d/a.npz": npzFile(map[string]*tensor.Tensor{"ids": ids, "state": ramp(9, 2, 1, 2)})}
	set, w := open(t, f, spec, Options{}, "d")
	list := all(t, set)
	require.Equal(t, []string{"a.npz", "b.npz"}, names(list))
	require.Equal(t, ids, list[0].Feeds["ids"])
	require.Equal(t, ramp(0, 2, 1, 2), list[1].Feeds["state"])
	require.Equal(t, `array "extra" in b.npz fits no input of the model and was ignored`, w[0].Text)

	f = tree{"a.npz": npzFile(map[string]*tensor.Tensor{"ids": ids, "hidden": ramp(0, 2, 1, 2)})}
	require.ErrorContains(t, openError(f, spec, Options{}, "a.npz"),
		`no array "state" (there are hidden, ids; the model takes ids i64[?,3], state f32[2,1,2])`)
	f = tree{"a.npz": npzFile(map[string]*tensor.Tensor{"ids": tensor.FromI64(make([]int64, 6), 2, 3), "state": ramp(0, 2, 1, 2)})}
	require.ErrorContains(t, openError(f, spec, Options{}, "a.npz"), "1 samples for input state f32[2,1,2], 2 for others")
}

// TensorFlow's data for a converted network: other names, channels last. What fits as it is stays as it is.
func TestArraysWithChannelsLast(t *testing.T) {
	spectra := ramp(0, 2, 3, 1, 4) // two of 3 times, 1, 4 bands
	f := tree{"a.npz": npzFile(map[string]*tensor.Tensor{"specs": spectra, "labels": ramp(0, 2)}), "a.npy": npyFile(spectra)}
	for _, name := range []string{"a.npz", "a.npy"} {
		set, w := open(t, f, input("input", 1, 4, 3, 1), Options{}, name)
		list := all(t, set)
		require.Len(t, list, 2, name)
		for i, s := range list {
			x := s.Feeds["input"]
			require.Equal(t, []int{1, 4, 3, 1}, x.Shape)
			for band := range 4 {
				for at := range 3 {
					require.Equal(t, spectra.F32()[i*12+at*4+band], x.F32()[band*3+at], name)
				}
			}
		}
		require.Contains(t, w[0].Text, "channels last and was transposed")
	}
	set, w := open(t, tree{"a.npy": npyFile(ramp(0, 3, 3, 3, 3))}, input("x", 1, 3, 3, 3), Options{}, "a.npy")
	require.Equal(t, ramp(0, 3, 3, 3, 3).F32()[27:54], all(t, set)[1].Feeds["x"].F32())
	require.Empty(t, w)
	f = tree{"a.npz": npzFile(map[string]*tensor.Tensor{"p": ramp(0, 1, 3), "q": ramp(0, 1, 3)})}
	require.ErrorContains(t, openError(f, input("x", 1, 3), Options{}, "a.npz"), `no array "x" (there are p, q`)
	require.ErrorContains(t, openError(tree{"a.npy": npyFile(ramp(0, 2, 3, 1, 5))}, input("x", 1, 4, 3, 1), Options{}, "a.npy"),
		"f32[2,3,1,5] does not fit")
}

func TestConversions(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		from any
		d    tensor.DType
		to   tensor.DType
		want any
	}{
		{[]float64{1.5, 0.1, inf}, tensor.Float64, tensor.Float32, []float32{1.5, 0.1, float32(inf)}},
		{[]float64{1e300}, tensor.Float64, tensor.Float32, nil},
		{[]uint8{0, 255}, tensor.Uint8, tensor.Float32, []float32{0, 255}},
		{[]int32{1 << 24, -5}, tensor.Int32, tensor.Float32, []float32{1 << 24, -5}},
		{[]int32{1<<24 + 1}, tensor.Int32, tensor.Float32, nil},
		{[]int64{7, -7}, tensor.Int64, tensor.Int32, []int32{7, -7}},
		{[]int64{1 << 40}, tensor.Int64, tensor.Int32, nil},
		{[]int64{1<<53 + 1}, tensor.Int64, tensor.Float64, nil},
		{[]float32{3}, tensor.Float32, tensor.Uint8, []uint8{3}},
		{[]float32{3.5}, tensor.Float32, tensor.Uint8, nil},
		{[]float32{-1}, tensor.Float32, tensor.Uint8, nil},
		{[]float32{float32(nan)}, tensor.Float32, tensor.Int64, nil},
		{[]bool{true}, tensor.Bool, tensor.Float32, nil},
		{[]uint16{0x3c00, 0xc100, 0x7c00, 1}, tensor.Float16, tensor.Float32, []float32{1, -2.5, float32(inf), 0x1p-24}},
		{[]uint16{0x3f80, 0xff80}, tensor.BFloat16, tensor.Float64, []float64{1, -inf}},
		{[]uint16{0x4200}, tensor.Float16, tensor.Int64, []int64{3}},
		{[]uint16{0x4100}, tensor.Float16, tensor.Int64, nil},
		{[]float32{1, 2049, 65519, -1e-9, float32(-inf)}, tensor.Float32, tensor.Float16, []uint16{0x3c00, 0x6800, 0x7bff, 0x8000, 0xfc00}},
		{[]float64{1 + 0x1p-11 + 0x1p-40}, tensor.Float64, tensor.Float16, []uint16{0x3c01}}, // by way of float32 it would be 1
		{[]float32{65520}, tensor.Float32, tensor.Float16, nil},
		{[]float64{1e39}, tensor.Float64, tensor.BFloat16, nil},
		{[]float32{1, -3.14159}, tensor.Float32, tensor.BFloat16, []uint16{0x3f80, 0xc049}},
		{[]int32{2048, -7}, tensor.Int32, tensor.Float16, []uint16{0x6800, 0xc700}},
		{[]int32{2049}, tensor.Int32, tensor.Float16, nil},
		{[]uint16{1}, tensor.Uint16, tensor.Float32, []float32{1}},
		{[]float32{1}, tensor.Float32, tensor.Int4, nil},
	} {
		x := &tensor.Tensor{DType: c.d, Data: c.from, Shape: []int{reflect.ValueOf(c.from).Len()}}
		got, err := Convert(x, c.to)
		if c.want == nil {
			require.ErrorContains(t, err, "cannot be fed as "+c.to.String(), "%v", c.from)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got.Data)
	}
	x := &tensor.Tensor{DType: tensor.Float64, Shape: []int{1}, Data: []float64{nan}}
	got, err := Convert(x, tensor.Float32)
	require.NoError(t, err)
	require.Equal(t, 0, firstNaN(got), "NaN is reported as such later")
}

func TestRaw(t *testing.T) {
	var b []byte
	for i := range 12 {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(i)))
	}
	set, _ := open(t, tree{"a.bin": b}, input("x", -1, 2, 3), Options{}, "a.bin")
	list := all(t, set)
	require.Equal(t, []string{"a.bin#000000", "a.bin#000001"}, names(list))
	require.Equal(t, ramp(6, 1, 2, 3), list[1].Feeds["x"])
	require.ErrorContains(t, openError(tree{"a.bin": b[:47]}, input("x", 1, 2, 3), Options{}, "a.bin"),
		"47 bytes are no multiple of the 24 of input x f32[1,2,3]")
	require.ErrorContains(t, openError(tree{"a.bin": nil}, input("x", 1, 2, 3), Options{}, "a.bin"), "0 bytes")
	require.ErrorContains(t, openError(tree{"a.bin": b}, input("x", 1, -1), Options{}, "a.bin"), "open dimensions")
	ids := InputSpec{{Name: "x", DType: tensor.Int32, Shape: graph.Static(1, 2)}}
	set, _ = open(t, tree{"a.raw": {1, 0, 0, 0, 2, 0, 0, 0}}, ids, Options{}, "a.raw")
	require.Equal(t, []int32{1, 2}, all(t, set)[0].Feeds["x"].Data)
}

func cifar(labels ...uint8) []byte {
	var b []byte
	for _, l := range labels {
		b = append(b, l)
		for i := range 3072 {
			b = append(b, uint8(i/1024*50+int(l)+i%7))
		}
	}
	return b
}

func TestCIFAR(t *testing.T) {
	set, w := open(t, tree{"c.bin": cifar(3, 9, 0)}, input("x", 1, 32, 32, 3), Options{LabelOffset: 1}, "c.bin")
	require.Empty(t, w)
	list := all(t, set)
	require.Equal(t, []int{4, 10, 1}, []int{list[0].Label, list[1].Label, list[2].Label})
	x := list[1].Feeds["x"]
	require.Equal(t, []int{1, 32, 32, 3}, x.Shape)
	require.Equal(t, []float32{9, 59 + 2, 109 + 4, 10}, x.F32()[:4], "red, green, blue of the first pixel, red of the next")
	require.NoError(t, set.RequireLabels())

	// The same size without labels of ten classes is raw data.
	err := openError(tree{"c.bin": cifar(3, 10)}, input("x", 1, 32, 32, 3), Options{}, "c.bin")
	require.ErrorContains(t, err, "6146 bytes are no multiple of the 12288")
	err = openError(tree{"c.bin": cifar(3)}, input("x", 1, 4, 32, 32), Options{}, "c.bin")
	require.ErrorContains(t, err, "the file is CIFAR-10: input x f32[1,4,32,32] has 4 channels")
}

func TestMNIST(t *testing.T) {
	pixels := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	images, labels := idx(pixels, 2, 2, 3), idx([]byte{7, 4}, 2)
	for _, f := range []tree{{"i": images, "l": labels}, {"i": gz(images), "l": gz(labels)}} {
		set, _ := open(t, f, input("x", 1, 1, 2, 3), Options{Labels: "l"}, "i")
		list := all(t, set)
		require.Equal(t, ramp(6, 1, 1, 2, 3), list[1].Feeds["x"])
		require.Equal(t, []int{7, 4}, []int{list[0].Label, list[1].Label})
		require.ErrorContains(t, openError(f, input("x", 1, 1, 2, 3), Options{}, "l"), "give them as labels")
		require.ErrorContains(t, openError(f, input("x", 1, 1, 2, 3), Options{Labels: "i"}, "i"), "images, not labels")
	}
	set, w := open(t, tree{"d/i": idx(pixels, 3, 2, 2), "d/l": labels}, input("x", 1, 4), Options{}, "d")
	require.Empty(t, w, "labels beside the pictures are no stray files")
	require.Equal(t, []int{1, 4}, all(t, set)[0].Feeds["x"].Shape, "flat")

	require.ErrorContains(t, openError(tree{"i": images[:20]}, input("x", 1, 1, 2, 3), Options{}, "i"), "too few for 2 pictures of 2x3")
	require.ErrorContains(t, openError(tree{"i": gz(images[:20])}, input("x", 1, 1, 2, 3), Options{}, "i"), "too few for 2 pictures of 2x3")
	require.ErrorContains(t, openError(tree{"i": images[:9]}, input("x", 1, 1, 2, 3), Options{}, "i"), "cut off")
	require.ErrorContains(t, openError(tree{"i": idx(nil, 1<<20, 1<<10, 1<<10)}, input("x", 1, 1, 2, 3), Options{}, "i"), "elements")
	require.ErrorContains(t, openError(tree{"i": images, "l": idx([]byte{1}, 1)}, input("x", 1, 1, 2, 3), Options{Labels: "l"}, "i"),
		"1 labels for 2 pictures")
	require.ErrorContains(t, openError(tree{"a.png": pngFile(3, 2, 0), "l": labels}, input("x", 1, 3, 2, 3), Options{Labels: "l"}, "a.png"),
		"exactly one file of MNIST images")
}

// proto encodes a float TensorProto: dims (1), data_type (2), name (8), raw_data (9).
func proto(name string, x *tensor.Tensor) []byte {
	var b []byte
	for _, d := range x.Shape {
		b = append(b, 1<<3, byte(d))
	}
	b = append(b, 2<<3, 1, 8<<3|2, byte(len(name)))
	b = append(b, name...)
	b = append(b, 9<<3|2, byte(4*x.Len()))
	for _, v := range x.F32() {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func TestONNXTestData(t *testing.T) {
	spec := append(input("a", 1, 2), input("b", 2)...)
	f := tree{}
	for i := range 2 {
		dir := fmt.Sprintf("m/test_data_set_%d/", i)
		f[dir+"input_0.pb"] = proto([]string{"b", ""}[i], ramp(i, [][]int{{2}, {1, 2}}[i]...)) // named, by position
		f[dir+"input_1.pb"] = proto([]string{"a", "other"}[i], ramp(10+i, [][]int{{1, 2}, {2}}[i]...))
		f[dir+"output_0.pb"] = nil
	}
	f["m/model.onnx"] = nil
	set, w := open(t, f, spec, Options{}, "m")
	require.Len(t, w, 1)
	require.Equal(t, "3 files are not samples and were skipped (first: model.onnx)", w[0].Text)
	list := all(t, set)
	require.Equal(t, []string{"test_data_set_0", "test_data_set_1"}, names(list))
	require.Equal(t, map[string]*tensor.Tensor{"a": ramp(10, 1, 2), "b": ramp(0, 2)}, list[0].Feeds)
	require.Equal(t, map[string]*tensor.Tensor{"a": ramp(1, 1, 2), "b": ramp(11, 2)}, list[1].Feeds)

	set, _ = open(t, f, spec, Options{}, "m/test_data_set_1")
	require.Equal(t, []string{"test_data_set_1"}, names(all(t, set)))
	delete(f, "m/test_data_set_0/input_1.pb")
	require.ErrorContains(t, openError(f, spec, Options{}, "m"), "test_data_set_0/input_1.pb is missing")
	require.ErrorContains(t, openError(f, input("a", 1, 2), Options{}, "m"), "input_1.pb: the model takes 1 inputs")
	f = tree{"t/input_0.pb": proto("a", ramp(0, 3))}
	require.ErrorContains(t, openError(f, input("a", 1, 2), Options{}, "t"), "input_0.pb: f32[3] does not fit input a f32[1,2]")
	require.ErrorContains(t, openError(tree{"t/input_0.pb": []byte("\xff\xff")}, input("a", 1, 2), Options{}, "t"),
		"input_0.pb: not an ONNX tensor")
}

func TestSynthetic(t *testing.T) {
	spec := append(input("x", -1, 3, -1, -1), Input{Name: "ids", DType: tensor.Int64, Shape: graph.Static(1, 50)},
		Input{Name: "m", DType: tensor.Bool, Shape: graph.Static(4)})
	set, w := open(t, nil, spec, Options{Seed: 1}, "synthetic:3")
	require.Len(t, w, 1)
	require.Contains(t, w[0].Text, "3 samples are synthetic noise")
	list := all(t, set)
	x := list[0].Feeds["x"]
	require.Equal(t, []int{1, 3, 224, 224}, x.Shape)
	sum, squares := 0.0, 0.0
	for _, v := range x.F32() {
		sum, squares = sum+float64(v), squares+float64(v)*float64(v)
	}
	n := float64(x.Len())
	require.InDelta(t, 0, sum/n, 0.02)
	require.InDelta(t, 1, squares/n, 0.02)
	for _, v := range list[0].Feeds["ids"].I64() {
		require.Contains(t, []int64{0, 1}, v)
	}
	again, _ := open(t, nil, spec, Options{Seed: 1}, "synthetic:3")
	require.Equal(t, list[2].Hash, all(t, again)[2].Hash)
	other, _ := open(t, nil, spec, Options{Seed: 2}, "synthetic:3")
	require.NotEqual(t, list[2].Hash, all(t, other)[2].Hash)
	require.NotEqual(t, list[1].Hash, list[2].Hash)
}
