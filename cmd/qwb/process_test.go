//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/file"
	"qwb/internal/longtest"
)

// TestMain lets the test binary stand in for qwb: with QWB_TEST_MAIN set it runs its arguments as a command line, under the
// limit on the size of files that QWB_TEST_FSIZE names.
func TestMain(m *testing.M) {
	if os.Getenv("QWB_TEST_MAIN") == "" {
		debug.SetGCPercent(400) // hundreds of small commands in one process: a tenth of the time went into collecting
		os.Exit(m.Run())
	}
	if limit, err := strconv.ParseUint(os.Getenv("QWB_TEST_FSIZE"), 10, 32); err == nil {
		signal.Ignore(syscall.SIGXFSZ) // the write fails instead
		if err := limitFiles(limit); err != nil {
			panic(err)
		}
	}
	main()
}

// process is a command line to run in a process of its own.
func process(fsize int, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "QWB_TEST_MAIN=1")
	if fsize > 0 {
		c.Env = append(c.Env, "QWB_TEST_FSIZE="+strconv.Itoa(fsize))
	}
	return c
}

// A write that fails midway, as on a full device, leaves every file as it was, and no others.
func TestNoSpaceLeft(t *testing.T) {
	calibrated(t)
	done(t, "dispatch", "--fp32", "conv1")
	before := tree(t, ".")
	failed, limits := 0, []int{1, 1 << 10, 12 << 10}
	if longtest.Wanted(t) {
		limits = []int{1, 100, 1 << 10, 4 << 10, 12 << 10}
	}
	for _, args := range [][]string{
		{"calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime"},
		{"calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "-o", "new.plan.json"},
		{"calibrate", "m.onnx", "--platform", "onnxruntime"},
		{"dispatch", "--fp32", "gemm"},
		{"export", "--platform", "trt_int8", "-o", "out.onnx"},
		{"analyze", "--html", "report.html"},
		{"analyze"},
		{"preprocess", "m.onnx", "--data", "data", "--dump", "new/folder"},
		{"run", "m.onnx", "--input", "x=data/00.npy", "--output", "new/folder"},
		{"preprocess", "m.onnx", "--data", "data", "--dump", "data"},
		{"run", "m.onnx", "--input", "x=data/00.npy", "--output", "."},
	} {
		for _, limit := range limits {
			out, err := process(limit, args...).CombinedOutput()
			if err == nil { // everything that it wrote is smaller
				require.NotEqual(t, 1, limit, "qwb %s", args)
				restore(t, before)
				continue
			}
			failed++
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			require.Equalf(t, exitFailed, err.(*exec.ExitError).ExitCode(), "qwb %s: %s", args, out)
			require.Regexpf(t, `^qwb: .*file too large`, lines[len(lines)-1], "qwb %s", args)
			require.Equalf(t, before, tree(t, "."), "qwb %s with at most %d bytes a file", args, limit)
		}
	}
	require.Greater(t, failed, 15)
}

// restore brings the folder back to m.onnx, data, and a fresh plan, and checks that this is what it was before.
func restore(t *testing.T, before map[string]string) {
	t.Helper()
	for name := range tree(t, ".") {
		if name != "m.onnx" && name != "data" && !strings.HasPrefix(name, "data/0") || strings.HasPrefix(name, "data/0000") {
			require.NoError(t, os.RemoveAll(name))
		}
	}
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--observer", "percentile")
	done(t, "dispatch", "--fp32", "conv1")
	require.Equal(t, before, tree(t, "."))
}

// Writing to a device that is always full fails, and the device is still one.
func TestFullDevice(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	calibrated(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, args := range [][]string{{"inspect", "m.onnx"}, {"inspect", "m.onnx", "--json"}, {"version"},
		{"analyze", "--layerwise", "--html", "r.html"}} {
		var stderr bytes.Buffer
		code := run(context.Background(), args, full, &stderr)
		require.Equalf(t, exitFailed, code, "qwb %s to a full device", args)
		require.Contains(t, stderr.String(), "no space left on device")
	}
}

// What waits in the system and hears nothing, here for the lock of a folder, is ended by a second interrupt.
func TestASecondInterruptEnds(t *testing.T) {
	calibrated(t)
	before := tree(t, ".")
	unlock := file.LockFolder(".")
	c := process(0, "set", "conv1", "domain=fp32")
	require.NoError(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for i := 0; ; i++ {
		select {
		case err := <-ended:
			require.Error(t, err)
			require.Greater(t, i, 1, "it did not wait for the lock")
			require.Equal(t, exitFailed, c.ProcessState.ExitCode())
			unlock()
			done(t, "plan", "gc") // what it left is removed
			require.Equal(t, before, tree(t, "."))
			return
		case <-time.After(700 * time.Millisecond):
			require.Less(t, i, 60, "it does not end")
			_ = c.Process.Signal(os.Interrupt)
		}
	}
}

// Interrupted while it observes, calibrate keeps what it has seen, says so, and leaves nothing else; the same command then goes
// on and gives the statistics and the plan, byte for byte, of a run that was never interrupted.
func TestInterrupted(t *testing.T) {
	workplace(t)
	// Large enough to be interrupted: about a second.
	saveModel(t, "m.onnx", strings.NewReplacer("[1,3,8,8]", "[1,3,64,64]", "f32[10,2048]", "f32[10,131072]").Replace(network))
	require.NoError(t, os.RemoveAll("data"))
	saveInputs(t, "data", 100, 150, 1, 3, 64, 64)
	args := []string{"calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--threads", "1"}
	done(t, args...)
	stats, plan := read(t, "m.stats"), read(t, "m.plan.json")
	require.NoError(t, os.Remove("m.stats"))
	require.NoError(t, os.Remove("m.plan.json"))
	interrupted, kept := 0, map[string]string{}
	for _, wait := range []time.Duration{200, 350, 500, 700} {
		c := process(0, args...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		require.NoError(t, c.Start())
		time.Sleep(wait * time.Millisecond)
		_ = c.Process.Signal(os.Interrupt)
		if c.Wait() == nil { // it was done already
			require.NoError(t, os.Remove("m.stats"))
			require.NoError(t, os.Remove("m.plan.json"))
			continue
		}
		if c.ProcessState.ExitCode() < 0 { // it had not started yet, and died of the signal
			continue
		}
		require.Equal(t, exitFailed, c.ProcessState.ExitCode(), stderr.String())
		require.Regexp(t, `(?m)^qwb: interrupted\n\z`, stderr.String())
		var left []string
		for name := range tree(t, ".") {
			if !strings.HasPrefix(name, "data") && name != "m.onnx" && name != "m.runs.jsonl" {
				left = append(left, name)
			}
		}
		if now := tree(t, "."); len(left) > 0 && now["m.stats"] != kept["m.stats"] {
			interrupted, kept = interrupted+1, now
			require.Equal(t, []string{"m.stats"}, left)
			require.Regexp(t, `interrupted after \d+ of 150 samples. m\.stats keeps them`, stderr.String())
			if bytes.HasPrefix(read(t, "m.stats"), []byte("qwbpart")) { // else it was interrupted while it chose scales
				fails(t, exitFailed, `interrupted calibration, of \d+ of 150 samples`, "calibrate", "m.onnx", "--platform", "trt_int8")
			}
		}
	}
	t.Logf("%d interrupted runs kept statistics", interrupted)
	done(t, args...)
	require.Equal(t, stats, read(t, "m.stats"))
	require.Equal(t, plan, read(t, "m.plan.json"))
}
