package data_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// sparse writes a file of so many bytes that begins with head; the rest takes no room.
func sparse(t *testing.T, dir, name string, head []byte, size int64) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, head, 0o600))
	require.NoError(t, os.Truncate(path, size))
	return path
}

// npyHead is the header of an array.
func npyHead(descr, shape string) []byte {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	for (len(dict)+11)%64 != 0 {
		dict += " "
	}
	return append(append([]byte("\x93NUMPY\x01\x00"), byte(len(dict)+1), byte((len(dict)+1)>>8)), dict+"\n"...)
}

// A sample that alone takes more than there may be is refused by what its header says, with the figure, before it is read; one that fits
// and parts of files that fit are read.
func TestSamplesBeyondTheBound(t *testing.T) {
	const giga, mega = 1 << 30, 1 << 20
	dir := t.TempDir()
	wave := func(name string, bytes uint32) string {
		head := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data")
		return sparse(t, dir, name, binary.LittleEndian.AppendUint32(head, bytes), int64(len(head))+4+int64(bytes))
	}
	array := func(name, shape string, bytes int64) string {
		h := npyHead("<f4", shape)
		return sparse(t, dir, name, h, int64(len(h))+bytes)
	}
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	w, err := z.Create("x.npy")
	require.NoError(t, err)
	_, err = w.Write(npyHead("<f4", "1, 10000000"))
	require.NoError(t, err)
	zeros := make([]byte, mega)
	for left := int64(40_000_000); left > 0; left -= mega {
		_, err = w.Write(zeros[:min(left, mega)])
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	archive := filepath.Join(dir, "a.npz")
	require.NoError(t, os.WriteFile(archive, packed.Bytes(), 0o600))
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3000, 3000))))
	big := filepath.Join(dir, "p.png")
	require.NoError(t, os.WriteFile(big, picture.Bytes(), 0o600))

	line := data.InputSpec{{Name: "x", DType: tensor.Float32, Shape: graph.Shape{{N: 1}, {N: -1, Symbol: "n"}}}}
	frame := data.InputSpec{{Name: "x", DType: tensor.Float32, Shape: graph.Static(1, 1<<20)}}
	rgb := data.InputSpec{{Name: "x", DType: tensor.Float32, Shape: graph.Shape{{N: 1}, {N: 1}, {N: -1, Symbol: "h"}, {N: -1, Symbol: "w"}}}}
	for _, c := range []struct {
		name  string
		path  string
		spec  data.InputSpec
		bound int64
		least string // --mem that is said; "": it is read
	}{
		{"a wave", wave("w.wav", 1<<31-1<<20), line, giga, "--mem 4146M"},
		{"a wave that fits", wave("s.wav", 64_000), line, giga, ""},
		{"frames of a wave", wave("f.wav", 1<<31-1<<20), frame, giga, ""},
		{"an array", array("a.npy", "1, 400000000", 1_600_000_000), line, giga, "--mem 3104M"},
		{"rows of an array", array("r.npy", "400, 1048576", 400<<22), frame, giga, ""},
		{"an archive", archive, line, 100 * mega, "--mem 129M"},
		{"an archive that fits", archive, line, giga, ""},
		{"a picture", big, rgb, 100 * mega, "--mem 156M"},
		{"a picture that fits", big, rgb, giga, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, _, err := data.Open([]string{c.path}, c.spec, data.Options{Bound: c.bound, Samples: 1})
			if err == nil {
				_, err = set.Iterator().Next(t.Context())
			}
			if c.least == "" {
				require.NoError(t, err)
				return
			}
			var bound *exec.MemoryError
			require.ErrorAs(t, err, &bound)
			require.ErrorContains(t, err, c.least+" is the least")
			set, _, err = data.Open([]string{c.path}, c.spec, data.Options{Bound: bound.Bytes, Samples: 1})
			require.NoError(t, err, "what was said does")
			require.Equal(t, 1, set.Len())
		})
	}
}
