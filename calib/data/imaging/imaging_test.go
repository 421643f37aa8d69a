package imaging

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

// pattern is what testdata/resize.txt was made from.
func pattern(w, h, c int) *Image {
	m := New(w, h, c)
	for i := range m.Pix {
		x, y, ch := i/c%w, i/c/w, i%c
		m.Pix[i] = uint8(x*7 + y*13 + x*y*3 + ch*85 + (x/3)*(y/2)*41)
	}
	return m
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// testdata/resize.txt holds what Pillow 13 makes of the pattern: filter, width, height and channels of the source, width and
// height of the result, and the result in hexadecimal or its hash.
func TestResizeIsThatOfPillow(t *testing.T) {
	list, err := os.ReadFile("testdata/resize.txt")
	require.NoError(t, err)
	seen := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		var filter, want string
		var w, h, c, ow, oh int
		_, err := fmt.Sscan(line, &filter, &w, &h, &c, &ow, &oh, &want)
		require.NoError(t, err)
		f, ok := FilterByName(filter)
		require.True(t, ok, filter)
		got := pattern(w, h, c).Resize(ow, oh, f)
		require.Equal(t, []int{ow, oh, c}, []int{got.W, got.H, got.C})
		if hash, ok := strings.CutPrefix(want, "sha256:"); ok {
			require.Equal(t, hash, sum(got.Pix), line)
		} else {
			require.Equal(t, want, hex.EncodeToString(got.Pix), line)
		}
		seen[filter]++
	}
	for _, f := range filters {
		require.Equal(t, 8, seen[f.Name], f.Name)
	}
}

func TestResizeKeepsConstantPictures(t *testing.T) {
	m := New(31, 17, 3)
	for i := range m.Pix {
		m.Pix[i] = 201
	}
	for _, f := range filters {
		for _, v := range m.Resize(12, 40, f).Pix {
			require.EqualValues(t, 201, v, f.Name)
		}
	}
	require.Same(t, m, m.Resize(31, 17, filters[2]))
	_, ok := FilterByName("cubic")
	require.False(t, ok)
}

// testdata/pixels.txt holds size and hashes of Pillow's convert("RGB") and convert("L").
func TestPixelsAreThoseOfPillow(t *testing.T) {
	list, err := os.ReadFile("testdata/pixels.txt")
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		var name, rgb, grey string
		var w, h int
		_, err := fmt.Sscan(line, &name, &w, &h, &rgb, &grey)
		require.NoError(t, err)
		src, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		m, err := Decode(src)
		require.NoError(t, err, name)
		require.Equal(t, []int{w, h}, []int{m.W, m.H}, name)
		require.Equal(t, rgb, sum(m.RGB().Pix), name)
		require.Equal(t, grey, sum(m.Grey().Pix), name)
		for n := range len(src) - 13 { // without the end: the tail of a PNG is an empty chunk
			_, err := Decode(src[:n])
			require.Error(t, err, "%s cut to %d of %d bytes", name, n, len(src))
		}
	}
	_, err = Decode([]byte("GIF89a, an image of another kind"))
	require.ErrorContains(t, err, "neither JPEG, PNG nor WebP")
	_, err = Decode(nil)
	require.ErrorContains(t, err, "the file is empty")
}

func TestCenterCropRoundsItsOffsetDown(t *testing.T) {
	m := pattern(7, 6, 1)
	got, err := m.CenterCrop(3, 4) // margins of 3 and 3: one above and left, two below and right
	require.NoError(t, err)
	for y := range 3 {
		require.Equal(t, m.Pix[(y+1)*7+1:][:4], got.Pix[y*4:][:4])
	}
	_, err = m.CenterCrop(7, 1)
	require.ErrorContains(t, err, "7x1 (height x width) out of an image of 6x7")
}

func FuzzDecode(f *testing.F) {
	files, err := os.ReadDir("testdata")
	require.NoError(f, err)
	for _, e := range files {
		src, err := os.ReadFile("testdata/" + e.Name())
		require.NoError(f, err)
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1<<16 || bytes.HasPrefix(src, []byte("\x89PNG")) && len(src) > 24 && (src[18] > 4 || src[22] > 4 ||
			src[16]|src[17]|src[20]|src[21] != 0) {
			return // large claims are the business of the size limit, not of this test's memory
		}
		m, err := Decode(src)
		if err == nil {
			require.Len(t, m.Pix, m.W*m.H*m.C)
		}
	})
}
