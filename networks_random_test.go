package qwb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export/all"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/internal/networktest"
	"qwb/internal/work/store"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// drawnFile is a file that was exported of a network: what runs it, its inputs, and the outputs that qwb's integers have there.
type drawnFile struct {
	Network  string   `json:"network"`
	Platform string   `json:"platform"`
	Format   string   `json:"format"`
	File     string   `json:"file"`
	Samples  string   `json:"samples"` // npz: 0.in.NAME, 0.out.NAME (integers), 0.float.NAME
	Outputs  []string `json:"outputs"`
	Warnings []string `json:"warnings,omitempty"` // of calibrate and export
	Refused  string   `json:"refused,omitempty"`  // what calibrate or export said instead
	At       string   `json:"at,omitempty"`
	// Reach has the largest NSR that codes one step off make of an output, by its name; nil unless it is wanted (QWB_DRAWN_REACH).
	Reach map[string]float64 `json:"reach,omitempty"`
}

// networkFormats are the platforms and formats of the random networks.
var networkFormats = [][2]string{{"onnxruntime", "onnx"}, {"onnxruntime", "qoperator"}, {"openvino_int8", "onnx"},
	{"tflite_int8", "tflite"}, {"ncnn_int8", "ncnn"},
	{"trt_int8", "onnx"}, {"pow2_int8", "onnx"}, {"tflite_16x8", "tflite"}, {"espdl_int8", "espdl"}, {"qnn", ""}, {"mnn_int8", ""},
	{"xint8", ""}, {"trt_fp8", ""}, {"nxp_int8", ""},
	{"pow2_int8_lut", ""}, {"openvino_int8_amx", "onnx"}}

// throughDrawn calibrates a network for a platform, exports it and reads it back. The files lie in the store, named after the platform.
func throughDrawn(g *graph.Graph, seed uint64, platform, format string, outputs bool) (f drawnFile, files *Memory, err error) {
	f = drawnFile{Network: strconv.FormatUint(seed, 10), Platform: platform, Format: format}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	files = new(Memory)
	var b bytes.Buffer
	if err := (&onnx.Model{Graph: g}).Write(&b); err != nil {
		return f, files, err
	}
	files.Write("m.onnx", b.Bytes())
	feeds := networktest.Feeds(g, seed, 2)
	for i, s := range feeds {
		var b bytes.Buffer
		if err := npy.WriteArchive(&b, s); err != nil {
			return f, files, err
		}
		files.Write(fmt.Sprintf("data/%d.npz", i), b.Bytes())
	}
	backends := []program.Backend{program.Reference, cpu.Backend}
	n := nudged{Reach: map[string]float64{}, rng: rand.New(rand.NewPCG(seed, 1))}
	if outputs && os.Getenv("QWB_DRAWN_REACH") != "" {
		backends, f.Reach = append(backends, n.Backend()), n.Reach
	}
	p := &Project{Model: "m.onnx", Plan: "m" + PlanSuffix, Store: files,
		Catalog: Catalog{Version: "0.0.0", Backends: backends, Formats: all.Formats()}}
	ctx, data := context.Background(), DataOptions{Paths: []string{"data"}, Threads: 1}
	f.At = "calibrate"
	_, w, err := p.Calibrate(ctx, CalibrateOptions{Platform: platform, Data: data, BorderCost: new(float64), Threads: 1})
	for _, x := range w {
		f.Warnings = append(f.Warnings, x.Text)
	}
	if err != nil {
		return f, files, err
	}
	f.At = "export"
	r, w, err := p.Export(ctx, ExportOptions{Format: format, Out: platform + "." + format, Threads: 1})
	for _, x := range w {
		f.Warnings = append(f.Warnings, x.Text)
	}
	if err != nil {
		return f, files, err
	}
	f.File = r.Files[0].Path
	if !outputs {
		return f, files, nil
	}
	f.At = "run"
	samples := map[string]*tensor.Tensor{}
	for mode, name := range map[string]string{"int8": "out", "": "float"} {
		for i := range feeds {
			r, _, err := p.Run(ctx, RunOptions{Inputs: []string{fmt.Sprintf("data/%d.npz", i)}, Mode: mode, Output: "run", Threads: 1})
			if err != nil {
				return f, files, err
			}
			for k, file := range r.Files {
				content, _ := files.Read(file)
				x, err := npy.Read(bytes.NewReader(content))
				if err != nil {
					return f, files, err
				}
				samples[fmt.Sprintf("%d.%s.%s", i, name, g.Value(g.Outputs[k]).Name)] = x
			}
		}
	}
	for i := range feeds {
		if f.Reach == nil {
			break
		}
		o := RunOptions{Inputs: []string{fmt.Sprintf("data/%d.npz", i)}, Mode: "int8", Backend: "nudged", Output: "run", Threads: 1}
		if _, _, err := p.Run(ctx, o); err != nil {
			return f, files, err
		}
	}
	for i, s := range feeds {
		for k, x := range s {
			samples[fmt.Sprintf("%d.in.%s", i, k)] = x
		}
	}
	for _, v := range g.Outputs {
		f.Outputs = append(f.Outputs, g.Value(v).Name)
	}
	var out bytes.Buffer
	err = npy.WriteArchive(&out, samples)
	f.Samples = platform + "." + format + ".npz"
	files.Write(f.Samples, out.Bytes())
	return f, files, err
}

// Networks made by chance are calibrated for every kind of platform, exported, and read back: whatever calibrate takes is exported.
// QOperator is not the only format of its platform and may refuse later.
func TestRandomNetworks(t *testing.T) {
	n := 60
	if longtest.Wanted(t) {
		n = 240
	}
	seeds := []uint64{249, 304, 492, 576, 807} // showed faults
	lite, ov, qop := [2]string{"tflite_int8", "tflite"}, [2]string{"openvino_int8", "onnx"}, [2]string{"onnxruntime", "qoperator"}
	faulty := map[uint64][2]string{910032: qop, 911246: qop, 911029: lite, 911264: lite, 911091: lite, 911277: lite, 770043: lite,
		770182: lite, 770169: lite, 920036: lite, 10138: ov, 10560: ov, 911111: ov, 11048: ov, 1603192: lite, 1606295: lite, 1607948: lite,
		1603993: {"ncnn_int8", "ncnn"}, 1601451: qop} // by one format
	for seed, pf := range faulty {
		f, _, err := throughDrawn(networktest.Random(seed), seed, pf[0], pf[1], false)
		require.NoError(t, err, "seed %d, %s, %s", seed, pf, f.At)
	}
	ncnn, less := [2]string{"ncnn_int8", "ncnn"}, "without elements"
	for _, r := range []struct {
		seed uint64
		pf   [2]string
		why  string
	}{{920120, lite, "the quotient of the sizes"}, {920248, lite, less}, {930107, lite, less}, {911406, lite, less}, {930342, ncnn, less},
		{1608831, lite, less},
		{950156, ncnn, "ncnn has no layer for it"}} {
		f, _, err := throughDrawn(networktest.Random(r.seed), r.seed, r.pf[0], r.pf[1], false)
		require.ErrorContains(t, err, r.why, "seed %d", r.seed)
		require.Equal(t, "calibrate", f.At, "seed %d", r.seed)
	}
	for seed := range uint64(n) {
		seeds = append(seeds, seed)
	}
	counts := map[string]int{}
	for _, seed := range seeds {
		g := networktest.Random(seed)
		for i := range 2 {
			pf := networkFormats[(int(seed)*2+i)%len(networkFormats)]
			f, _, err := throughDrawn(g, seed, pf[0], pf[1], false)
			switch {
			case err == nil:
				counts["written"]++
			case strings.Contains(err.Error(), "panic"):
				t.Errorf("seed %d, %s, %s: %v\n%s", seed, pf, f.At, err, graph.FormatShort(g, 8))
			case f.At == "calibrate" && strings.Contains(err.Error(), "could not be exported"):
				counts["no form"]++
			case f.At == "calibrate":
				counts["refused by calibrate"]++
				t.Logf("seed %d, %s: %v", seed, pf, err)
			case strings.Contains(err.Error(), "there is nothing to verify") &&
				slices.ContainsFunc(f.Warnings, func(w string) bool { return strings.Contains(w, "nothing of this model is quantized") }):
				counts["nothing to quantize"]++
			case pf[1] == "qoperator" && strings.Contains(err.Error(), "QOperator form"):
				counts["no form"]++
			default:
				t.Errorf("seed %d, %s, %s: %v\n%s", seed, pf, f.At, err, graph.FormatShort(g, 8))
			}
		}
	}
	t.Log(counts)
	require.Greater(t, counts["written"], n)
	require.Less(t, counts["refused by calibrate"], n/20)
}

// TestDrawnNetworks writes networks with their exported files for examples/engines/random_graphs.py, which runs this: into the folder
// QWB_DRAWN, from QWB_DRAWN_FIRST on, QWB_DRAWN_COUNT of them in steps of QWB_DRAWN_STEP, listed or random as QWB_DRAWN_KIND says, for the
// platforms of QWB_DRAWN_PLATFORMS.
func TestDrawnNetworks(t *testing.T) {
	dir := os.Getenv("QWB_DRAWN")
	if dir == "" {
		t.Skip("QWB_DRAWN is not set")
	}
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	first, count, step := number("QWB_DRAWN_FIRST", 0), number("QWB_DRAWN_COUNT", 100), number("QWB_DRAWN_STEP", 1)
	platforms := strings.Split(os.Getenv("QWB_DRAWN_PLATFORMS"), ",")
	index, err := os.Create(filepath.Join(dir, "index.jsonl"))
	require.NoError(t, err)
	defer index.Close()
	var lock sync.Mutex
	lines := make([][]drawnFile, count)
	var team sync.WaitGroup
	next := make(chan int)
	for range number("QWB_DRAWN_THREADS", 2) {
		team.Add(1)
		go func() {
			defer team.Done()
			for k := range next {
				i := first + k*step
				g, ok := (*graph.Graph)(nil), true
				if os.Getenv("QWB_DRAWN_KIND") == "listed" {
					g, ok = networktest.Listed(i)
				} else {
					g = networktest.Random(uint64(i))
				}
				if !ok {
					continue
				}
				folder := filepath.Join(dir, strconv.Itoa(i))
				written := map[string]bool{}
				for _, pf := range networkFormats {
					if !slices.Contains(platforms, pf[0]) {
						continue
					}
					f, files, err := throughDrawn(g, uint64(i), pf[0], pf[1], true)
					if err != nil {
						f.Refused = err.Error()
					}
					keep(folder, files, written)
					lines[k] = append(lines[k], f)
				}
				lock.Lock()
				_ = os.WriteFile(filepath.Join(folder, "network.txt"), []byte(graph.FormatShort(g, 8)), 0o600)
				lock.Unlock()
			}
		}()
	}
	for k := range count {
		next <- k
	}
	close(next)
	team.Wait()
	e := json.NewEncoder(index)
	for _, list := range lines {
		for i := range list {
			require.NoError(t, e.Encode(&list[i]))
		}
	}
}

// keep writes what a store holds for an engine.
func keep(folder string, files *store.Memory, written map[string]bool) {
	_ = os.MkdirAll(folder, 0o700)
	for _, name := range files.Names() {
		if written[name] || strings.HasPrefix(name, "run") || strings.HasPrefix(name, "data/") || strings.HasSuffix(name, ".stats") ||
			strings.HasSuffix(name, ".json") {
			continue
		}
		content, _ := files.Read(name)
		_ = os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700)
		_ = os.WriteFile(filepath.Join(folder, name), content, 0o600)
		written[name] = true
	}
}
