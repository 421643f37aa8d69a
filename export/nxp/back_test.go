package nxp_test

import (
	"testing"

	"qwb/export/nxp"
	"qwb/internal/exporttest"
)

func TestDamagedFilesAreFound(t *testing.T) {
	f := nxp.Format()
	for _, option := range []string{"activations", "all"} {
		options := map[string]string{"ranges": option}
		names := []string{"w", "b", "x_min", "x_max", "r_min", "z_max"}
		if option == "all" {
			names = append(names, "w_min", "b_max")
		}
		faults := append(exporttest.Rewired(options), exporttest.Crossed(options))
		for _, name := range names {
			faults = append(faults, exporttest.Damaged{What: option + " " + name, Options: options,
				Plant: exporttest.Constant(name, exporttest.Longer)})
		}
		exporttest.ReadBack(t, &f, network, "nxp_int8", faults)
	}
}
