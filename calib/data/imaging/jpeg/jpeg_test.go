package jpeg

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const limit = 1 << 20

// testdata/pixels.txt holds, for each file, the hash of the pixels that Pillow 13 with libjpeg-turbo decodes. 440 and 411
// are files whose sampling factors were rewritten.
func TestPixelsAreThoseOfLibjpeg(t *testing.T) {
	list, err := os.ReadFile("testdata/pixels.txt")
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		var name, want string
		var w, h, c int
		_, err := fmt.Sscan(line, &name, &w, &h, &c, &want)
		require.NoError(t, err)
		src, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		p, err := Decode(src, limit)
		require.NoError(t, err, name)
		require.Equal(t, []int{w, h, c}, []int{p.W, p.H, p.C}, name)
		sum := sha256.Sum256(p.Pix)
		require.Equal(t, want, hex.EncodeToString(sum[:]), name)
	}
}

// A file cut anywhere before the end of its data is an error, never a picture with a grey bottom.
func TestCutFilesAreErrors(t *testing.T) {
	for _, name := range []string{"420", "progressive", "restart"} {
		src, err := os.ReadFile("testdata/" + name + ".jpg")
		require.NoError(t, err)
		for n := range len(src) - 4 {
			_, err := Decode(src[:n], limit)
			require.Error(t, err, "%s cut to %d of %d bytes", name, n, len(src))
		}
	}
}

func TestUnsupportedAndDamaged(t *testing.T) {
	src, err := os.ReadFile("testdata/420.jpg")
	require.NoError(t, err)
	sof := bytes.Index(src, []byte{0xff, 0xc0})
	change := func(at int, b ...byte) []byte {
		c := bytes.Clone(src)
		copy(c[at:], b)
		return c
	}
	for _, c := range []struct {
		src  []byte
		want string
	}{
		{change(sof+1, 0xc9), "arithmetic coding"},
		{change(sof+1, 0xc3), "lossless"},
		{change(sof+4, 12), "12 bits per sample"},
		{change(sof+5, 0x10), "cut off"},
		{change(sof+11, 0x32, 0, 2, 0x22), "fractional subsampling"},
		{change(sof+11, 0x52), "bad frame header"},
		{change(0, 0), "not a JPEG"},
		{append(bytes.Clone(src[:sof]), 0xff, 0xd9), "too early"},
		{bytes.Replace(src, []byte{0xff, 0xdb}, []byte{0xff, 0xe5}, 1), "quantization table is missing"},
		{bytes.ReplaceAll(src, []byte{0xff, 0xc4}, []byte{0xff, 0xe5}), "Huffman table is missing"},
	} {
		_, err := Decode(c.src, limit)
		require.ErrorContains(t, err, c.want)
	}
	_, err = Decode(src, 35*33-1)
	require.ErrorContains(t, err, "35x33 pixels are out of bounds")

	src, err = os.ReadFile("testdata/restart.jpg")
	require.NoError(t, err)
	_, err = Decode(bytes.Replace(src, []byte{0xff, 0xd1}, []byte{0xff, 0xd2}, 1), limit)
	require.ErrorContains(t, err, "restart marker is missing")
}

func FuzzDecode(f *testing.F) {
	files, err := os.ReadDir("testdata")
	require.NoError(f, err)
	for _, e := range files {
		if strings.HasSuffix(e.Name(), ".jpg") {
			src, err := os.ReadFile("testdata/" + e.Name())
			require.NoError(f, err)
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := Decode(src, limit)
		if err == nil {
			require.Len(t, p.Pix, p.W*p.H*p.C)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	src, err := os.ReadFile("testdata/420.jpg")
	require.NoError(b, err)
	for b.Loop() {
		if _, err := Decode(src, limit); err != nil {
			b.Fatal(err)
		}
	}
}
