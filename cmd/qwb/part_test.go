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
	"analyze gradients": "analyze m.plan.json --data data --layerwise --sensitivity --samples 5",
	"analyze graphwise": "analyze m.plan.json --data data --graphwise",
	"verify":            "verify m.plan.json --data data --samples 9",
	"verify reference":  "verify m.plan.json --backend reference --data synthetic:4",
	"sweep": "sweep m.onnx --data data --data synthetic:20 --platforms " +
		"trt_int8,onnxruntime,ncnn_int8 --observers mse,kl --force --fresh",
	"sweep labels": "sweep m.onnx --data data --labels labels.tsv " +
		"--platforms trt_int8 --granularity tensor,channel --force --observers minmax",
	"eval seed": "eval m.plan.json --data data --data synthetic:3 --mode sim --seed 5",
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

// untimed is what a command printed without durations and memory.
func untimed(r result) string {
	return regexp.MustCompile(`(?m)^\s*"(seconds|peak_rss_bytes|calibration_seconds)": .*\n|[0-9.]+ s\b`).ReplaceAllString(r.stdout, "")
}

// cut does all parts of a command line and returns their names, in another order.
func cut(t testing.TB, line string, of int, more ...string) (names []string) {
	t.Helper()
	for i := range of {
		name := fmt.Sprintf("%d.of%d", i+1, of)
		args := append(strings.Fields(line), "--shard", fmt.Sprintf("%d/%d", i+1, of), "--part", name, "--threads", fmt.Sprint(1+i%3))
		done(t, append(args, more...)...)
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
	for name, line := range sharded {
		t.Run(name, func(t *testing.T) {
			partsFolder(t)
			before := contents(t)
			one := done(t, append(strings.Fields(line), "--json")...)
			files := leftBehind(t)
			numbers := []int{7}
			if longtest.Wanted(t) {
				numbers = []int{1, 2, 7, 64}
			}
			for _, of := range numbers {
				inFolder(t)
				for name, b := range before {
					require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
					write(t, name, b)
				}
				names := cut(t, line, of)
				r, left := merge(t, names, "--json")
				require.Equal(t, untimed(one), untimed(r), of)
				require.Equal(t, files, left, of)
			}
		})
	}
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
	saveModel(t, "m.onnx", strings.Replace(network, "seed=1", "seed=9", 1))
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--fresh")
	other("model.of", line)
	for name, b := range keep {
		write(t, name, b)
	}
	for want, list := range map[string]string{
		"part 2 of 3 is missing":                              "1.of3 3.of3",
		"2.of3 and 2.of3 are both part 2/3":                   "1.of3 2.of3 3.of3 2.of3",
		"model.of is not a part.* 1.of3: it is of another mo": "1.of3 model.of 3.of3",
		"plan.of is not.*: it is of another plan":             "1.of3 plan.of 3.of3",
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

// The examples run all parts and put them together, and go on where they were stopped.
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
			line := sharded["eval sim"]
			one := done(t, append(strings.Fields(line), "--json")...)
			c := exec.Command("sh", file)
			if tool == "make" {
				c = exec.Command("make", "-s", "-j", "2", "-f", file)
			}
			c.Env = append(os.Environ(), "QWB_TEST_MAIN=1", "QWB="+os.Args[0], "RUN="+line, "SHARDS=3", "OUT=all.json")
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, untimed(one), untimed(result{stdout: string(read(t, "all.json"))}))
		})
	}
}
