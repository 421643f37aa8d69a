package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/calib/data/npy"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
	"qwb/internal/networktest"
)

func TestMain(m *testing.M) {
	code, err := loopbackOnly()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prism listens on all interfaces here:", err)
	} else if code >= 0 {
		os.Exit(code)
	}
	registerAll()
	beam.Init()
	os.Exit(m.Run())
}

// folder has a network, its plan and nine samples, and is the current folder.
func folder(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	m := &onnx.Model{Graph: graphtest.Parse(t, networktest.Small)}
	require.NoError(t, m.Save("m.onnx", onnx.SaveOptions{}))
	require.NoError(t, os.Mkdir("data", 0o755))
	for i := range 9 {
		f, err := os.Create(filepath.Join("data", fmt.Sprintf("%02d.npy", i)))
		require.NoError(t, err)
		require.NoError(t, npy.Write(f, graphtest.Normal(uint64(i+7), 1, 3, 8, 8)))
		require.NoError(t, f.Close())
	}
	s := newTestSpec(t, 1, "m.stats", "calibrate m.onnx --data data --platform trt_int8")
	c, err := s.open(0)
	require.NoError(t, err)
	data := qwb.DataOptions{Paths: []string{"data"}, Threads: 1}
	o := qwb.CalibrateOptions{Platform: "trt_int8", Data: data, Threads: 1, Batch: 1, Memory: 1 << 30}
	p := &qwb.Project{Model: "m.onnx", Plan: "m.plan.json", Stats: "m.stats", Catalog: c.Catalog}
	_, _, err = p.Calibrate(t.Context(), o)
	require.NoError(t, err)
}

func newTestSpec(t *testing.T, shards int, out, line string) *spec {
	t.Helper()
	s, err := newSpec(t.Context(), shards, out, strings.Fields(line))
	require.NoError(t, err)
	return s
}

var lines = []string{"calibrate m.onnx --data data", "tune m.plan.json --data data", "eval m.plan.json --data data --mode int8",
	"eval m.plan.json --data data/*.npy --mode sim", "analyze m.plan.json --data data --layerwise --samples 2",
	"verify m.plan.json --data data --samples 5"}

// single is what one run without parts gives: statistics as calibrate wrote them, else the result.
func single(t *testing.T, line string) string {
	t.Helper()
	s := newTestSpec(t, 1, "one", line)
	c, err := s.open(1)
	require.NoError(t, err)
	switch s.Command {
	case "calibrate":
		b, err := os.ReadFile("m.stats")
		require.NoError(t, err)
		return string(b)
	case "tune": // --shard 1/1 is one run
		b, err := s.do(t.Context(), 1)
		require.NoError(t, err)
		return string(b)
	}
	v, err := c.run(t.Context())
	require.NoError(t, err)
	b, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	return string(b) + "\n"
}

// Pipelines with 1, 4 and 16 workers give the bytes of one run, and leave nothing else.
func TestPrismGivesTheBytesOfOneRun(t *testing.T) {
	folder(t)
	for _, line := range lines {
		want := single(t, line)
		for _, workers := range []int{1, 4, 16} {
			t.Run(fmt.Sprint(line, workers), func(t *testing.T) {
				before, err := os.ReadDir(".")
				require.NoError(t, err)
				_, err = prism.Execute(t.Context(), newTestSpec(t, 16, "out", line).pipeline(workers))
				require.NoError(t, err)
				got, err := os.ReadFile("out")
				require.NoError(t, err)
				require.Equal(t, want, string(got))
				require.NoError(t, os.Remove("out"))
				after, err := os.ReadDir(".")
				require.NoError(t, err)
				require.Len(t, after, len(before))
			})
		}
	}
}

// Bundles that are done twice, and parts that come in any order, change nothing; results that differ are an error.
func TestRepeatedAndShuffled(t *testing.T) {
	folder(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, line := range lines {
		s := newTestSpec(t, 5, "out", line)
		var list []parts
		for i := range 10 {
			p, err := (&doPart{*s}).ProcessElement(t.Context(), i%5+1)
			require.NoError(t, err)
			list = append(list, p)
		}
		for range 3 {
			random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			m := &mergeParts{*s}
			a := []parts{m.CreateAccumulator(), m.CreateAccumulator()}
			var err error
			for i, p := range list {
				decoded, derr := decodeParts(encodeParts(p))
				require.NoError(t, derr)
				a[i%2], err = m.AddInput(a[i%2], decoded)
				require.NoError(t, err)
			}
			all, err := m.MergeAccumulators(a[0], a[1])
			require.NoError(t, err)
			b, err := m.ExtractOutput(all)
			require.NoError(t, err)
			require.Equal(t, single(t, line), string(b))
		}
		m := &mergeParts{*s}
		_, err := m.AddInput(list[0], parts{[]part{{list[0].List[0].Index, []byte("x")}}})
		require.ErrorContains(t, err, "done twice, with different results")
		_, err = m.ExtractOutput(list[0])
		require.ErrorContains(t, err, "missing")
	}
}

// A bundle that fails ends the job with its error, and there is no output; so does another model than the run began with.
func TestFailedBundle(t *testing.T) {
	folder(t)
	s := newTestSpec(t, 3, "out", lines[2])
	require.NoError(t, os.WriteFile("data/08.npy", []byte("no array"), 0o644))
	_, err := prism.Execute(t.Context(), s.pipeline(2))
	require.ErrorContains(t, err, "08.npy")
	require.NoFileExists(t, "out")
	s = newTestSpec(t, 3, "out", lines[0])
	require.NoError(t, os.WriteFile("m.onnx", []byte("another"), 0o644))
	_, err = prism.Execute(t.Context(), s.pipeline(2))
	require.ErrorContains(t, err, "another file here than where the run was started")
	require.NoFileExists(t, "out")
}

// Parts from anybody are an error and take no memory that they do not have.
func TestDamagedParts(t *testing.T) {
	good := encodeParts(parts{[]part{{1, []byte("abc")}, {7, nil}}})
	for n := range len(good) {
		if n != 5 { // a whole part
			_, err := decodeParts(good[:n])
			require.Equal(t, n > 0, err != nil, n)
		}
	}
	for _, b := range []string{"\x00\x00", "\x02\x00\x01\x00", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\xff\xff\xff\x01\x00"} {
		_, err := decodeParts([]byte(b))
		require.Error(t, err)
	}
	folder(t)
	for _, line := range lines {
		s := newTestSpec(t, 1, "out", line)
		b, err := s.do(context.Background(), 1)
		require.NoError(t, err)
		b[len(b)/2] ^= 0xff
		_, err = s.merge(t.Context(), []part{{1, b[:len(b)-len(b)/3]}})
		require.Error(t, err)
	}
}

// The ports of prism can be reached on this machine alone.
func TestLoopbackOnly(t *testing.T) {
	if os.Getenv("QWB_BEAM_LOOPBACK") == "" {
		t.Skip("this system gives no network namespace")
	}
	list, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range list {
		require.True(t, i.Flags&net.FlagLoopback != 0 || i.Flags&net.FlagUp == 0, i.Name)
	}
}

// What is not an option of a part, or names nothing, is refused before anything runs.
func TestWrongLines(t *testing.T) {
	folder(t)
	for line, want := range map[string]string{
		"sweep m.onnx --data data":                      "the commands are",
		"eval m.plan.json --answers x":                  "an option of a part",
		"eval m.plan.json --metric-cmd x":               "an option of a part",
		"calibrate m.onnx --data none/*.npy":            "no such file",
		"eval m.plan.json --mode int8 --data data more": "stands behind",
	} {
		_, err := newSpec(t.Context(), 2, "out", strings.Fields(line))
		require.ErrorContains(t, err, want, line)
	}
	_, err := newSpec(t.Context(), 0, "out", strings.Fields(lines[0]))
	require.ErrorContains(t, err, "-shards")
}
