package data

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
)

// wavFile is a WAV file of samples that lie as they are given, behind a chunk that nobody knows.
func wavFile(tag, channels, rate, bits uint16, samples ...any) []byte {
	var data, b bytes.Buffer
	for _, s := range samples {
		_ = binary.Write(&data, binary.LittleEndian, s)
	}
	le := func(x any) { _ = binary.Write(&b, binary.LittleEndian, x) }
	b.WriteString("RIFF\x00\x00\x00\x00WAVELIST\x03\x00\x00\x00abc\x00fmt ")
	le(uint32(16))
	le([]uint16{tag, channels})
	le(uint32(rate))
	le(uint32(0))
	le([]uint16{0, bits})
	b.WriteString("data")
	le(uint32(data.Len()))
	b.Write(data.Bytes())
	return b.Bytes()
}

// Waves are cut into frames, every hop samples, with zeros in front; where they are steps, a file is a sequence.
func TestWavesInFrames(t *testing.T) {
	spec := input("x", 1, 4)
	f := tree{"d/b.wav": wavFile(1, 1, 16000, 16, []int16{1 << 14, -1 << 15, 0, 1 << 13, 1 << 12}),
		"d/a.wav": wavFile(1, 1, 16000, 16, []int16{1, 2, 3, 4, 5, 6, 7, 8, 9}), "d/notes.txt": nil}
	s, warnings := open(t, f, spec, Options{}, "d")
	require.Len(t, warnings, 1, "of the text")
	list := all(t, s)
	require.Equal(t, []string{"a.wav#000000", "a.wav#000001", "b.wav"}, names(list))
	require.Equal(t, []float32{0.5, -1, 0, 0.25}, list[2].Feeds["x"].F32(), "what is left over is no frame")
	require.Equal(t, []int{1, 4}, list[0].Feeds["x"].Shape)
	s, _ = open(t, f, spec, Options{Preprocess: &plan.Preprocess{Hop: 3}}, "d/b.wav")
	list = all(t, s)
	require.Len(t, list, 1)
	require.Equal(t, []float32{0, 0.5, -1, 0}, list[0].Feeds["x"].F32())
	s, _ = open(t, f, InputSpec{{Name: "x", DType: tensor.Float32, Shape: graph.Shape{{N: 1}, {N: -1}}}}, Options{}, "d/b.wav")
	require.Equal(t, []float32{0.5, -1, 0, 0.25, 0.125}, all(t, s)[0].Feeds["x"].F32(), "an open length takes it whole")

	floats := tree{"d/a.wav": wavFile(3, 1, 8000, 32, []float32{1, 2, 4, 8}), "d/b.wav": wavFile(3, 1, 8000, 32, []float32{1, 1})}
	require.Equal(t, []string{"a.wav#000000 0/2 x[1 2] h[0 0]", "a.wav#000001 1/2 x[4 8] h[1 2]", "b.wav 0/1 x[1 1] h[0 0]"},
		states(all(t, rolling(t, filter, floats, Options{}))))
}

func TestSamplesOfWaves(t *testing.T) {
	want := []float32{0.5, -1, 0.25, 0}
	for bits, w := range map[uint16][]byte{
		8:  wavFile(1, 1, 1, 8, []uint8{192, 0, 160, 128}),
		24: wavFile(1, 1, 1, 24, []uint8{0, 0, 0x40, 0, 0, 0x80, 0, 0, 0x20, 0, 0, 0}),
		32: wavFile(1, 1, 1, 32, []int32{1 << 30, math.MinInt32, 1 << 29, 0}),
		64: wavFile(3, 1, 1, 64, []float64{0.5, -1, 0.25, 0}),
	} {
		s, _ := open(t, tree{"a.wav": w}, input("x", 1, 4), Options{}, "a.wav")
		require.Equal(t, want, all(t, s)[0].Feeds["x"].F32(), bits)
	}
	good := wavFile(1, 1, 16000, 16, []int16{1, 2, 3, 4})
	piped := bytes.Clone(good)
	binary.LittleEndian.PutUint32(piped[len(piped)-12:], math.MaxUint32)
	s, _ := open(t, tree{"a.wav": piped}, input("x", 1, 4), Options{}, "a.wav")
	require.Len(t, all(t, s), 1, "a header that was written before the samples were known")
	for _, c := range []struct {
		f    tree
		spec InputSpec
		hop  int
		want string
	}{
		{tree{"d/a.wav": good, "d/b.wav": wavFile(1, 1, 8000, 16, []int16{1, 2, 3, 4})}, input("x", 1, 4), 0,
			"8000 samples a second, a.wav has 16000"},
		{tree{"d/a.wav": wavFile(1, 2, 16000, 16, []int16{1, 2, 3, 4})}, input("x", 1, 4), 0, "2 channels: mix them"},
		{tree{"d/a.wav": wavFile(6, 1, 16000, 8, []int16{1, 2, 3, 4})}, input("x", 1, 4), 0, "samples of 8 bits in format 6"},
		{tree{"d/a.wav": good}, input("x", 1, 5), 0, "4 samples are less than a frame of 5"},
		{tree{"d/a.wav": good}, input("x", 1, 4), 5, "hop is 5, frames of input x f32[1,4] have 4"},
		{tree{"d/a.wav": good}, input("x", 2, 4), 0, "takes no waves: those have one axis"},
		{tree{"d/a.wav": good}, InputSpec{{Name: "x", DType: tensor.Int64, Shape: graph.Static(1, 4)}}, 0, "takes no waves"},
		{tree{"d/a.wav": good[:50]}, input("x", 1, 4), 0, "no chunk data"},
		{tree{"d/a.wav": good[:len(good)-2]}, input("x", 1, 3), 0, "the samples are cut off: 6 of 8 bytes"},
		{tree{"d/a.wav": append(good[:24:24], make([]byte, 1<<16)...)}, input("x", 1, 4), 0, "none of the first 1000 chunks is data"},
		{tree{"d/a.wav": wavFile(1, 1, 16000, 16)}, InputSpec{{Name: "x", DType: tensor.Float32, Shape: graph.Shape{{N: -1}}}}, 0,
			"there are no samples"},
		{tree{"d/a.wav": wavFile(3, 1, 1, 32, []float32{1, 2, float32(math.NaN()), 1})}, input("x", 1, 4), 0, "NaN"},
	} {
		err := openError(c.f, c.spec, Options{Preprocess: &plan.Preprocess{Hop: c.hop}}, "d")
		if err == nil {
			s, _ := open(t, c.f, c.spec, Options{}, "d")
			_, err = s.Sample(0)
		}
		require.ErrorContains(t, err, c.want)
	}
}
