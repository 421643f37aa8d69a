package vectors_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export/vectors"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
)

// dumped writes the vectors of a small network into a new folder.
func dumped(t *testing.T, network, profile string) string {
	t.Helper()
	tg := lowertest.Whole()
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	g, set, feeds := lowertest.ConfiguredFor(t, lowertest.Networks[network], tg)
	p, err := lower.Compile(g, set, tg, pr)
	require.NoError(t, err)
	e, err := program.New(p, program.Reference, 1)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, vectors.Write(context.Background(), e, feeds, below(dir)))
	return dir
}

// below makes files in a folder.
func below(dir string) vectors.Files {
	return vectors.Files{Array: npy.Write, Create: func(name string) (io.WriteCloser, error) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		return os.Create(path)
	}}
}

// file is an array as program.json names it.
type file struct {
	Npy    string `json:"npy"`
	Hex    string `json:"hex"`
	Digits int    `json:"hex_digits"`
}

// description is what this test reads of program.json: nothing of qwb but the names of the fields.
type description struct {
	Inputs, Outputs []int
	Tensors         []struct {
		ID       int
		Constant bool
		file
	}
	Steps []step
}

type step struct {
	Op, Kind        string
	Inputs, Outputs []int
	Parameters      json.RawMessage
	Arrays          map[string]file
}

// numbers reads an .npy file of integers, and checks that the .hex file has the same.
func numbers(t *testing.T, dir string, f file) (list []int64, shape []int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Npy)))
	require.NoError(t, err)
	x, err := npy.Read(bytes.NewReader(raw))
	require.NoError(t, err)
	if x.DType == tensor.Float32 {
		return nil, x.Shape
	}
	list = x.I64()
	for _, q := range x.Integers() {
		list = append(list, int64(q))
	}
	text, err := os.Open(filepath.Join(dir, filepath.FromSlash(f.Hex)))
	require.NoError(t, err)
	defer text.Close()
	lines := bufio.NewScanner(text)
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), fmt.Sprintf("// %d bits per line", 4*f.Digits))
	for _, want := range list {
		require.True(t, lines.Scan())
		require.Len(t, lines.Text(), f.Digits)
		got, err := strconv.ParseUint(lines.Text(), 16, 64)
		require.NoError(t, err)
		mask := uint64(1)<<(4*f.Digits) - 1
		require.Equal(t, uint64(want)&mask, got)
	}
	require.False(t, lines.Scan())
	return list, x.Shape
}

// recording is the files of a program in memory.
type recording struct {
	description
	values map[int][]int64
	shapes map[int][]int
}

func recorded(t *testing.T, dir string) recording {
	t.Helper()
	r := recording{values: map[int][]int64{}, shapes: map[int][]int{}}
	raw, err := os.ReadFile(filepath.Join(dir, "program.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &r.description))
	for _, x := range r.Tensors {
		r.values[x.ID], r.shapes[x.ID] = numbers(t, dir, x.file)
	}
	return r
}

// Every convolution, matrix product, table, sum, concatenation and maximum is computed again from the files alone.
func TestVectorsAreComplete(t *testing.T) {
	done := map[string]int{}
	for _, network := range []string{"residual", "mobilenet", "squeezenet", "resnet"} {
		dir := dumped(t, network, "tflite2")
		r := recorded(t, dir)
		for _, s := range r.Steps {
			if got, ok := computed(t, dir, s, r.values, r.shapes); ok {
				require.Equal(t, r.values[s.Outputs[0]], got, "%s: %s", network, s.Op)
				done[s.Op]++
			}
		}
	}
	for _, op := range []string{"Conv", "Gemm", "Table", "Add", "Concat", "MaxPool"} {
		require.Positive(t, done[op], "%v", done)
	}
}

// Steps of every family that was held to an engine have a description.
func TestEngines(t *testing.T) {
	for _, a := range lowertest.Engines(t) {
		e, err := program.New(a.Program, program.Reference, 1)
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, vectors.Write(context.Background(), e, a.Feeds, below(dir)))
		r := recorded(t, dir)
		require.Len(t, r.Steps, len(a.Program.Steps))
		for _, s := range r.Steps {
			require.NotEmpty(t, s.Kind)
			require.Contains(t, string(s.Parameters), "{", a.Name)
			for _, f := range s.Arrays {
				numbers(t, dir, f)
			}
		}
	}
}

// Weights of 2 to 8 bits and tensors of 8 and 16 are recorded as they are: .npy and .hex have the same integers, biases of 64 bits too.
func TestFormats(t *testing.T) {
	wide := 0
	for i, tg := range lowertest.Formats() {
		g, set, feeds := lowertest.ConfiguredFor(t, lowertest.Networks["residual"], &tg)
		pr, err := qmath.ProfileNamed([]string{"tflite2", "tvm-nearest"}[i%2])
		require.NoError(t, err)
		p, err := lower.Compile(g, set, &tg, pr)
		require.NoError(t, err)
		e, err := program.New(p, program.Reference, 1)
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, vectors.Write(context.Background(), e, feeds, below(dir)))
		for k, s := range recorded(t, dir).Steps {
			op, ok := p.Steps[k].Op.(*lower.Linear)
			if !ok {
				continue
			}
			codes, _ := numbers(t, dir, s.Arrays["weights"])
			require.Equal(t, (tg.Weight.Bits+3)/4, s.Arrays["weights"].Digits)
			for c, q := range op.Weights.Codes.Integers() {
				require.Equal(t, int64(q), codes[c])
			}
			if bias, ok := s.Arrays["bias"]; ok {
				codes, _ := numbers(t, dir, bias)
				require.Equal(t, op.Bias, codes, tg.Name)
				require.Equal(t, op.Wide, bias.Digits == 16)
				wide++
			}
		}
	}
	require.Positive(t, wide)
}

// Every kind of step has a description, under profiles of integers and of floats.
func TestAllNetworks(t *testing.T) {
	for network := range lowertest.Networks {
		for _, profile := range []string{"tflite2", "ort"} {
			dir := dumped(t, network, profile)
			raw, err := os.ReadFile(filepath.Join(dir, "program.json"))
			require.NoError(t, err)
			var p vectors.Program
			require.NoError(t, json.Unmarshal(raw, &p))
			require.NotEmpty(t, p.Steps)
			for _, x := range p.Tensors {
				require.FileExists(t, filepath.Join(dir, filepath.FromSlash(x.File)))
			}
		}
	}
}
