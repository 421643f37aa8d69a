package main

import (
	"flag"
	"math"
	"math/cmplx"

	"qwb/graph/tensor"
)

// The front end of Google's speech embedding, as openWakeWord computes it: frames of 512 samples every 10 ms at 16 kHz under a
// periodic Hann window of 400 samples in their middle, power in 32 triangular mel bands (HTK's scale) from 60 to 3800 Hz, decibels
// of 16-bit amplitudes, at most 80 below the loudest, divided by 10, plus 2.
const (
	melRate, melHop, melWindow, melFFT = 16000, 160, 400, 512
	melBands, melLow, melHigh          = 32, 60.0, 3800.0
)

// startMel cuts spectrograms into windows of 76 frames (0.76 s), 8 apart.
func startMel(f *flag.FlagSet) maker {
	frames := f.Int("frames", 76, "frames per window")
	step := f.Int("step", 8, "frames between windows")
	return func(files []string, out *sink) error {
		for _, file := range files {
			samples, err := readWAV(file, melRate)
			if err != nil {
				return err
			}
			rows := melSpectrogram(samples)
			for at := 0; at+*frames <= len(rows); at += *step {
				t := tensor.New(tensor.Float32, 1, *frames, melBands, 1)
				for i, row := range rows[at:][:*frames] {
					copy(t.F32()[i*melBands:], row)
				}
				if err := out.array(base(file), t, -1); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// melSpectrogram gives a row of melBands numbers per hop.
func melSpectrogram(samples []int16) [][]float32 {
	bands := melFilters()
	var rows [][]float32
	loudest := math.Inf(-1)
	for at := 0; at+melFFT <= len(samples); at += melHop {
		spectrum := make([]complex128, melFFT)
		for i := range melWindow {
			k := i + (melFFT-melWindow)/2
			hann := 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/melWindow)
			spectrum[k] = complex(hann*float64(samples[at+k]), 0)
		}
		fft(spectrum)
		row := make([]float32, melBands)
		for b, weights := range bands {
			power := 0.0
			for k, w := range weights {
				power += w * (real(spectrum[k])*real(spectrum[k]) + imag(spectrum[k])*imag(spectrum[k]))
			}
			db := 10 * math.Log10(max(power, 1e-10))
			loudest = max(loudest, db)
			row[b] = float32(db)
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		for b := range row {
			row[b] = max(row[b], float32(loudest-80))/10 + 2
		}
	}
	return rows
}

// melFilters are triangles over the bins of the spectrum, of unit area, equally spaced on the mel scale.
func melFilters() [][]float64 {
	mel := func(hz float64) float64 { return 2595 * math.Log10(1+hz/700) }
	edge := func(i int) float64 {
		m := mel(melLow) + (mel(melHigh)-mel(melLow))*float64(i)/(melBands+1)
		return 700 * (math.Pow(10, m/2595) - 1)
	}
	bands := make([][]float64, melBands)
	for b := range bands {
		low, middle, high := edge(b), edge(b+1), edge(b+2)
		bands[b] = make([]float64, melFFT/2+1)
		for k := range bands[b] {
			hz := float64(k) * melRate / melFFT
			rise, fall := (hz-low)/(middle-low), (high-hz)/(high-middle)
			bands[b][k] = max(0, min(rise, fall)) * 2 / (high - low)
		}
	}
	return bands
}

// fft is the discrete Fourier transform in place; the length is a power of two.
func fft(x []complex128) {
	n := len(x)
	if n == 1 {
		return
	}
	even, odd := make([]complex128, n/2), make([]complex128, n/2)
	for i := range even {
		even[i], odd[i] = x[2*i], x[2*i+1]
	}
	fft(even)
	fft(odd)
	for k := range even {
		t := cmplx.Rect(1, -2*math.Pi*float64(k)/float64(n)) * odd[k]
		x[k], x[k+n/2] = even[k]+t, even[k]-t
	}
}
