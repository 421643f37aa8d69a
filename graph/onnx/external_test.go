package onnx

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// external is a TensorProto of float32 whose data lies in another file; empty offset or length are left out.
func external(name, location, offset, length string, dims ...int64) msg {
	m := msg{}
	for _, d := range dims {
		m = m.int(1, d)
	}
	m = m.int(2, 1).str(8, name)
	for _, kv := range [][2]string{{"location", location}, {"offset", offset}, {"length", length}} {
		if kv[1] != "" {
			m = m.add(13, msg{}.str(1, kv[0]).str(2, kv[1]))
		}
	}
	return m.int(14, 1)
}

// around is a model y = Add(x, w) with w given.
func around(w msg) []byte {
	return model(msg{}.add(1, node("Add", "add", []string{"y"}, []string{"x", "w"})).str(2, "g").add(5, w).
		add(11, info("x", 2)).add(12, info("y", 2)))
}

func little(v ...float32) []byte {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func TestExternalData(t *testing.T) {
	files := fstest.MapFS{"sub/w.bin": {Data: append([]byte("abc"), little(1, 2, 3)...)}}
	for what, w := range map[string]msg{
		"offset and length": external("w", "sub/w.bin", "3", "8", 2),
		"no length":         external("w", "sub/w.bin", "3", "", 2),
		"at the end":        external("w", "sub/w.bin", "7", "8", 2),
	} {
		b := around(w)
		m, _, err := Read(strings.NewReader(string(b)), int64(len(b)), FSResolver(files))
		require.NoError(t, err, what)
		id, _ := m.Graph.Lookup("w")
		want := []float32{1, 2}
		if what == "at the end" {
			want = []float32{2, 3}
		}
		assert.Equal(t, want, m.Graph.Const(id).F32(), what)

		inline := mustRead(t, written(t, m)) // a stream has no files beside it
		assert.True(t, sameGraph(m.Graph, inline.Graph), what)
	}
}

func TestExternalDataRefuses(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(outside, little(1, 2), 0o644))
	inside := filepath.Join(dir, "model")
	require.NoError(t, os.Mkdir(inside, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(inside, "w.bin"), little(1, 2), 0o644))
	require.NoError(t, os.Symlink(outside, filepath.Join(inside, "link")))
	require.NoError(t, os.Symlink("w.bin", filepath.Join(inside, "good")))
	require.NoError(t, os.Mkdir(filepath.Join(inside, "folder"), 0o755))
	path := filepath.Join(inside, "m.onnx")
	huge := strconv.FormatInt(math.MaxInt64, 10)
	cases := []struct {
		what string
		w    msg
		says string
	}{
		{"absolute", external("w", outside, "", "", 2), "inside the model's folder"},
		{"up", external("w", "../secret", "", "", 2), "inside the model's folder"},
		{"up in the middle", external("w", "folder/../../secret", "", "", 2), "inside the model's folder"},
		{"backslashes", external("w", `..\secret`, "", "", 2), "inside the model's folder"},
		{"a drive", external("w", "C:/secret", "", "", 2), "inside the model's folder"},
		{"empty", external("w", "", "", "", 2), "inside the model's folder"},
		{"a link out of the folder", external("w", "link", "", "", 2), `external data at "link"`},
		{"a folder", external("w", "folder", "", "", 2), "not a regular file"},
		{"missing", external("w", "none.bin", "", "", 2), "no such file"},
		{"offset beyond the end", external("w", "w.bin", "9", "", 2), "beyond the 8 bytes"},
		{"length beyond the end", external("w", "w.bin", "4", "8", 2), "beyond the 8 bytes"},
		{"offset and length that overflow", external("w", "w.bin", huge, huge, 2), "beyond the 8 bytes"},
		{"length that overflows", external("w", "w.bin", "1", huge, 2), "beyond the 8 bytes"},
		{"negative offset", external("w", "w.bin", "-1", "8", 2), "not a size"},
		{"negative length", external("w", "w.bin", "0", "-8", 2), "not a size"},
		{"offset that is no number", external("w", "w.bin", "0x8", "8", 2), "not a size"},
		{"shape beyond the file", external("w", "w.bin", "", "", 3), "needs more than the 8 bytes present"},
		{"shape that overflows", external("w", "w.bin", "", "", 1<<32, 1<<32), "needs more than the 8 bytes present"},
		{"length of another shape", external("w", "w.bin", "0", "4", 2), "does not agree with the 4 bytes"},
	}
	for _, c := range cases {
		require.NoError(t, os.WriteFile(path, around(c.w), 0o644))
		_, _, err := Open(path)
		if assert.Error(t, err, c.what) {
			assert.Contains(t, err.Error(), c.says, c.what)
			assert.Contains(t, err.Error(), path, c.what)
			assert.Contains(t, err.Error(), `initializer "w"`, c.what)
		}
	}
	require.NoError(t, os.WriteFile(path, around(external("w", "good", "", "", 2)), 0o644))
	m, _, err := Open(path)
	require.NoError(t, err, "a link inside the folder")
	require.NoError(t, m.Close())
}

// TestSaveWithExternalData saves a model that refers to another file: unchanged into another folder, and changed.
func TestSaveWithExternalData(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	data := make([]byte, 3*4096)
	for i := range data {
		data[i] = byte(i * 7)
	}
	require.NoError(t, os.WriteFile(filepath.Join(from, "w.bin"), data, 0o644))
	b := around(external("w", "w.bin", "4096", "8192", 2, 1024))
	require.NoError(t, os.WriteFile(filepath.Join(from, "m.onnx"), b, 0o644))
	m, _, err := Open(filepath.Join(from, "m.onnx"))
	require.NoError(t, err)
	defer m.Close()

	path := filepath.Join(to, "m.onnx")
	require.NoError(t, m.Save(path, SaveOptions{}))
	assertFile(t, path, b)
	assertFile(t, filepath.Join(to, "w.bin"), data)
	require.NoError(t, m.Save(path, SaveOptions{}), "again, over itself")

	ended, end := context.WithCancel(t.Context())
	end()
	_, err = m.DigestContext(ended)
	require.ErrorIs(t, err, context.Canceled)
	digest, err := m.Digest()
	require.NoError(t, err)
	assert.Equal(t, sum([]byte(sum(b)+"\n"+sum(data)+"  w.bin\n")), digest)

	require.NoError(t, os.WriteFile(filepath.Join(to, "w.bin"), data[1:], 0o644))
	require.ErrorContains(t, m.Save(path, SaveOptions{}), "has other content")
	assertFile(t, path, b)
	require.NoError(t, os.Remove(filepath.Join(to, "w.bin")))

	m.Doc = "changed"
	require.NoError(t, m.Save(path, SaveOptions{}))
	assert.Equal(t, []string{"m.onnx"}, list(t, to), "small enough to be one file")
	whole, _, err := Open(path)
	require.NoError(t, err)
	assert.True(t, sameGraph(m.Graph, whole.Graph))
	require.NoError(t, whole.Close())

	require.NoError(t, m.Save(path, SaveOptions{ExternalAbove: 100}))
	assert.Equal(t, []string{"m.onnx", "m.onnx.data"}, list(t, to))
	split, _, err := Open(path)
	require.NoError(t, err)
	assert.True(t, sameGraph(m.Graph, split.Graph))
	require.NoError(t, split.Close())
}

// TestLargeModelsAreSplit checks where tensors lie in the data file.
func TestLargeModelsAreSplit(t *testing.T) {
	dir := t.TempDir()
	m := mustRead(t, around(floats("w", []int64{2}, string(little(1, 2)))))
	for i, n := range []int{1, 2000, 300, 5000} {
		v := m.Graph.AddConst("c", tensor.New(tensor.Float32, n))
		m.Graph.Const(v).F32()[n-1] = float32(i + 1)
		m.Graph.Outputs = append(m.Graph.Outputs, v)
	}
	path := filepath.Join(dir, "big.onnx")
	require.NoError(t, m.Save(path, SaveOptions{ExternalAbove: 1}))
	data, err := os.ReadFile(path + ".data")
	require.NoError(t, err)
	require.Len(t, data, 12288+20000)
	assert.Equal(t, little(2), data[7996:8000])
	assert.Equal(t, little(3), data[8192+1196:8192+1200])
	assert.Equal(t, little(4), data[12288+19996:])
	back, _, err := Open(path)
	require.NoError(t, err)
	defer back.Close()
	assert.True(t, sameGraph(m.Graph, back.Graph))
	again := filepath.Join(dir, "again")
	require.NoError(t, os.Mkdir(again, 0o755))
	require.NoError(t, m.Save(filepath.Join(again, "big.onnx"), SaveOptions{ExternalAbove: 1}))
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	assertFile(t, filepath.Join(again, "big.onnx"), first)
}

func assertFile(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, sum(want), sum(got), path)
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
