package graphjson_test

import (
	"testing"

	"qwb/export/graphjson"
	"qwb/internal/exporttest"
)

func TestDamagedFilesAreFound(t *testing.T) {
	f := graphjson.Format()
	var faults []exporttest.Damaged
	for _, behind := range []string{`"shape": [`, `"scale": [`, `"zero_point": [`, `"bits":`} {
		faults = append(faults, exporttest.Damaged{What: behind, Plant: exporttest.Nudged("m.json", behind)})
	}
	faults = append(faults, exporttest.Damaged{What: "state", Plant: exporttest.Replace("m.json", "OVERLAPPED", "ACTIVATED")},
		exporttest.Damaged{What: "root", Plant: exporttest.Replace("m.json", "relu.out0", "conv.out0")})
	exporttest.ReadBack(t, &f, network, "onnxruntime", faults)
}
