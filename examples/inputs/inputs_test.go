package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/cmplx"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph/tensor"
)

func TestWAV(t *testing.T) {
	wav := func(rate uint32, bits uint16, samples ...int16) []byte {
		var b bytes.Buffer
		b.WriteString("RIFF....WAVEjunk\x03\x00\x00\x00abc\x00fmt \x10\x00\x00\x00")
		for _, v := range []any{uint16(1), uint16(1), rate, rate * 2, uint16(2), bits} {
			require.NoError(t, binary.Write(&b, binary.LittleEndian, v))
		}
		b.WriteString("data")
		require.NoError(t, binary.Write(&b, binary.LittleEndian, uint32(2*len(samples))))
		require.NoError(t, binary.Write(&b, binary.LittleEndian, samples))
		return b.Bytes()
	}
	got, err := parseWAV(wav(16000, 16, 1, -2, 32767), 16000)
	require.NoError(t, err)
	require.Equal(t, []int16{1, -2, 32767}, got)
	for _, broken := range [][]byte{wav(8000, 16, 1), wav(16000, 8, 1), wav(16000, 16, 1)[:40], nil, []byte("RIFF....AVI ")} {
		_, err := parseWAV(broken, 16000)
		require.Error(t, err)
	}
}

// A tone lands in the band around its frequency, 20 dB are 2 after the scaling, and the transform is the definition's.
func TestMel(t *testing.T) {
	tone := func(hz, amplitude float64) []int16 {
		s := make([]int16, 4000)
		for i := range s {
			s[i] = int16(amplitude * math.Sin(2*math.Pi*hz*float64(i)/melRate))
		}
		return s
	}
	loudest := func(row []float32) int {
		best := 0
		for b, v := range row {
			if v > row[best] {
				best = b
			}
		}
		return best
	}
	low, high := melSpectrogram(tone(300, 10000)), melSpectrogram(tone(2500, 10000))
	require.Len(t, low, (4000-melFFT)/melHop+1)
	require.Less(t, loudest(low[3]), 10)
	require.Greater(t, loudest(high[3]), 20)
	soft := melSpectrogram(tone(2500, 1000))
	b := loudest(high[3])
	require.InDelta(t, 2, high[3][b]-soft[3][b], 0.01)

	x := make([]complex128, 16)
	for i := range x {
		x[i] = complex(float64(i*i%7), float64(i%3))
	}
	want := make([]complex128, 16)
	for k := range want {
		for i, v := range x {
			want[k] += v * cmplx.Rect(1, -2*math.Pi*float64(i*k)/16)
		}
	}
	fft(x)
	for k := range x {
		require.InDelta(t, 0, cmplx.Abs(x[k]-want[k]), 1e-9)
	}
}

func TestFiletype(t *testing.T) {
	m := magika{Beg: 8, End: 4, Padding: 256, Block: 12, Min: 3}
	require.Equal(t, []int32{'a', 'b', ' ', 'c', '\n', 256, 256, 256, 'a', 'b', ' ', 'c'}, m.ids([]byte(" \nab c\n")),
		"each end is stripped on its own side")
	require.Equal(t, []int32{'a', 'b', 'c', ' ', 256, 256, 256, 256, 256, 'a', 'b', 'c'}, m.ids([]byte("abc ")))
	require.Equal(t, []int32{'0', '1', '2', '3', '4', '5', '6', '7', 'w', 'x', 'y', 'z'}, m.ids([]byte("0123456789 wxyz\n")))
	require.Nil(t, m.ids([]byte("ab")), "too small to ask")
	require.Nil(t, m.ids([]byte("          a")), "too little behind the white space")
}

func TestTokenizer(t *testing.T) {
	tok, err := newTokenizer([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "play", "##ing", "##s", "!", "un", "the"})
	require.NoError(t, err)
	require.Equal(t, []int64{2, 9, 4, 5, 7, 3}, tok.encode("The PLAYING!", 10))
	require.Equal(t, []int64{2, 4, 6, 1, 3}, tok.encode("plays unplays", 10), "a word that does not cut up is unknown as a whole")
	require.Equal(t, []int64{2, 4, 3}, tok.encode("play play play", 3))
	_, err = newTokenizer([]string{"play"})
	require.Error(t, err)
	require.Equal(t, []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "b", "a"}, makeVocabulary([]string{"a b, b", "c b a"}, 6))
}

func TestRegions(t *testing.T) {
	p := make([]float32, 20*10)
	fill := func(left, top, right, bottom int) {
		for y := top; y < bottom; y++ {
			for x := left; x < right; x++ {
				p[y*20+x] = 0.9
			}
		}
	}
	fill(1, 5, 9, 9)
	fill(12, 1, 19, 5)
	fill(0, 0, 2, 2) // too small
	require.Equal(t, []region{{12, 1, 19, 5}, {1, 5, 9, 9}}, regions(p, 20, 10, 0.3))
}

// The program as it is called: samples in order, labels beside the folder, no overwriting.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	config := write("config.json",
		`{"beg_size":16,"end_size":16,"padding_token":256,"block_size":64,"min_file_size_for_dl":8,"target_labels_space":["css","go"]}`)
	write("corpus/go/a.go", "package main\n")
	write("corpus/css/b.css", "body { color: red }")
	write("corpus/other/c", "of no class, but a sample")
	out := filepath.Join(dir, "out")
	args := []string{"filetype", "-o", out, "-config", config, filepath.Join(dir, "corpus")}
	require.NoError(t, run(args))
	labels, err := os.ReadFile(out + ".tsv")
	require.NoError(t, err)
	require.Equal(t, "00000-css-b.npy\t0\n00001-go-a.npy\t1\n", string(labels))
	b, err := os.ReadFile(filepath.Join(out, "00002-other-c.npy"))
	require.NoError(t, err)
	a, err := npy.Read(bytes.NewReader(b))
	require.NoError(t, err)
	require.Equal(t, "i32[1,32]", a.Type())
	require.Equal(t, int32('o'), tensor.Of[int32](a)[0])
	require.ErrorContains(t, run(args), "not empty")
	require.ErrorContains(t, run([]string{"nothing"}), "inputs KIND")
	require.ErrorContains(t, run([]string{"mel"}), "-o DIR")
}
