package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/internal/shard"
)

// sharded are command lines whose runs can be cut into parts, in the folder of partsFolder.
var sharded = map[string]string{
	"eval fp32":         "eval m.onnx --data data --labels labels.tsv",
	"eval sim":          "eval m.plan.json --data data --labels labels.tsv --mode sim --metric top1,f1",
	"eval int8":         "eval m.plan.json --data data --mode int8",
	"eval float":        "eval m.plan.json --mode int8 --batch 2 --samples 5",
	"analyze":           "analyze m.plan.json --data data --split",
	"analyze layerwise": "analyze m.plan.json --data data --layerwise --samples 2",
	"analyze ranges":    "analyze m.plan.json --data data --layerwise --statistical --graphwise --split --samples 3",
	"analyze gradients": "analyze m.plan.json --data data --layerwise --sensitivity --formats fp16 --samples 5",
	"analyze graphwise": "analyze m.plan.json --data data --graphwise",
	"verify":            "verify m.plan.json --data data --samples 9",
	"verify reference":  "verify m.plan.json --backend reference --data synthetic:4",
	"sweep": "sweep m.onnx --data data --data synthetic:20 --platforms " +
		"trt_int8,onnxruntime,ncnn_int8 --observers mse,kl --force --fresh",
	"sweep labels": "sweep m.onnx --data data --labels labels.tsv " +
		"--platforms trt_int8 --granularity tensor,channel --force --observers minmax",
	"eval seed": "eval m.plan.json --data data --data synthetic:3 --mode sim --seed 5",
	"calibrate": "calibrate m.onnx --data data",
	"tune":      "tune m.plan.json --data data",
}

// commands are the lines of sharded that are run in 1, 2, 7 and 64 parts, and whose parts are killed, doubled and mixed up: one a command.
var commands = []string{"calibrate", "tune", "eval int8", "analyze", "analyze layerwise", "verify", "sweep labels"}

// ofStatistics reports whether the parts of a command line, and what becomes of them, are files of statistics.
func ofStatistics(line string) bool {
	return strings.HasPrefix(line, "calibrate ") || strings.HasPrefix(line, "tune ")
}

// partsFolder makes a folder with a plan, nine samples and their labels.
func partsFolder(t testing.TB) {
	t.Helper()
	calibrated(t)
	require.NoError(t, os.RemoveAll("data"))
	saveInputs(t, "data", 7, 9, 1, 3, 8, 8)
	var labels strings.Builder
	for i := range 9 {
		fmt.Fprintf(&labels, "%02d.npy\t%d\n", i, i)
	}
	write(t, "labels.tsv", []byte(labels.String()))
}

// recalibrated puts another network in the place of m.onnx.
func recalibrated(t testing.TB, network string) {
	t.Helper()
	saveModel(t, "m.onnx", network)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--fresh")
}

// untimed is what a command printed without durations and memory.
func untimed(r result) string {
	return regexp.MustCompile(`(?m)^\s*"(seconds|peak_rss_bytes|calibration_seconds)": .*\n|[0-9.]+ s\b`).ReplaceAllString(r.stdout, "")
}

// narrow is the network for less data: Gram statistics of it are small.
var narrow = strings.NewReplacer("1,3,8,8", "1,3,2,2", "2048", "128").Replace(network)

// partLine is the command line of one part.
func partLine(line string, i, of int, name string) []string {
	out := "--part"
	if ofStatistics(line) {
		out = "-o"
	}
	return append(strings.Fields(line), "--shard", fmt.Sprintf("%d/%d", i, of), out, name)
}

// cut does all parts of a command line and returns their names, in another order.
func cut(t testing.TB, line string, of int, more ...string) (names []string) {
	t.Helper()
	for i := range of {
		name := fmt.Sprintf("%d.of%d", i+1, of)
		done(t, append(partLine(line, i+1, of, name), append(more, "--threads", fmt.Sprint(1+i%3))...)...)
		names = append(names, name)
	}
	rand.New(rand.NewPCG(uint64(of), 3)).Shuffle(of, func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// merge puts parts together and returns what the run printed, and the files that it left beside the parts.
func merge(t testing.TB, names []string, more ...string) (result, map[string]string) {
	t.Helper()
	r := done(t, append(append([]string{"merge"}, names...), more...)...)
	return r, leftBehind(t)
}

// whole is what a command line without parts gives, merged what its parts give: what is printed with the files that are left, or
// statistics.
func whole(t testing.TB, line string) (string, map[string]string) {
	t.Helper()
	switch {
	case strings.HasPrefix(line, "calibrate "):
		done(t, append(strings.Fields(line), "--platform", "trt_int8", "--fresh")...)
		return string(read(t, "m.stats")), nil
	case ofStatistics(line):
		done(t, partLine(line, 1, 1, "whole.of1")...)
		return string(read(t, "whole.of1")), nil
	}
	return untimed(done(t, append(strings.Fields(line), "--json")...)), leftBehind(t)
}

func merged(t testing.TB, line string, names []string) (string, map[string]string) {
	t.Helper()
	if ofStatistics(line) {
		merge(t, names, "-o", "all.of")
		return string(read(t, "all.of")), nil
	}
	r, left := merge(t, names, "--json")
	return untimed(r), left
}

// leftBehind are the hashes of the files of a folder, without the parts and without durations.
func leftBehind(t testing.TB) map[string]string {
	durations := regexp.MustCompile(`"(seconds|peak_rss_bytes|forward_seconds)":[^,}]*|[0-9.]+ (s|seconds)\b`)
	files := map[string]string{}
	for name, b := range contents(t) {
		if !strings.Contains(name, ".of") && !strings.HasSuffix(name, ".runs.jsonl") {
			files[name] = fmt.Sprintf("%x", sha256.Sum256(durations.ReplaceAll(b, nil)))
		}
	}
	return files
}

// Parts of every command that has them, in any order and by any number of threads, give what one run gives.
func TestPartsAreOneRun(t *testing.T) {
	long := longtest.Wanted(t)
	for name, line := range sharded {
		t.Run(name, func(t *testing.T) {
			text := network
			if partsFolder(t); name == "tune" {
				text = narrow
				saveInputs(t, "data", 7, 9, 1, 3, 2, 2)
				recalibrated(t, text)
			}
			before := contents(t)
			one, files := whole(t, line)
			numbers := []int{7}
			if long && slices.Contains(commands, name) {
				numbers = []int{1, 2, 64, 7}
			}
			var names []string
			for _, of := range numbers {
				inFolder(t)
				for name, b := range before {
					require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
					write(t, name, b)
				}
				names = cut(t, line, of)
				r, left := merged(t, line, names)
				require.Equal(t, one, r, of)
				require.Equal(t, files, left, of)
			}
			if slices.Contains(commands, name) {
				strangers(t, line, names, text)
			}
		})
	}
}

// strangers mixes up the parts of a run: half of one, as of a killed process that wrote it in place, one doubled, one too few, and one of
// another model are refused by name; the first is repeated and is the same then.
func strangers(t *testing.T, line string, names []string, network string) {
	all := func(more ...string) []string { return slices.Concat([]string{"merge", "-o", "x"}, names[1:], more) }
	var number, of int
	_, err := fmt.Sscanf(names[0], "%d.of%d", &number, &of)
	require.NoError(t, err)
	b := read(t, names[0])
	write(t, names[0], b[:len(b)/2])
	fails(t, exitFailed, names[0], all(names[0])...)
	require.NoError(t, os.Remove(names[0]))
	done(t, partLine(line, number, of, names[0])...)
	require.Equal(t, b, read(t, names[0]), "the same part has the same bytes")
	fails(t, exitFailed, fmt.Sprintf("part %d of %d is missing", number, of), all()...)
	fails(t, exitFailed, fmt.Sprintf("%s and %[1]s are both part", names[0]), all(names[0], names[0])...)

	recalibrated(t, strings.Replace(network, "seed=1", "seed=9", 1))
	done(t, partLine(line, number, of, "stranger.of")...)
	fails(t, exitFailed, "stranger.of is not a part", all("stranger.of")...)
	require.NoFileExists(t, "x")
}

// A part that was killed is repeated; one given twice, one too few, one of another run, model, plan or data is refused by its name.
func TestPartsThatDoNotFit(t *testing.T) {
	partsFolder(t)
	line := sharded["eval sim"]
	one := done(t, strings.Fields(line)...)
	names := cut(t, line, 3)
	b := read(t, "2.of3")
	write(t, "2.of3", b[:len(b)/2])
	fails(t, exitFailed, "2.of3: not a whole part", append([]string{"merge"}, names...)...)
	done(t, append(strings.Fields(line), "--shard", "2/3", "--part", "2.of3")...)
	require.Equal(t, b, read(t, "2.of3"), "the same part has the same bytes")
	r, _ := merge(t, names)
	require.Equal(t, untimed(one), untimed(r))

	other := func(name, line string) { done(t, append(strings.Fields(line), "--shard", "2/3", "--part", name)...) }
	keep := contents(t)
	other("options.of", line+" --seed 3")
	other("command.of", "eval m.onnx --data data --labels labels.tsv")
	write(t, "labels.tsv", append(read(t, "labels.tsv"), '\n'))
	other("labels.of", line)
	write(t, "labels.tsv", keep["labels.tsv"])
	require.NoError(t, os.Remove("data/08.npy"))
	other("data.of", line)
	done(t, "set", "conv1", "domain=fp32")
	other("plan.of", line)
	recalibrated(t, strings.Replace(network, "seed=1", "seed=9", 1))
	other("model.of", line)
	for name, b := range keep {
		write(t, name, b)
	}
	for want, list := range map[string]string{
		"part 2 of 3 is missing":                              "1.of3 3.of3",
		"2.of3 and 2.of3 are both part 2/3":                   "1.of3 2.of3 3.of3 2.of3",
		"model.of is not a part.* 1.of3: it is of another mo": "1.of3 model.of 3.of3",
		"plan.of is not.*: it is of another plan":             "1.of3 plan.of 3.of3",
		"plan.of is not a part.* as 1.of3: it is of another":  "plan.of 1.of3 3.of3",
		"plan.of and 1.of3 are parts of different runs":       "plan.of 1.of3",
		"data.of is not.*: it is of another data":             "1.of3 data.of 3.of3",
		"labels.of is not.*: it is of another --labels":       "1.of3 labels.of 3.of3",
		"options.of is not.*: it was made with other options": "1.of3 options.of 3.of3",
		"command.of is not":                                   "1.of3 command.of 3.of3",
		"m.plan.json: not a whole part":                       "1.of3 m.plan.json 3.of3",
		"no such file":                                        "1.of3 none 3.of3",
	} {
		fails(t, exitFailed, want, append([]string{"merge"}, strings.Fields(list)...)...)
	}
	fails(t, exitUsage, "merge needs -o", "merge", "m.plan.json", "1.of3")
	all := []string{"merge", "1.of3", "2.of3", "3.of3"}
	for want, more := range map[string]string{
		"--mode is as it was":     "-- --mode int8",
		"options of qwb eval":     "-- another",
		"-o is for parts of stat": "-o x.json",
		"unknown flag: --nothing": "-- --nothing",
	} {
		fails(t, exitUsage, want, append(all, strings.Fields(more)...)...)
	}
	done(t, append(all, "--", "--answers", "answers.tsv")...)
	require.Equal(t, 9, bytes.Count(read(t, "answers.tsv"), []byte("\n")))
	fails(t, exitUsage, "--answers does not go with --shard",
		append(strings.Fields(line), "--shard", "1/3", "--part", "x", "--answers", "y")...)
	fails(t, exitUsage, "--metric-cmd has no parts", append(strings.Fields(line), "--shard", "1/3", "--part", "x", "--metric-cmd", "y")...)
	fails(t, exitUsage, "--shard needs --part", append(strings.Fields(line), "--shard", "1/3")...)
	fails(t, exitUsage, "--part needs --shard", append(strings.Fields(line), "--part", "x")...)
	fails(t, exitFailed, "would be replaced", append(strings.Fields(line), "--shard", "1/3", "--part", "m.plan.json")...)
	saveModel(t, "m.onnx", strings.Replace(network, "seed=1", "seed=9", 1))
	fails(t, exitFailed, "the parts are of another model", all...)
}

// A part whose results were changed by somebody, with a hash that fits, is an error or another number, and no crash.
func TestPartsFromAnybody(t *testing.T) {
	partsFolder(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"eval sim", "analyze layerwise", "verify"} {
		cut(t, sharded[name], 1)
		b := read(t, "1.of1")
		b = b[:len(b)-sha256.Size]
		start := len(shard.Magic) + 4 + int(binary.LittleEndian.Uint32(b[len(shard.Magic):]))
		for range map[string]int{"eval sim": 30, "analyze layerwise": 8, "verify": 30}[name] {
			bad := bytes.Clone(b)
			bad[start+random.IntN(len(b)-start)] = byte(random.Uint32())
			sum := sha256.Sum256(bad)
			write(t, "bad.of1", append(bad, sum[:]...))
			r := invoke("merge", "bad.of1", "--json")
			require.NotContains(t, r.stderr, "goroutine ")
			require.Contains(t, []int{exitDone, exitFailed, exitCheck}, r.code, r.stderr)
		}
	}
	r, err := shard.Read(read(t, "1.of1"))
	require.NoError(t, err)
	for _, words := range [][]string{{"--html=x.html", "--", "m.plan.json"}, {"--dump=x", "--", "m.plan.json"}, {"-o", "--", "m.plan.json"},
		{"m.plan.json"}} {
		r.Words = words
		var b bytes.Buffer
		require.NoError(t, r.Write(&b))
		write(t, "bad.of1", b.Bytes())
		fails(t, exitFailed, "no option of a part|no command has such parts", "merge", "bad.of1")
	}
	r.Command = "export"
	var file bytes.Buffer
	require.NoError(t, r.Write(&file))
	write(t, "bad.of1", file.Bytes())
	fails(t, exitFailed, "no command has such parts", "merge", "bad.of1")
}

// killer is qwb, but that the first process that does part 2 is killed by the system's signal 9 while it runs.
const killer = `#!/bin/sh
case "$*" in *2.part) if mkdir killed 2>/dev/null; then
	"$QWB_TEST_BINARY" "$@" &
	sleep 0.04; kill -9 $!; wait $!; exit
fi ;; esac
exec "$QWB_TEST_BINARY" "$@"
`

// The examples run all parts and put them together, and go on where they were stopped: a killed part leaves nothing and is done again.
func TestExamplesOfParts(t *testing.T) {
	for tool, example := range map[string]string{"xargs": "xargs.sh", "make": "Makefile"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("%s is not here", tool)
			continue
		}
		file, err := filepath.Abs(filepath.Join("..", "..", "examples", "shards", example))
		require.NoError(t, err)
		t.Run(tool, func(t *testing.T) {
			partsFolder(t)
			line := "eval m.plan.json --data data --data synthetic:900 --mode sim"
			one := done(t, append(strings.Fields(line), "--json")...)
			require.NoError(t, os.WriteFile("killer", []byte(killer), 0o755))
			run := func() ([]byte, error) {
				c := exec.Command("sh", file)
				if tool == "make" {
					c = exec.Command("make", "-s", "-j", "2", "-f", file)
				}
				c.Env = append(os.Environ(), "QWB_TEST_MAIN=1", "QWB_TEST_BINARY="+os.Args[0], "QWB=./killer", "RUN="+line, "SHARDS=3",
					"OUT=all.json")
				return c.CombinedOutput()
			}
			before, err := os.ReadDir(".")
			require.NoError(t, err)
			out, err := run()
			require.Error(t, err, "%s", out)
			require.NoFileExists(t, "all.json")
			require.NoFileExists(t, "2.part")
			out, err = run()
			require.NoError(t, err, "%s", out)
			require.Equal(t, untimed(one), untimed(result{stdout: string(read(t, "all.json"))}))
			after, err := os.ReadDir(".")
			require.NoError(t, err)
			require.Len(t, after, len(before)+5, "three parts, the result and the mark: %v", after)
		})
	}
}
