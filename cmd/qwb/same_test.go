package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// outcome is everything that calibrate and export write, run in the current folder.
func outcome(t testing.TB, platform string, calibrate ...string) map[string]string {
	t.Helper()
	done(t, append([]string{"calibrate", "m.onnx", "--platform", platform}, calibrate...)...)
	done(t, "export", "m.plan.json", "--platform", platform, "-o", "out.onnx")
	files := map[string]string{}
	for _, name := range []string{"m.plan.json", "m.stats", "out.onnx"} {
		files[name] = string(read(t, name))
		require.NoError(t, os.Remove(name))
	}
	return files
}

// same fails without printing megabytes.
func same(t testing.TB, want, got map[string]string, what string, args ...any) {
	t.Helper()
	for name, w := range want {
		require.Truef(t, w == got[name], "%s differs: %s", name, fmt.Sprintf(what, args...))
	}
}

// The number of threads changes no byte of plan, statistics and export, whatever the method.
func TestThreadsChangeNothing(t *testing.T) {
	workplace(t)
	long := longtest.Wanted(t)
	for i, platform := range []string{"trt_int8", "onnxruntime"} {
		for k, observer := range []string{"auto", "minmax", "percentile", "kl", "mse"} {
			if (i+k)%2 != 0 && !long {
				continue
			}
			args := []string{"--data", "data", "--observer", observer}
			want := outcome(t, platform, append(args, "--threads", "1")...)
			for _, n := range []string{"7", "2"} {
				same(t, want, outcome(t, platform, append(args, "--threads", n)...), "%s %s, %s threads", platform, observer, n)
				if !long {
					break
				}
			}
		}
	}
}

// Statistics of parts of the data, merged in any order, are byte for byte those of one run over all of it, and so are plan and
// export.
func TestMergeIsOneRun(t *testing.T) {
	workplace(t)
	var data []string
	for i := range 3 {
		folder := fmt.Sprintf("part%d", i)
		saveInputs(t, folder, uint64(10*i), 2+i, 1, 3, 8, 8)
		data = append(data, "--data", folder)
		done(t, "calibrate", "m.onnx", "--data", folder, "--platform", "trt_int8", "-o", folder+".plan.json")
	}
	for _, platform := range []string{"trt_int8", "onnxruntime"} {
		want := outcome(t, platform, data...)
		same(t, want, outcome(t, platform, data[2], data[3], data[4], data[5], data[0], data[1]), "data in another order")
		for _, order := range [][]string{{"part0.stats", "part1.stats", "part2.stats"}, {"part2.stats", "part0.stats", "part1.stats"}} {
			same(t, want, outcome(t, platform, append([]string{"--merge"}, order...)...), "merged as %v", order)
		}
		done(t, "calibrate", "m.onnx", "--merge", "part2.stats", "part0.stats", "--platform", platform, "-o", "two.plan.json")
		same(t, want, outcome(t, platform, "--merge", "part1.stats", "two.stats"), "merged twice")
	}
}

// Statistics in other folders refer to their data from there.
func TestMergeAcrossFolders(t *testing.T) {
	workplace(t)
	require.NoError(t, os.Mkdir("elsewhere", 0o755))
	saveInputs(t, "more", 50, 3, 1, 3, 8, 8)
	want := outcome(t, "trt_int8", "--data", "data", "--data", "more")
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "-o", filepath.Join("elsewhere", "a.plan.json"))
	done(t, "calibrate", "m.onnx", "--data", "more", "--platform", "trt_int8", "-o", "b.plan.json")
	same(t, want, outcome(t, "trt_int8", "--merge", "elsewhere/a.stats", "b.stats"), "merged")
	done(t, "analyze", "elsewhere/a.plan.json", "--layerwise", "--html", "r.html")
}

// Cancelled while it observes, calibrate keeps what it has seen; the same command goes on from there to the same bytes, with any
// number of threads.
func TestResume(t *testing.T) {
	workplace(t)
	require.NoError(t, os.RemoveAll("data"))
	saveInputs(t, "data", 7, 40, 1, 3, 8, 8)
	args := []string{"calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime"}
	want := outcome(t, "onnxruntime", "--data", "data")
	before := tree(t, ".")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := invokeContext(ctx, watcher{}, args...)
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "qwb: interrupted", r.lastLine())
	require.Equal(t, before, tree(t, "."), "nothing was seen, nothing is kept")

	saveInputs(t, "half", 7, 20, 1, 3, 8, 8) // the statistics of a run that was interrupted after 20 samples
	require.NoError(t, os.Rename("data", "all"))
	require.NoError(t, os.Rename("half", "data"))
	done(t, args...)
	require.NoError(t, os.RemoveAll("data"))
	require.NoError(t, os.Rename("all", "data"))
	same(t, want, outcome(t, "onnxruntime", "--data", "data", "--threads", "3"), "resumed")
}

// A run over other data under the same name does not keep samples that are gone.
func TestChangedData(t *testing.T) {
	workplace(t)
	saveInputs(t, "data", 900, 3, 1, 3, 8, 8) // three of the four
	want := outcome(t, "trt_int8", "--data", "data")
	saveInputs(t, "data", 100, 4, 1, 3, 8, 8)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8")
	saveInputs(t, "data", 900, 3, 1, 3, 8, 8)
	same(t, want, outcome(t, "trt_int8", "--data", "data"), "statistics of the old files lay there")
}
