// Package cudatest gives tests devices to run kernels on: the interpreter of package emulate with every check it makes, and a GPU
// where there is one.
//
// Unstable: it may change without notice.
package cudatest

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda"
	"qwb/kernels/cuda/emulate"
)

// Each runs a test on the devices that QWB_GPU says:
//
//	also (or nothing)  interpreted devices of compute capability 6.1 and 8.0, and a GPU where one is found
//	only               the GPU alone; the test fails where there is none
//	off                interpreted devices alone
func Each(t *testing.T, test func(t *testing.T, d *cuda.Device)) {
	t.Helper()
	On(t, []int{61, 80}, test)
}

// On is Each with interpreted devices of other compute capabilities.
func On(t *testing.T, archs []int, test func(t *testing.T, d *cuda.Device)) {
	t.Helper()
	mode := os.Getenv("QWB_GPU")
	switch mode {
	case "", "also", "only", "off":
	default:
		t.Fatalf("QWB_GPU is %q: only, also or off", mode)
	}
	if mode != "only" {
		for _, arch := range archs {
			t.Run(fmt.Sprintf("sm_%d", arch), func(t *testing.T) { test(t, Device(t, arch)) })
		}
	}
	if mode == "off" {
		return
	}
	d, err := openGPU()
	if err != nil {
		if mode == "only" {
			t.Fatalf("QWB_GPU=only: %v", err)
		}
		return
	}
	t.Run("gpu", func(t *testing.T) {
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				forgetGPU() // what a kernel did wrong, every call in its context would say again
				require.NoError(t, err)
			}
		})
		test(t, d)
	})
}

// Omissions, if not nil, are tried by devices that Device returns.
var Omissions *emulate.Omissions

// Device returns an interpreted device of a compute capability, which is closed when the test ends. With QWB_BLOCKCHECK=1 it also
// checks that the blocks of a launch do not meet in global memory, which takes several times as long.
func Device(t testing.TB, arch int) *cuda.Device {
	t.Helper()
	options := emulate.Checked
	options.Blockcheck = os.Getenv("QWB_BLOCKCHECK") == "1"
	options.Omissions = Omissions
	d, err := cuda.OpenOn(emulate.Open(arch, options), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() }) // it fails again where a kernel did, which the test has seen
	return d
}
