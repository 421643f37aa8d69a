package driver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/drivertest"
	"qwb/kernels/cuda/driver"
)

// TestOpenSaysWhatIsMissing holds that each reason is one line and can be told apart.
func TestOpenSaysWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		name   string
		macros []string
		is     error
		text   string
	}{
		{"a driver of CUDA 10.2", []string{"STUB_VERSION=10020"}, driver.ErrOldDriver,
			"NVIDIA driver is too old: it supports CUDA 10.2, qwb needs 11.0"},
		{"the version comes before what it lacks", []string{"STUB_VERSION=10000", "cuStreamEndCapture=left_out"}, driver.ErrOldDriver,
			"NVIDIA driver is too old: it supports CUDA 10.0, qwb needs 11.0"},
		{"a function is missing", []string{"cuStreamEndCapture=left_out"}, driver.ErrOldDriver,
			"NVIDIA driver is too old: it lacks cuStreamEndCapture"},
		{"a newer version of a function is missing", []string{"cuMemAlloc_v2=cuMemAlloc"}, driver.ErrOldDriver,
			"NVIDIA driver is too old: it lacks cuMemAlloc_v2"},
		{"no version", []string{"cuDriverGetVersion=left_out"}, driver.ErrOldDriver,
			"NVIDIA driver is too old: it lacks cuDriverGetVersion"},
		{"both ways to instantiate", []string{"cuGraphInstantiateWithFlags=left_out", "cuGraphInstantiate_v2=left_out_too"},
			driver.ErrOldDriver, "NVIDIA driver is too old: it lacks cuGraphInstantiateWithFlags"},
		{"no device", []string{"STUB_DEVICES=0"}, driver.ErrNoDevice,
			"no NVIDIA GPU found (cuInit: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE))"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := driver.OpenFile(drivertest.New(t, c.macros...).Path)
			require.ErrorIs(t, err, c.is)
			require.EqualError(t, err, c.text)
		})
	}
}

// TestOpenPassesOnWhatInitFailsWith: a driver that does not fit the kernel's module is neither absent nor old.
func TestOpenPassesOnWhatInitFailsWith(t *testing.T) {
	_, err := driver.OpenFile(drivertest.New(t, "STUB_INIT=803").Path)
	var r *driver.Result
	require.ErrorAs(t, err, &r)
	require.Equal(t, 803, r.Code)
	require.EqualError(t, err, "cuInit: system has unsupported display driver / cuda driver combination (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)")
	for _, e := range []error{driver.ErrNoDriver, driver.ErrOldDriver, driver.ErrNoDevice} {
		require.NotErrorIs(t, err, e)
	}

	_, err = driver.OpenFile(drivertest.New(t, "STUB_INIT=4242").Path)
	require.EqualError(t, err, "cuInit: unknown error (CUresult 4242)", "a code that the driver has no words for")
}

func TestOpenWithoutLibrary(t *testing.T) {
	drivertest.Compile(t) // skips where this build has no binding
	broken := filepath.Join(t.TempDir(), "libcuda.so.1")
	require.NoError(t, os.WriteFile(broken, []byte("no library"), 0o600))
	for _, path := range []string{filepath.Join(t.TempDir(), "nothing.so"), broken} {
		_, err := driver.OpenFile(path)
		require.ErrorIs(t, err, driver.ErrNoDriver)
		require.True(t, strings.HasPrefix(err.Error(), "NVIDIA driver library not found ("+path+": "), err)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestOpenTakesTheLibraryOfTheEnvironment(t *testing.T) {
	s := drivertest.New(t, "STUB_VERSION=12040")
	t.Setenv("QWB_CUDA_DRIVER", s.Path)
	api, err := driver.Open()
	require.NoError(t, err)
	v, err := api.Version()
	require.NoError(t, err)
	require.Equal(t, 12040, v)
}

// TestOpenOfThisMachine holds on machines with and without a GPU: a driver, or one line.
func TestOpenOfThisMachine(t *testing.T) {
	api, err := driver.Open()
	if err != nil {
		require.Nil(t, api)
		require.NotContains(t, err.Error(), "\n")
		t.Log(err)
		return
	}
	n, err := api.DeviceCount()
	require.NoError(t, err)
	require.Positive(t, n)
}

func TestResultIsOneLine(t *testing.T) {
	r := &driver.Result{Code: driver.InvalidPTX, Name: "CUDA_ERROR_INVALID_PTX", Text: "a PTX JIT compilation failed",
		Call: "cuModuleLoadDataEx", Log: "line 3; error\nfatal\r\n"}
	require.EqualError(t, r, "cuModuleLoadDataEx: a PTX JIT compilation failed (CUDA_ERROR_INVALID_PTX): line 3; error; fatal")
}
