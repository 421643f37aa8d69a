package exec_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

// testdata returns the folder with real models and conformance tests, and skips the test where there is none.
func testdata(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/ and conformance/")
	}
	return dir
}

// nodeCase is one case of the ONNX backend tests.
type nodeCase struct {
	model           []byte
	inputs, outputs map[int][]byte
}

// eachFile calls visit with every file of the ONNX backend tests.
func eachFile(t *testing.T, visit func(name string, b []byte)) {
	t.Helper()
	f, err := os.Open(filepath.Join(testdata(t), "conformance", "onnx-backend-tests.tar.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeReg {
			b, err := io.ReadAll(r)
			require.NoError(t, err)
			visit(strings.TrimPrefix(h.Name, "./"), b)
		}
	}
}

// readCases reads the cases in the given folders.
func readCases(t *testing.T, folders ...string) map[string]*nodeCase {
	cases := map[string]*nodeCase{}
	eachFile(t, func(file string, b []byte) {
		parts := strings.Split(file, "/")
		if len(parts) < 3 || !slices.Contains(folders, parts[0]) {
			return
		}
		name := parts[0] + "/" + parts[1]
		c := cases[name]
		if c == nil {
			c = &nodeCase{inputs: map[int][]byte{}, outputs: map[int][]byte{}}
			cases[name] = c
		}
		var i int
		var err error
		switch base := parts[len(parts)-1]; {
		case base == "model.onnx":
			c.model = b
		case !strings.HasSuffix(parts[2], "_0"):
		case strings.HasPrefix(base, "input_"):
			_, err = fmt.Sscanf(base, "input_%d.pb", &i)
			c.inputs[i] = b
		case strings.HasPrefix(base, "output_"):
			_, err = fmt.Sscanf(base, "output_%d.pb", &i)
			c.outputs[i] = b
		}
		require.NoError(t, err)
	})
	return cases
}

// errSkip marks a case that is outside of what the executor takes on; the message says why.
var errSkip = errors.New("")

// run executes a case and compares every output.
func (c *nodeCase) run() error {
	m, _, err := onnx.Read(bytes.NewReader(c.model), int64(len(c.model)), nil)
	if err != nil {
		return fmt.Errorf("%wload: %v", errSkip, err)
	}
	s, err := exec.NewPoisoned(m.Graph, exec.Options{Threads: 2})
	var unsupported *exec.UnsupportedError
	if errors.As(err, &unsupported) {
		var ops []string
		for _, o := range unsupported.Ops {
			ops = append(ops, o.Op+" "+o.Reason)
		}
		return fmt.Errorf("%woperator %s", errSkip, strings.Join(ops, ", "))
	}
	if err != nil {
		return err
	}
	feeds := map[string]*tensor.Tensor{}
	for i, b := range c.inputs {
		name, t, err := onnx.ReadTensor(b)
		if err != nil {
			return fmt.Errorf("%winput: %v", errSkip, err)
		}
		if i >= len(m.Graph.Inputs) {
			return fmt.Errorf("%wmore inputs than the graph has", errSkip)
		}
		if want := m.Graph.Value(m.Graph.Inputs[i]).Name; name == "" || name != want {
			name = want
		}
		feeds[name] = t
	}
	r := s.NewRunner()
	for range 2 { // the second run is planned
		got, err := r.Run(context.Background(), feeds, nil)
		if err != nil {
			if strings.Contains(err.Error(), "is not supported") || strings.Contains(err.Error(), "not known") || strings.Contains(err.Error(), "cannot be computed") {
				return fmt.Errorf("%w%v", errSkip, err)
			}
			return err
		}
		for i, b := range c.outputs {
			_, want, err := onnx.ReadTensor(b)
			if err != nil {
				return fmt.Errorf("%woutput: %v", errSkip, err)
			}
			if err := near(got[i], want, 1e-3, 1e-7); err != nil {
				return fmt.Errorf("output %d: %w", i, err)
			}
		}
	}
	return nil
}

// near compares type, shape and elements: floats within |a-b| <= atol + rtol*|b|, everything else exactly.
func near(got, want *tensor.Tensor, rtol, atol float64) error {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("got %s, want %s", got.Type(), want.Type())
	}
	g, w := floats(got), floats(want)
	if g == nil {
		if !tensor.Equal(got, want) {
			return fmt.Errorf("%s differs: %.100v, want %.100v", got.Type(), got.Data, want.Data)
		}
		return nil
	}
	for i := range w {
		a, b := g[i], w[i]
		if math.IsNaN(a) && math.IsNaN(b) || a == b {
			continue
		}
		if !(math.Abs(a-b) <= atol+rtol*math.Abs(b)) {
			return fmt.Errorf("%s differs at %d: %g, want %g", got.Type(), i, a, b)
		}
	}
	return nil
}

// floats returns float32 or float64 elements as float64, nil for other types.
func floats(t *tensor.Tensor) []float64 {
	if d, ok := t.Data.([]float64); ok {
		return d
	}
	var out []float64
	for _, v := range t.F32() {
		out = append(out, float64(v))
	}
	return out
}

// TestConformance runs the ONNX node tests whose operators the executor has. A wrong number fails; what is not supported is
// counted and, with -v, listed.
func TestConformance(t *testing.T) {
	cases := readCases(t, "node", "simple", "pytorch-converted", "pytorch-operator")
	names := make([]string, 0, len(cases))
	for name := range cases {
		names = append(names, name)
	}
	sort.Strings(names)
	passed, skipped, failed := 0, 0, 0
	for _, name := range names {
		err := runSafely(cases[name])
		switch {
		case err == nil:
			passed++
		case errors.Is(err, errSkip):
			skipped++
			if testing.Verbose() {
				t.Logf("not supported: %s: %v", name, err)
			}
		default:
			failed++
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Logf("passed %d, not supported %d, failed %d", passed, skipped, failed)
	assert.GreaterOrEqual(t, passed, 1301)
}

func runSafely(c *nodeCase) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v %s", p, debug.Stack())
		}
	}()
	return c.run()
}

// TestOperatorsAreSpecified holds that package graph can infer the shapes of every operator that can be executed.
func TestOperatorsAreSpecified(t *testing.T) {
	seen := map[exec.Operator]bool{}
	for _, op := range exec.Operators() {
		assert.False(t, seen[op], "%v stands twice in the table", op)
		seen[op] = true
		assert.NotNil(t, graph.Spec(op.Domain, op.Op), "no OpSpec for %v", op)
	}
}
