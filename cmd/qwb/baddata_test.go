package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// Data that cannot be used is an error that names it, whatever the command is.
func TestBadData(t *testing.T) {
	bad := func(value float64) func(t *testing.T) {
		return func(t *testing.T) {
			x := graphtest.Normal(1, 1, 3, 8, 8)
			x.F32()[17] = float32(value)
			saveArray(t, "data/02.npy", x)
		}
	}
	only := func(name string, b []byte) func(t *testing.T) {
		return func(t *testing.T) {
			require.NoError(t, os.RemoveAll("data"))
			require.NoError(t, os.Mkdir("data", 0o755))
			if name != "" {
				write(t, filepath.Join("data", name), b)
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T)
		want    string
	}{
		"missing":      {func(t *testing.T) { require.NoError(t, os.RemoveAll("data")) }, `data: data: .*no such file`},
		"empty folder": {only("", nil), `data: data: the folder is empty`},
		"no samples": {only("readme.txt", []byte("nothing to see")), `data: data: no image or other sample among the ` +
			`files in the folder \(1\)`},
		"empty file":    {only("a.npy", nil), `data: .*a\.npy`},
		"no picture":    {only("cat.jpg", []byte("meow")), `data: data: cat\.jpg: named as an image`},
		"cut-off image": {only("cat.png", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x10")), `data: data: cat\.png: `},
		"junk in npy":   {only("a.npy", []byte("\x93NUMPY\x01\x00\x10\x00{'descr': 'junk'}")), `data: .*a\.npy`},
		"object array": {only("a.npy", []byte("\x93NUMPY\x01\x00\x46\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), "+
			"}              \n")), `a\.npy: .*`},
		"NaN":      {bad(math.NaN()), `data: data: 02\.npy: .*"x" \(f32\[1,3,8,8\]\) holds NaN, first at element 17`},
		"infinite": {bad(math.Inf(-1)), `02\.npy`},
		"wrong shape": {func(t *testing.T) {
			saveArray(t, "data/02.npy", graphtest.Normal(1, 1, 3, 9, 8))
		}, `data: data: 02\.npy: .*\[1,3,9,8\] does not fit input x f32\[1,3,8,8\]`},
		"wrong rank": {func(t *testing.T) {
			saveArray(t, "data/02.npy", graphtest.Normal(1, 64))
		}, `data: data: 02\.npy: .*f32\[64\] does not fit input x f32\[1,3,8,8\]`},
		"shape of a lie": {only("a.npy", []byte("\x93NUMPY\x01\x00\x56\x00{'descr': '<f4', 'fortran_order': False, 'shape': (99999999, 3, 8, "+
			"8), }              \n")), `a\.npy: .*bytes`},
		"raw of odd size": {only("a.bin", make([]byte, 3*8*8*4+1)), `a\.bin: .*769 bytes are no multiple of the 768 of input x`},
	} {
		t.Run(name, func(t *testing.T) {
			workplace(t)
			c.prepare(t)
			fails(t, exitFailed, c.want, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8")
			fails(t, exitFailed, c.want, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "--threads", "3")
			if name != "infinite" { // it can be dumped, and looked at
				fails(t, exitFailed, c.want, "preprocess", "m.onnx", "--data", "data", "--dump", "new/folder")
			}
		})
	}
}

// Whole-number arrays are fed as floats where that is exact; complex ones are not.
func TestDataOfAnotherType(t *testing.T) {
	workplace(t)
	x := tensor.New(tensor.Uint8, 1, 3, 8, 8)
	for i, data := 0, tensor.Of[uint8](x); i < len(data); i++ {
		data[i] = byte(i)
	}
	saveArray(t, "u8.npy", x)
	done(t, "calibrate", "m.onnx", "--data", "u8.npy", "--platform", "trt_int8")
	fails(t, exitFailed, `u8\.npy: input "x" is f32\[1,3,8,8\], got u8\[1,3,8,8\]`, "run", "m.onnx", "--input", "x=u8.npy", "--output", "out")
}

func TestUnreadableData(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("permissions do not bind this user")
	}
	workplace(t)
	require.NoError(t, os.Chmod("data/01.npy", 0))
	t.Cleanup(func() { _ = os.Chmod("data/01.npy", 0o644) })
	r := invoke("calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8")
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `data: data: 01\.npy: .*permission denied`, r.lastLine())
}

func TestRunInputs(t *testing.T) {
	workplace(t)
	saveArray(t, "large.npy", graphtest.Normal(1, 1, 3, 9, 9))
	for want, in := range map[string][]string{
		`there is no input "image"; the graph has the inputs "?x"? f32\[1,3,8,8\]|input "x" is missing`: {"image=data/00.npy"},
		`input "x" is missing; the graph has the inputs "?x"?`:                                          {},
		`input "x" is f32\[1,3,8,8\], got f32\[1,3,9,9\]`:                                               {"x=large.npy"},
		`none\.npy: no such file`:     {"x=none.npy"},
		`m\.onnx: .*npy`:              {"x=m.onnx"},
		`--input: "x" is given twice`: {"x=data/00.npy", "x=data/01.npy"},
	} {
		args := []string{"run", "m.onnx", "--output", "out"}
		for _, i := range in {
			args = append(args, "--input", i)
		}
		code := exitFailed
		if len(in) == 2 {
			code = exitUsage
		}
		fails(t, code, want, args...)
	}
	fails(t, exitUsage, `--input "data/00.npy": not name=file.npy`, "run", "m.onnx", "--input", "data/00.npy", "--output", "out")
}

func TestBadLabels(t *testing.T) {
	workplace(t)
	good := "file\tindex\n00.npy\t3\n01.npy\t1\n02.npy\t0\n03.npy\t9\n"
	for name, c := range map[string]struct{ labels, offset, want string }{
		"no index":        {"00.npy\tcat\n01.npy\tdog\n", "0", `labels\.tsv: line 2: "dog" is no index`},
		"no tab":          {"file\tindex\n00.npy 3\n", "0", `labels\.tsv: line 2: needs a file, a tab and an index`},
		"one is missing":  {"00.npy\t3\n01.npy\t1\n02.npy\t0\n", "0", `data: 1 of 4 samples have no label \(first: .*03\.npy`},
		"contradiction":   {good + "00.npy\t4\n", "0", `labels\.tsv: line 6: 00\.npy has index 3 above and 4 here`},
		"negative":        {good, "-1", `class of .*02\.npy is negative`},
		"beyond the last": {good, "5", `03\.npy.*14.*10`},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, "labels.tsv", []byte(c.labels))
			fails(t, exitFailed, c.want, "eval", "m.onnx", "--data", "data", "--labels", "labels.tsv", "--label-offset", c.offset)
		})
	}
	fails(t, exitFailed, `none\.tsv: no such file`, "eval", "m.onnx", "--data", "data", "--labels", "none.tsv")
	fails(t, exitFailed, `4 of 4 samples have no label`, "eval", "m.onnx", "--data", "data")
}

func TestBadPreprocessing(t *testing.T) {
	workplace(t)
	for text, want := range map[string]string{
		"resize: {shorter: 256}\nsharpen: 3\n": `pre\.yaml:2: .*sharpen`,
		"mean: [1, 2, 3]\nmean: 4\n":           `pre\.yaml:2: .*mean`,
		"resize: {shorter: 256, size: 3}\n":    `pre\.yaml: resize: needs one of shorter and size`,
		"resize: {shorter: -1}\n":              `pre\.yaml: resize: shorter is -1`,
		"center_crop: 99999999999\n":           `pre\.yaml`,
		"std: 0\n":                             `pre\.yaml: .*std`,
		"mean: many\n":                         `pre\.yaml:1: `,
		"scale: .nan\n":                        `pre\.yaml: scale`,
		"channel_order: rbg\n":                 `pre\.yaml: channel_order: "rbg" is neither rgb nor bgr`,
		"resize: {shorter: 256, filter: fine}": `pre\.yaml: resize: unknown filter "fine"`,
		"[1, 2":                                `pre\.yaml`,
		"\x00\x01\x02":                         `pre\.yaml`,
	} {
		write(t, "pre.yaml", []byte(text))
		fails(t, exitFailed, want, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--preprocess", "pre.yaml")
	}
	fails(t, exitFailed, `imagenet-tourch.*imagenet-caffe`, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8", "--preprocess",
		"imagenet-tourch")
}
