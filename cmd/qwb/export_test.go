package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/export/all"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
)

// Weights that do not fit into one message go to a file beside the model, which still computes the same.
func TestExportWithWeightsBesideTheModel(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	e := &env{stdout: io.Discard, stderr: io.Discard}
	for _, o := range []qwb.ExportOptions{{Out: "one.onnx"}, {Out: "two.onnx", Options: map[string]string{"external-above": "1"}}} {
		o.Platform = "onnxruntime"
		r, _, err := e.project("", "m.plan.json").Export(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, hexSum(read(t, o.Out)), r.SHA256)
		require.Equal(t, o.Out, r.File)
		for _, f := range r.Files {
			require.Equal(t, hexSum(read(t, f.Path)), f.SHA256)
		}
		if o.Options != nil {
			require.Equal(t, []string{"two.onnx", "two.onnx.data"}, []string{r.Files[0].Path, r.Files[1].Path})
		}
	}
	_, err := os.Stat("two.onnx.data")
	require.NoError(t, err)
	one, _, err := onnx.Open("one.onnx")
	require.NoError(t, err)
	defer one.Close()
	two, _, err := onnx.Open("two.onnx")
	require.NoError(t, err)
	defer two.Close()
	require.Equal(t, one.Graph.NumNodes(), two.Graph.NumNodes())
	done(t, "run", "one.onnx", "--input", "x=data/00.npy", "--output", "a")
	done(t, "run", "two.onnx", "--input", "x=data/00.npy", "--output", "b")
	require.Equal(t, read(t, "a/y.npy"), read(t, "b/y.npy"))
}

// Test vectors are a format like any other, and the same files as verify --dump and --patterns write.
func TestVectorsAreAFormat(t *testing.T) {
	calibrated(t)
	done(t, "verify", "--dump", "a", "--patterns", "b")
	for format, dir := range map[string]string{"vectors": "a", "patterns": "b"} {
		o := done(t, "export", "--format", format, "-o", "out/"+format, "--json").object(t)
		require.Equal(t, "out/"+format, o["file"])
		files := o["files"].([]any)
		require.NotEmpty(t, files)
		first := files[0].(map[string]any)
		require.Equal(t, o["sha256"], first["sha256"])
		require.Equal(t, hexSum(read(t, first["path"].(string))), first["sha256"])
		require.Equal(t, below(tree(t, dir), dir), below(tree(t, "out/"+format), "out/"+format))
		require.Positive(t, o["steps"])
		require.Equal(t, "trt_int8", o["platform"])
		require.NotEmpty(t, o["profile"])
	}
}

// below is a tree with names that are relative to a folder in it.
func below(files map[string]string, dir string) map[string]string {
	out := map[string]string{}
	for name, content := range files {
		out[strings.TrimPrefix(name, dir)] = content
	}
	return out
}

// The list of formats is what the values say.
func TestListOfFormats(t *testing.T) {
	inFolder(t)
	text := done(t, "export", "--formats").stdout
	require.Contains(t, text, "kuiper (checkpoint): KuiperLLama version 3, int8 in groups\n")
	require.Contains(t, text, "--size: sizes of dimensions that the model leaves open")
	list := done(t, "export", "--formats", "--json").object(t)["formats"].([]any)
	require.Len(t, list, len(all.Formats()))
	for _, x := range list {
		f := x.(map[string]any)
		require.Contains(t, []any{"plan", "program", "checkpoint"}, f["needs"])
		require.NotNil(t, f["options"])
	}
	help := done(t, "export", "--help").stdout
	for _, f := range all.Formats() {
		require.Contains(t, help, "  "+f.Name+" ")
		for _, o := range f.AllOptions() {
			require.Contains(t, help, "--"+o.Name)
		}
	}
	require.Regexp(t, `nxp +float ONNX.*; EXPERIMENTAL`, help)
}

// What the format does not take is said before anything is done.
func TestOptionsOfOtherFormats(t *testing.T) {
	calibrated(t)
	before := tree(t, ".")
	fails(t, exitUsage, "--batch is not for format onnx of a plan, only --external-above, --doc-string, --half", "export", "--platform",
		"trt_int8", "--batch", "2")
	fails(t, exitUsage, "--method is not for format c of a program", "export", "--format", "c", "--method", "range")
	fails(t, exitUsage, `format "gguf" is of checkpoints, not of plans for trt_int8: one of onnx, qoperator, c, image, vectors, patterns`,
		"export", "--platform", "trt_int8", "--format", "gguf")
	fails(t, exitUsage, `unknown format "pb" of plans for trt_int8: one of onnx`, "export", "--platform", "trt_int8", "--format", "pb")
	fails(t, exitFailed, "plan: open nothere: no such file", "export", "nothere", "--format", "gguf")
	fails(t, exitUsage, "--batch 0: at least 1", "export", "--format", "c", "--batch", "0")
	require.Equal(t, before, tree(t, "."))
}

// What the plan is made of is never replaced by an export of it.
func TestExportReplacesNoInput(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8")
	for _, name := range []string{"m.onnx", "m.plan.json", "m.stats"} {
		before, err := os.ReadFile(name)
		require.NoError(t, err)
		fails(t, exitFailed, name+" would be replaced: name another file with -o", "export", "--platform", "trt_int8", "--unverified",
			"-o", "./"+name)
		fails(t, exitFailed, "would be replaced: name another file with -o", "plan", "recipe", "-o", name)
		after, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	for _, name := range []string{"m.runs.jsonl", "m.analysis.json", "m.plan.json.bak"} { // which belong to the plan
		require.NoError(t, os.WriteFile(name, nil, 0o644))
		fails(t, exitFailed, name+" would be replaced", "export", "--platform", "trt_int8", "--unverified", "-o", name)
	}
}

// What people read is not written over a model, a plan or statistics.
func TestReportsReplaceNoInput(t *testing.T) {
	calibrated(t)
	before := read(t, "m.onnx")
	for _, args := range [][]string{{"analyze", "--html", "m.onnx"}, {"verify", "--html", "m.plan.json"},
		{"eval", "--data", "data", "--answers", "m.stats"}} {
		fails(t, exitFailed, "would overwrite a file", args...)
	}
	require.Equal(t, before, read(t, "m.onnx"))
	done(t, "analyze", "--samples", "2", "--html", "r.html")
	done(t, "analyze", "--samples", "2", "--html", "r.html")
}

// Files beside the one that is named replace no input either: the plan, or the weights of the model. Those that were there without it are
// replaced with a warning.
func TestExportReplacesNoInputBeside(t *testing.T) {
	workplace(t)
	m := &onnx.Model{Graph: graphtest.Parse(t, network)}
	require.NoError(t, m.Save("w.onnx", onnx.SaveOptions{ExternalAbove: 1}))
	require.FileExists(t, "w.onnx.data")
	done(t, "calibrate", "w.onnx", "--data", "data", "--platform", "snpe")
	fails(t, exitFailed, `w.plan.json would be replaced: name another file with -o`, "export", "--unverified", "-o", "w.plan.onnx")
	fails(t, exitFailed, `w.onnx.data would be replaced`, "export", "--unverified", "-o", "w.onnx.data")
	require.NotContains(t, done(t, "export", "--unverified", "-o", "new.onnx").stderr, "is replaced")
	require.NotContains(t, done(t, "export", "--unverified", "-o", "new.onnx").stderr, "is replaced")
	require.NoError(t, os.Remove("new.onnx"))
	require.Contains(t, done(t, "export", "--unverified", "-o", "new.onnx").stderr, "new.json was there without new.onnx and is replaced")
}

// A plan in which nothing is on integers is exported with a warning, one that changes nothing is not, and a file that would not show what
// the plan decides is refused. The platform is the plan's own.
func TestExportWithoutIntegers(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	// what is reported is the verification that was run
	o := done(t, "export", "--format", "c", "--profile", "tflite2", "--json", "-o", "m.c").object(t)
	require.Equal(t, "tflite2", o["verification"].(map[string]any)["profile"])
	done(t, "set", "*", "domain=fp16")
	r := done(t, "export", "-o", "h.onnx")
	require.Contains(t, r.stderr, "in fp16 or bf16): nothing could be verified on integers")
	require.NotContains(t, r.stderr, "verified on 4 samples")
	done(t, "set", "*", "domain=fp32")
	require.Contains(t, invoke("export", "-o", "f.onnx").stderr, "the plan changes nothing of the float model")
	require.NoFileExists(t, "f.onnx")
	require.NoError(t, os.Remove("m.plan.json"))
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "tflite_int8")
	fails(t, exitFailed, `--batch 3: the size of the batch is fixed: "x" is f32\[1,3,8,8\]`, "export", "--batch", "3")
	fails(t, exitFailed, `--size Q=7: no input has such an open dimension`, "export", "--format", "c", "--size", "Q=7")
	done(t, "export", "-o", "m.tflite")
	require.Contains(t, string(read(t, "m.tflite")), "qwb.plan")
	for _, domain := range []string{"fp16", "weights"} {
		done(t, "set", "type:Conv", "domain="+domain)
		fails(t, exitFailed, `Conv: .*not written to .tflite.*"conv1"`, "export", "-o", "n.tflite")
	}
}

// A format of fixed sizes has those of the data where the model leaves height and width open and none are given, and says so.
func TestExportTakesOpenSizesFromTheData(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", "graph open\nopset 17\ninput x: f32[N,3,H,W]\nconst w: f32[4,3,3,3] = normal(seed=1)\n"+
		"y = Conv(x, w) {pads=[1, 1, 1, 1]} \"conv\"\noutput y\n")
	saveInputs(t, "data", 100, 4, 1, 3, 8, 6)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "tflite_int8")
	const said = "the sizes of the first sample where the model leaves them open: H=8,W=6"
	require.Contains(t, done(t, "export", "-o", "a.tflite").stderr, said)
	require.NotContains(t, done(t, "export", "--size", "H=8,W=6", "-o", "b.tflite").stderr, said)
	require.Equal(t, read(t, "b.tflite"), read(t, "a.tflite"))
	fails(t, exitCheck, `"x" is f32\[1,3,9,9\], got f32\[1,3,8,6\]; nothing was written`, "export", "--size", "H=9,W=9", "-o", "c.tflite")
	require.NoError(t, os.RemoveAll("data"))
	fails(t, exitFailed, `needs sizes for all of its dimensions \(--size\)`, "export", "--unverified", "-o", "d.tflite")
}

// A file may take pictures as bytes; a plan of other data than pictures says why it has none.
func TestExportWithPicturesAsInputs(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", network)
	write(t, "p.yaml", []byte("resize: {size: [8, 8]}\nscale: 0.00392156862745098\nmean: [0.4, 0.5, 0.6]\nstd: [0.2, 0.25, 0.3]\n"))
	pictures(t, "pictures", 0, 8, func(c int) int { return c })
	done(t, "calibrate", "m.onnx", "--data", "pictures", "--preprocess", "p.yaml", "--platform", "onnxruntime")
	for _, format := range []string{"onnx", "qoperator"} {
		for inputs, want := range map[string]string{"pixels": "Cast", "integers": "Conv"} {
			file := format + "." + inputs + ".onnx"
			done(t, "export", "m.plan.json", "--format", format, "--inputs", inputs, "-o", file)
			m, _, err := onnx.Open(file)
			require.NoError(t, err)
			x := m.Graph.Inputs[0]
			require.Equal(t, "u8[1,3,8,8]", m.Graph.Value(x).DType.String()+m.Graph.Value(x).Shape.String())
			require.Contains(t, m.Graph.Node(m.Graph.Uses(x)[0].Node).Op+" DequantizeLinear Conv", want)
			require.NoError(t, m.Close())
		}
	}
	saveInputs(t, "data", 7, 2, 1, 3, 8, 8)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "-o", "arrays.plan.json")
	fails(t, exitFailed, "the plan was not calibrated with pictures", "export", "arrays.plan.json", "--inputs", "pixels", "-o", "a.onnx")
}
