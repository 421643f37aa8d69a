package encodings_test

import (
	"testing"

	"qwb/export/encodings"
	"qwb/internal/exporttest"
)

// One number of each kind that a version has.
func TestDamagedFilesAreFound(t *testing.T) {
	f := encodings.Format()
	for version, behind := range map[string][]string{
		"0.6.1": {`"scale":`, `"offset":`, `"min":`, `"max":`, `"bitwidth":`, `"w": [`, `"b": [`},
		"1.0.0": {`"scale": [`, `"offset": [`, `"bw":`, `"param_encodings": [`},
		"2.0.0": {`"y_scale":`, `"y_zero_point":`, `"axis":`, `"output_dtype": "uint`, `"y_scale": [`},
		"2.1.0": {`"y_scale":`, `"y_zero_point":`},
	} {
		options := map[string]string{"encodings": version}
		faults := []exporttest.Damaged{
			{What: "a weight", Options: options, Plant: exporttest.Constant("w", exporttest.Longer)},
			{What: "a bias", Options: options, Plant: exporttest.Constant("b", exporttest.Longer)},
		}
		faults = append(append(faults, exporttest.Rewired(options)...), exporttest.Crossed(options))
		for _, text := range behind {
			faults = append(faults, exporttest.Damaged{What: text, Options: options, Plant: exporttest.Nudged("m.encodings", text)})
		}
		t.Run(version, func(t *testing.T) { exporttest.ReadBack(t, &f, network, "qnn", faults) })
	}
}
