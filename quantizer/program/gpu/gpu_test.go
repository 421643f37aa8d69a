package gpu_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/cudatest"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/internal/programtest"
	"qwb/internal/targettest"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
	"qwb/kernels/ref"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/gpu"
	"qwb/quantizer/target"
)

// needFMA skips a test of programs with float islands where the processor computes other last bits than the device.
func needFMA(t *testing.T) {
	t.Helper()
	if a := kernels.Select(cpu.Detect()).Arith(); a != ref.FMA32 {
		t.Skipf("the processor's kernels compute in %s: the last bits of its islands are others", a)
	}
}

// The device computes the integers of the reference, on every target and under every profile that lowers the network.
func TestCUDAEqualsReference(t *testing.T) {
	needFMA(t)
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		list := []program.Backend{gpu.On(d)}
		compared, long := 0, longtest.Wanted(t)
		for n, name := range slices.Sorted(maps.Keys(lowertest.Networks)) {
			text := lowertest.Networks[name]
			for k, tg := range targettest.Distinct() {
				for i, pr := range qmath.Profiles() {
					if d.Emulated && ((i+n+d.Arch)%2 != 0 || !long && (i+k)%8 != 0) {
						continue // the other one of the interpreted devices, 61 and 80
					}
					t.Run(fmt.Sprintf("%s/%s/%s", name, tg.Name, pr.Name), func(t *testing.T) {
						g, set, feeds := lowertest.Configured(t, text, tg.Name)
						p, err := lower.Compile(g, set, tg, pr)
						if err != nil {
							t.Skip("does not apply: " + err.Error())
						}
						compared += programtest.Equal(t, p, feeds, list, 2)
					})
				}
			}
		}
		t.Logf("%d integers", compared)
		require.Positive(t, compared)
	})
}

// Random programs give the same integers on the reference and on the device: every shape and layout, and every profile that lowers
// them. QWB_RANDOM is how many networks to try.
func TestCUDARandom(t *testing.T) {
	needFMA(t)
	count := 30
	if n, err := strconv.Atoi(os.Getenv("QWB_RANDOM")); err == nil {
		count = n
	}
	if !longtest.Wanted(t) {
		count = min(count, 8)
	}
	first, _ := strconv.ParseUint(os.Getenv("QWB_RANDOM_FIRST"), 10, 64)
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		list := []program.Backend{gpu.On(d)}
		compared, programs := 0, 0
		for seed := range uint64(count) {
			seed += first
			text, tg := lowertest.Random(seed, 0), lowertest.RandomTarget(seed)
			g, set, feeds := lowertest.ConfiguredFor(t, text, &tg)
			if seed%2 == 1 {
				lowertest.Disturb(t, seed, g, set)
			}
			for i, pr := range qmath.Profiles() {
				if d.Emulated && (uint64(i)+seed)%4 != 0 {
					continue
				}
				p, err := lower.Compile(g, set, &tg, pr)
				if err != nil {
					continue // this profile has no form for something in it
				}
				if !t.Run(strconv.FormatUint(seed, 10)+"/"+pr.Name, func(t *testing.T) { compared += programtest.Equal(t, p, feeds, list, 2) }) {
					t.Fatalf("%s:\n%s", tg.Name, text)
				}
				programs++
			}
		}
		t.Logf("%d programs, %d integers", programs, compared)
		require.Positive(t, programs)
	})
}

// Integers of other widths and weights of other kinds are computed as the reference does, sums of 64 bits too.
func TestCUDAOtherSchemes(t *testing.T) {
	needFMA(t)
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		list := []program.Backend{gpu.On(d)}
		compared, at := 0, 0
		for _, name := range slices.Sorted(maps.Keys(programtest.Schemes)) {
			for _, network := range slices.Sorted(maps.Keys(lowertest.Networks)) {
				for i, base := range []target.Target{target.ONNXRuntime, target.TRTInt8} {
					if at++; d.Emulated && (at+at/4+d.Arch)%4 != 0 {
						continue
					}
					profile := base.Profile
					switch {
					case name == "powers of two" && base.Placement.Outputs():
						profile = "pow2-half-even"
					case i == 0 && at%3 == 0:
						profile = "tflite2"
					}
					t.Run(name+"/"+network+"/"+base.Name+"/"+profile, func(t *testing.T) {
						programtest.Schemes[name](&base)
						g, set, feeds := lowertest.ConfiguredFor(t, lowertest.Networks[network], &base)
						pr, err := qmath.ProfileNamed(profile)
						require.NoError(t, err)
						p, err := lower.Compile(g, set, &base, pr)
						if err != nil {
							t.Skip("does not apply: " + err.Error())
						}
						compared += programtest.Equal(t, p, feeds, list, 2)
					})
				}
			}
		}
		t.Logf("%d integers", compared)
		require.Positive(t, compared)
		for _, profile := range []string{"tflite2", "tflite1", "ort", "onnx", "tvm-nearest", "tvm-a64", "ncnn"} {
			p, _, _ := programtest.SumsOf16(t, programtest.ManyTerms, profile)
			x := graphtest.Normal(5, 2, 4000)
			for i := range x.F32()[:4000] {
				x.F32()[i] = 100 // all saturate
			}
			programtest.Equal(t, p, map[string]*tensor.Tensor{"x": x}, list, 2)
		}
	})
}
