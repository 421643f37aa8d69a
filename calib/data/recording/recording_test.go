package recording

import (
	"bytes"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

func npyOf(t *testing.T, x *tensor.Tensor) *fstest.MapFile {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, npy.Write(&b, x))
	return &fstest.MapFile{Data: b.Bytes()}
}

func protoOf(t *testing.T, name string, x *tensor.Tensor) *fstest.MapFile {
	t.Helper()
	b, err := onnx.WriteTensor(name, x)
	require.NoError(t, err)
	return &fstest.MapFile{Data: b}
}

func codes(q ...int8) *tensor.Tensor {
	return &tensor.Tensor{DType: tensor.Int8, Shape: []int{1, len(q)}, Data: q}
}

// TestForms: every form gives the tensors that were written, by their names, and nothing for names that it does not have.
func TestForms(t *testing.T) {
	var zip bytes.Buffer
	require.NoError(t, npy.WriteArchive(&zip, map[string]*tensor.Tensor{"a/b:0": codes(1, 2)}))
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	fs := fstest.MapFS{
		"n/0.npy": npyOf(t, codes(1, 2)), "n/1.npy": npyOf(t, codes(3)), "n/names.json": text(`{"1": "s", "0": "a/b:0"}`),
		"z.npz":                 {Data: zip.Bytes()},
		"f/a_b_0.npy":           npyOf(t, codes(1, 2)),
		"p/input_0.pb":          protoOf(t, "a/b:0", codes(1, 2)),
		"p/Conv_0.tensorproto":  protoOf(t, "", codes(3)),
		"c/a_b_0.txt":           text("1.000000 2.000000 \n-0.500000 4.000000 \n------------------------\n5 6\n7 8\n------------------------\n"),
		"both/x.npy":            npyOf(t, codes(9)),
		"both/more.npz/ignored": text(""),
	}
	for _, c := range []struct {
		file, form string
		names      []string
	}{
		{"n", "npy", []string{"a/b:0", "s"}}, {"z.npz", "npz", []string{"a/b:0"}}, {"f", "files", []string{"a_b_0"}},
		{"p", "onnx", []string{"Conv_0", "a/b:0"}}, {"c", "ncnn", []string{"a_b_0"}},
	} {
		r, err := Open(fs, c.file)
		require.NoError(t, err, c.file)
		assert.Equal(t, c.form, r.Form)
		assert.Equal(t, c.names, r.Names())
		got, err := r.Tensor("a/b:0")
		require.NoError(t, err)
		want := codes(1, 2)
		if c.form == "ncnn" {
			want = tensor.FromF32([]float32{1, 2, -0.5, 4, 5, 6, 7, 8}, 2, 2, 2)
		}
		assert.Equal(t, want, got, c.file)
		none, err := r.Tensor("other")
		require.NoError(t, err)
		assert.Nil(t, none)
	}
	f, err := Open(fs, "both")
	require.NoError(t, err)
	n, err := Open(fs, "n")
	require.NoError(t, err)
	r := Join(f, n)
	assert.Equal(t, []string{"a/b:0", "s", "x"}, r.Names())
	got, err := r.Tensor("s")
	require.NoError(t, err)
	assert.Equal(t, codes(3), got)
}

// A folder that qwb run --all wrote holds an archive for each sample: one is the recording, of several one has to be named.
func TestArchivesOfAFolder(t *testing.T) {
	var archive bytes.Buffer
	require.NoError(t, npy.WriteArchive(&archive, map[string]*tensor.Tensor{"a/b:0": tensor.New(tensor.Float32, 2)}))
	file := &fstest.MapFile{Data: archive.Bytes()}
	r, err := Open(fstest.MapFS{"ro/00000.npz": file}, "ro")
	require.NoError(t, err)
	require.Equal(t, "npz", r.Form)
	require.Equal(t, []string{"a/b:0"}, r.Names())
	_, err = Open(fstest.MapFS{"ro/00000.npz": file, "ro/00001.npz": file}, "ro")
	require.EqualError(t, err, "ro: recordings of 2 samples: name the one of the sample that is compared, for example ro/00000.npz")
}

// TestOneFileOfTwoNames: a file whose name is that of two tensors is none of them for sure.
func TestOneFileOfTwoNames(t *testing.T) {
	fs := fstest.MapFS{"f/a_b.npy": npyOf(t, codes(1, 2)), "f/c_d.npy": npyOf(t, codes(3)), "g/0.npy": npyOf(t, codes(4)),
		"g/names.json": {Data: []byte(`{"0": "a/b"}`)}}
	for _, names := range [][2]string{{"a/b", "a:b"}, {"a_b", "a/b"}, {"a/b", "a_b"}} {
		r, err := Open(fs, "f")
		require.NoError(t, err)
		for range 2 { // the same name again is no other tensor
			x, err := r.Tensor(names[0])
			require.NoError(t, err)
			require.Equal(t, codes(1, 2), x)
		}
		_, err = r.Tensor(names[1])
		require.ErrorContains(t, err, "recorded file \"a_b\" may be tensor \""+names[0]+"\" or \""+names[1]+"\"")
		x, err := r.Tensor("c/d")
		require.NoError(t, err)
		require.Equal(t, codes(3), x)
		x, err = r.Tensor("c:d:e")
		require.NoError(t, err)
		require.Nil(t, x)
	}
	f, err := Open(fs, "f")
	require.NoError(t, err)
	g, err := Open(fs, "g")
	require.NoError(t, err)
	r := Join(g, f)
	x, err := r.Tensor("a/b")
	require.NoError(t, err)
	require.Equal(t, codes(4), x, "known by its name")
	x, err = r.Tensor("a:b")
	require.NoError(t, err)
	require.Equal(t, codes(1, 2), x, "the file is read for one name only")
}

// TestJSON: what polygraphy 0.53.6 wrote, and trtexec's form.
func TestJSON(t *testing.T) {
	dir := os.DirFS("testdata")
	for _, c := range []struct {
		file string
		want map[string]*tensor.Tensor
	}{
		{"polygraphy-one.json", map[string]*tensor.Tensor{"a/b:0": tensor.FromF32([]float32{1.5, -2}, 1, 2), "q": codes(3, -4)}},
		{"polygraphy.json#onnxrt", map[string]*tensor.Tensor{"a/b:0": tensor.FromF32([]float32{2.5, -1}, 1, 2), "q": codes(4, -3)}},
		{"polygraphy-inputs.json", map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{1.5, -2}, 1, 2)}},
		{"trtexec.json", map[string]*tensor.Tensor{"y": tensor.FromF32([]float32{0.0123457, -2e6}, 1, 2, 1),
			"s": tensor.FromF32([]float32{7}, []int{}...)}},
	} {
		r, err := Open(dir, c.file)
		require.NoError(t, err, c.file)
		assert.Len(t, r.Names(), len(c.want))
		for name, want := range c.want {
			got, err := r.Tensor(name)
			require.NoError(t, err)
			assert.True(t, got != nil && tensor.Equal(want, got), "%s %s: %v", c.file, name, got)
		}
	}
	for file, want := range map[string]string{
		"polygraphy.json":          "results of 2 runners: choose one by FILE#NAME: trt-runner-N0-11/23/26-15:45:44, onnxrt-runner",
		"polygraphy.json#x":        "choose one",
		"trtexec.json#x":           `"x" cannot be chosen`,
		"polygraphy-inputs.json#x": `"x" cannot be chosen`,
	} {
		_, err := Open(dir, file)
		assert.ErrorContains(t, err, want, file)
	}
}

// TestRefusals: what is no recording, or a broken one, is an error that names the file and what is wrong.
func TestRefusals(t *testing.T) {
	fs := fstest.MapFS{
		"e/x.bin":      {},
		"x.bin":        {},
		"e.json":       {},
		"a.json":       {Data: []byte(`[]`)},
		"o.json":       {Data: []byte(`{}`)},
		"s.json":       {Data: []byte(`"x"`)},
		"torch.json":   {Data: []byte(`{"x": {"tensor": "AA=="}}`)},
		"base.json":    {Data: []byte(`{"x": {"array": "AA=="}}`)},
		"lst.json":     {Data: []byte(`{"lst": [1]}`)},
		"none.json":    {Data: []byte(`{"lst": [["r", []]]}`)},
		"dims.json":    {Data: []byte(`[{"name": "y", "dimensions": "1xa", "values": []}]`)},
		"large.json":   {Data: []byte(`[{"name": "y", "dimensions": "99999x99999", "values": [1]}]`)},
		"few.json":     {Data: []byte(`[{"name": "y", "dimensions": "1x2", "values": [1]}]`)},
		"twice.json":   {Data: []byte(`[{"name": "y", "dimensions": "1", "values": [1]}, {"name": "y", "dimensions": "1", "values": [1]}]`)},
		"n/names.json": {Data: []byte(`{"01": "x"}`)},
		"m/names.json": {Data: []byte(`{"0": "x", "1": "x"}`)},
		"p/a.pb":       {Data: []byte{255}},
		"z.npz":        {Data: []byte("PK")},
	}
	for file, want := range map[string]string{
		"nothing": "nothing", "e": "neither names.json", "x.bin": "a folder, .npz or .json", "e.json": "empty", "a.json": "empty list",
		"o.json": "no arrays by name", "s.json": "neither polygraphy's nor trtexec's", "torch.json": `"x": no array of NumPy`,
		"lst.json": "entry 0", "none.json": "no iteration", "dims.json": `dimensions "1xa"`, "large.json": "1 numbers for shape",
		"few.json": "1 numbers for shape [1 2]", "twice.json": `"y" stands twice`, "n": `"01" is not the number`,
		"m": `"x" is listed for two files`,
		"p": "a.pb: not an ONNX tensor", "z.npz": "z.npz: npz",
	} {
		_, err := Open(fs, file)
		assert.ErrorContains(t, err, want, file)
	}
	r, err := Open(fs, "base.json")
	require.NoError(t, err)
	_, err = r.Tensor("x")
	assert.ErrorContains(t, err, `tensor "x": npy`)
	for text, want := range map[string]string{
		"":                 "a line of dashes",
		"1 2\n":            "a line of dashes",
		"1 2\n3\n---\n":    "1 numbers in a row, the first has 2",
		"1\n---\n1\n2\n--": "2 rows in a channel, the first has 1",
		"x\n---\n":         `"x" is not a number`,
	} {
		_, err := printed([]byte(text))
		assert.ErrorContains(t, err, want, text)
	}
}

// FuzzJSON: whatever the file holds, reading it ends, with tensors or an error.
func FuzzJSON(f *testing.F) {
	for _, name := range []string{"polygraphy.json", "polygraphy-one.json", "polygraphy-inputs.json", "trtexec.json"} {
		b, err := os.ReadFile("testdata/" + name)
		require.NoError(f, err)
		f.Add(b, "onnxrt")
		f.Add(b, "")
	}
	f.Fuzz(func(t *testing.T, b []byte, part string) {
		r, err := readJSON(b, part)
		if err != nil {
			return
		}
		for _, n := range r.Names() {
			if x, err := r.Tensor(n); err == nil && x != nil {
				require.Equal(t, tensor.Count(x.Shape), x.Len())
			}
		}
		_, _ = printed(b)
	})
}
