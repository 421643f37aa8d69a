package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"qwb/calib/data/npy"
	"qwb/graph/tensor"
)

// startWakeword reads the benchmark's calibration archive: `specs`, spectrograms of TensorFlow's layout (time, 1, bands) in float64,
// and `labels`. The converted network takes channels first, (bands, time, 1).
func startWakeword(*flag.FlagSet) maker {
	return func(files []string, out *sink) error {
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			a, err := npy.OpenArchive(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			specs, err := a.Read("specs")
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			labels, err := a.Read("labels")
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			values, classes := tensor.Of[float64](specs), tensor.Of[float64](labels)
			if s := specs.Shape; len(s) != 4 || s[2] != 1 || values == nil || len(classes) != s[0] {
				return fmt.Errorf("%s: specs are %s, labels %s: f64[n,time,1,bands] and f64[n] are what is read", file, specs.Type(), labels.Type())
			}
			times, bands := specs.Shape[1], specs.Shape[3]
			for i := range specs.Shape[0] {
				t := tensor.New(tensor.Float32, 1, bands, times, 1)
				for k := range times * bands {
					t.F32()[k%bands*times+k/bands] = float32(values[i*times*bands+k])
				}
				if err := out.array("spectrogram", t, int(classes[i])); err != nil {
					return err
				}
			}
		}
		return nil
	}
}
