package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/drivertest"
)

// The version names the GPU that was found, or what was not, and does not fail for want of one.
func TestVersionNamesTheGPU(t *testing.T) {
	for _, c := range []struct {
		macros []string
		text   string
		json   map[string]any
	}{
		{[]string{"STUB_VERSION=12040"}, "cuda: Stub 0, compute capability 9.0, 4.0 GiB, driver 12.4\n", map[string]any{
			"available": true, "device": "Stub 0", "compute_capability": "9.0", "memory_bytes": 4.0 * (1 << 30), "driver": "12.4"}},
		{[]string{"STUB_VERSION=10020"}, "cuda: not available: NVIDIA driver is too old: it supports CUDA 10.2, qwb needs 11.0\n",
			map[string]any{"available": false, "reason": "NVIDIA driver is too old: it supports CUDA 10.2, qwb needs 11.0"}},
		{[]string{"STUB_DEVICES=0"},
			"cuda: not available: no NVIDIA GPU found (cuInit: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE))\n",
			map[string]any{"available": false,
				"reason": "no NVIDIA GPU found (cuInit: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE))"}},
	} {
		t.Setenv("QWB_CUDA_DRIVER", drivertest.Compile(t, c.macros...))
		require.Regexp(t, `^qwb \d+\.\d+\.\d+ \(revision \S+, go\S+, \w+/\w+\)\ncpu: .*\n`, done(t, "version").stdout)
		require.Contains(t, done(t, "version").stdout, "\n"+c.text)
		require.Equal(t, c.json, done(t, "version", "--json").object(t)["cuda"])
	}
	missing := t.TempDir() + "/libcuda.so.1"
	t.Setenv("QWB_CUDA_DRIVER", missing)
	r := done(t, "version")
	require.Contains(t, r.stdout, "\ncuda: not available: NVIDIA driver library not found ("+missing+": ")
	require.Empty(t, r.stderr)
}

// The tag nocuda leaves out what makes a binary need libc.
func TestNoCUDANeedsNoLibrary(t *testing.T) {
	deps := func(args ...string) string {
		c := exec.Command("go", append([]string{"list", "-deps"}, args...)...)
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		out, err := c.Output()
		require.NoError(t, err)
		return string(out)
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	require.Contains(t, deps("."), "purego")
	require.NotContains(t, deps("-tags", "nocuda", "."), "purego")
}
