package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// tree builds a file system in memory.
type tree map[string][]byte

func (f tree) open() fstest.MapFS {
	m := fstest.MapFS{}
	for name, b := range f {
		m[name] = &fstest.MapFile{Data: b}
	}
	return m
}

func input(name string, dims ...int) InputSpec {
	s := graph.Static(dims...)
	for i := range s {
		if s[i].N < 0 {
			s[i].N = -1
		}
	}
	return InputSpec{{Name: name, DType: tensor.Float32, Shape: s}}
}

// pngFile is a picture whose pixel at x, y is (10x, 10y, v).
func pngFile(w, h int, v uint8) []byte {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.SetNRGBA(x, y, color.NRGBA{uint8(10 * x), uint8(10 * y), v, 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func npyFile(t *tensor.Tensor) []byte {
	var b bytes.Buffer
	if err := npy.Write(&b, t); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func npzFile(arrays map[string]*tensor.Tensor) []byte {
	var b bytes.Buffer
	if err := npy.WriteArchive(&b, arrays); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func gz(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b)
	w.Close()
	return z.Bytes()
}

// idx is an idx file of unsigned bytes.
func idx(data []byte, dims ...int) []byte {
	b := []byte{0, 0, 8, uint8(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}

func ramp(n int, dims ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, dims...)
	for i := range t.F32() {
		t.F32()[i] = float32(n + i)
	}
	return t
}

// all loads every sample.
func all(t *testing.T, s *Set) []*exec.Sample {
	t.Helper()
	var list []*exec.Sample
	it := s.Iterator()
	require.Equal(t, s.Len(), it.Len())
	for {
		x, err := it.Next(context.Background())
		if err == io.EOF {
			require.Len(t, list, s.Len())
			return list
		}
		require.NoError(t, err)
		list = append(list, x)
	}
}

func open(t *testing.T, f tree, spec InputSpec, o Options, paths ...string) (*Set, []Warning) {
	t.Helper()
	o.FS = f.open()
	s, w, err := Open(paths, spec, o)
	require.NoError(t, err)
	return s, w
}

func openError(f tree, spec InputSpec, o Options, paths ...string) error {
	o.FS = f.open()
	s, _, err := Open(paths, spec, o)
	if err != nil {
		return err
	}
	it := s.Iterator()
	for {
		if _, err := it.Next(context.Background()); err != nil {
			return err
		}
	}
}

func names(list []*exec.Sample) []string {
	var out []string
	for _, s := range list {
		out = append(out, s.Name)
	}
	return out
}

func testdata(t *testing.T) string {
	root := os.Getenv("QWB_TESTDATA")
	if root == "" {
		t.Skip("QWB_TESTDATA is not set: no models and data to test with")
	}
	return root
}
