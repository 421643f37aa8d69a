// Package python_test runs the tests of the Python package, where there is a Python, with a program built from these sources.
package python_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph/tensor"
	"qwb/internal/demo"
	"qwb/internal/longtest"
)

// python returns the interpreter: $QWB_PYTHON, else python3.
func python(t *testing.T) string {
	t.Helper()
	name := os.Getenv("QWB_PYTHON")
	if name == "" {
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		err = exec.Command(path, "-c", "import sys; sys.exit(sys.version_info < (3, 9))").Run()
	}
	if err != nil {
		t.Skipf("no %s of 3.9 or later: the tests of the Python package are left out", name)
	}
	return path
}

// program builds qwb. It reads all sources, so that the test cache notices when one changes.
func program(t *testing.T) string {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (filepath.Ext(path) == ".go" || filepath.Ext(path) == ".py") {
			_, err = os.ReadFile(path)
		}
		return err
	}))
	path := filepath.Join(t.TempDir(), "qwb")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	out, err := exec.Command("go", "build", "-o", path, "qwb/cmd/qwb").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// samples writes what qwb demo does, with fewer pictures, into a folder qwb-demo, and returns its name.
func samples(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "qwb-demo")
	camera := demo.NewCamera()
	labels := bytes.NewBufferString("file\tindex\n")
	for folder, series := range map[string]demo.Series{"calibration": demo.Calibration, "eval": demo.Evaluation} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "data", folder), 0o755))
		for i := range n {
			shot, class := camera.Shot(series, 1, i)
			var b bytes.Buffer
			require.NoError(t, npy.Write(&b, tensor.FromF32(shot, 1, 1, demo.Size, demo.Size)))
			name := fmt.Sprintf("%05d.npy", i)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "data", folder, name), b.Bytes(), 0o644))
			if folder == "eval" {
				fmt.Fprintf(labels, "%s\t%d\n", name, class)
			}
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "eval.tsv"), labels.Bytes(), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "glyphs.onnx"), demo.Model, 0o644))
	return dir
}

// TestPythonPackage runs tests/: those that need NumPy or torch are skipped by themselves where these are not there (-v lists them).
func TestPythonPackage(t *testing.T) {
	longtest.Need(t, "builds qwb")
	py := python(t)
	here, err := os.Getwd()
	require.NoError(t, err)
	c := exec.Command(py, "-B", "-m", "unittest", "discover", "-s", "tests", "-v")
	c.Env = append(os.Environ(), "PYTHONPATH="+here, "QWB_BINARY="+program(t), "QWB_TEST_SAMPLES="+samples(t, 48))
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Log(string(out))
}

// TestWheel makes a wheel for this platform twice: the bytes are equal, pip installs it, and package and command run from it.
func TestWheel(t *testing.T) {
	longtest.Need(t, "installs a wheel")
	py := python(t)
	platform := runtime.GOOS + "-" + runtime.GOARCH
	binary := program(t)
	var wheels [2][]byte
	var file string
	for i := range wheels {
		dir := t.TempDir()
		out, err := exec.Command(py, "-B", "wheel.py", "-o", dir, "--only", platform, "--program", binary).CombinedOutput()
		if err != nil && bytes.Contains(out, []byte("invalid choice")) {
			t.Skipf("no wheels for %s", platform)
		}
		require.NoError(t, err, string(out))
		file = string(bytes.TrimSpace(out))
		wheels[i], err = os.ReadFile(file)
		require.NoError(t, err)
	}
	require.True(t, bytes.Equal(wheels[0], wheels[1]), "two runs differ")

	env := t.TempDir()
	if out, err := exec.Command(py, "-m", "venv", env).CombinedOutput(); err != nil {
		t.Skipf("no venv with pip: %s", out)
	}
	bin := filepath.Join(env, "bin")
	if runtime.GOOS == "windows" {
		bin = filepath.Join(env, "Scripts")
	}
	out, err := exec.Command(filepath.Join(bin, "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
		"--no-deps", file).CombinedOutput()
	require.NoError(t, err, string(out))
	for _, args := range [][]string{
		{"qwb", "--version"},
		{"python", "-m", "qwb", "--version"},
		{"python", "-c", "import qwb; print('qwb', qwb.run_command(['version']).version)"},
	} {
		c := exec.Command(filepath.Join(bin, args[0]), args[1:]...)
		c.Dir, c.Env = t.TempDir(), append(os.Environ(), "QWB_BINARY=", "PYTHONPATH=", "PATH=")
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Regexp(t, `^qwb \d+\.\d+\.\d+`, string(out))
	}
}
