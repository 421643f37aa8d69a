package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/networktest"
)

const network = networktest.Small

// result is what a command line left behind.
type result struct {
	code           int
	stdout, stderr string
}

// lastLine is the error of a command that failed.
func (r result) lastLine() string {
	lines := strings.Split(strings.TrimRight(r.stderr, "\n"), "\n")
	return lines[len(lines)-1]
}

// invoke runs a command line in the current folder.
func invoke(args ...string) result { return invokeContext(context.Background(), watcher{}, args...) }

// watcher lets a test look at standard error while the command runs.
type watcher struct{ stderr func(string) }

func invokeContext(ctx context.Context, see watcher, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, &stdout, &spy{&stderr, see.stderr})
	return result{code, stdout.String(), stderr.String()}
}

type spy struct {
	*bytes.Buffer
	see func(string)
}

func (s *spy) Write(b []byte) (int, error) {
	if s.see != nil {
		s.see(string(b))
	}
	return s.Buffer.Write(b)
}

// done runs a command line that has to succeed.
func done(t testing.TB, args ...string) result {
	t.Helper()
	r := invoke(args...)
	require.Equalf(t, exitDone, r.code, "qwb %s\n%s", strings.Join(args, " "), r.stderr)
	return r
}

// fails runs a command line that has to end with code, a last line on standard error that matches want, nothing on standard
// output, and the current folder as it was.
func fails(t testing.TB, code int, want string, args ...string) result {
	t.Helper()
	before := tree(t, ".")
	r := invoke(args...)
	line := "qwb " + strings.Join(args, " ")
	require.Equalf(t, code, r.code, "%s\n%s", line, r.stderr)
	require.Regexpf(t, regexp.MustCompile(want), r.lastLine(), "%s", line)
	require.Truef(t, strings.HasPrefix(r.lastLine(), "qwb: "), "%s: the last line is not the error: %s", line, r.lastLine())
	require.Emptyf(t, r.stdout, "%s wrote to standard output", line)
	require.NotContainsf(t, r.stderr, "goroutine ", "%s", line)
	require.Equalf(t, before, tree(t, "."), "%s left something behind", line)
	return r
}

// tree maps every file and folder below dir to a hash of its content, but for the outcomes of runs: a command that ends with a failed check
// leaves its own there.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir || strings.HasSuffix(path, ".runs.jsonl") {
			return err
		}
		if d.IsDir() {
			files[path] = "folder"
			return nil
		}
		b, err := os.ReadFile(path)
		files[path] = fmt.Sprintf("%d bytes, %x", len(b), sha256.Sum256(b))
		return err
	}))
	return files
}

// inFolder makes a new folder the current one.
func inFolder(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	if tt, ok := t.(*testing.T); ok {
		tt.Chdir(dir)
		return
	}
	t.(*testing.F).Chdir(dir)
}

// saveModel writes the graph of a text as an ONNX file.
func saveModel(t testing.TB, path, text string) {
	t.Helper()
	m := &onnx.Model{Graph: graphtest.Parse(t, text)}
	require.NoError(t, m.Save(path, onnx.SaveOptions{}))
}

// saveInputs writes n inputs of the shape as folder/NN.npy, a function of the seed.
func saveInputs(t testing.TB, folder string, seed uint64, n int, shape ...int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for i := range n {
		saveArray(t, filepath.Join(folder, fmt.Sprintf("%02d.npy", i)), graphtest.Normal(seed+uint64(i), shape...))
	}
}

func saveArray(t testing.TB, path string, a *tensor.Tensor) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, npy.Write(&b, a))
	write(t, path, b.Bytes())
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, b, 0o644))
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// workplace makes the current folder one with m.onnx and data/ of four inputs.
func workplace(t testing.TB) {
	t.Helper()
	inFolder(t)
	saveModel(t, "m.onnx", network)
	saveInputs(t, "data", 100, 4, 1, 3, 8, 8)
}

// calibratedFiles are the files of calibrated, made once.
var calibratedFiles map[string][]byte

// calibrated is a workplace with m.plan.json and m.stats. Tests that change folders run one at a time.
func calibrated(t testing.TB) {
	t.Helper()
	if calibratedFiles == nil {
		workplace(t)
		done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--observer", "percentile")
		calibratedFiles = contents(t)
		return
	}
	inFolder(t)
	for name, b := range calibratedFiles {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		write(t, name, b)
	}
}

// contents reads all files below the current folder.
func contents(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[path] = read(t, path)
		}
		return err
	}))
	return files
}

// object decodes the one JSON object that standard output has to consist of.
func (r result) object(t testing.TB) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(r.stdout))
	var o map[string]any
	require.NoErrorf(t, dec.Decode(&o), "standard output: %.200s", r.stdout)
	require.Falsef(t, dec.More(), "more than one value on standard output: %.200s", r.stdout)
	return o
}

// flip changes n bytes of b, by the random numbers of seed.
func flip(b []byte, seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	out := bytes.Clone(b)
	for range n {
		out[r.IntN(len(out))] ^= byte(1 + r.IntN(255))
	}
	return out
}

// shared returns the folder of trained models and real data, and skips the test without one.
func shared(t testing.TB, names ...string) string {
	t.Helper()
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: no trained models and real data")
	}
	return filepath.Join(append([]string{dir}, names...)...)
}
