package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/export"
	"qwb/export/language/llama2c"
	"qwb/graph/language/checkpoint"
	"qwb/internal/graphtest"
)

// inLanguageFolder makes a folder with m.bin, a small model whose rows are of 64 and 96 elements, and its tokenizer, the current one.
func inLanguageFolder(t *testing.T) shape {
	t.Helper()
	inFolder(t)
	s := tiny
	s.dim, s.hidden = 64, 96
	saveLanguage(t, "m.bin", s, 1)
	saveTokenizer(t, "tokenizer.bin", s.vocab)
	return s
}

// TestCheckpointsAreExported: every format of a small model, with what --json says about it.
func TestCheckpointsAreExported(t *testing.T) {
	inLanguageFolder(t)
	source := read(t, "m.bin")
	for _, c := range []struct {
		format, file string
		codes        bool
		warnings     int
	}{
		{"onnx", "m.onnx", true, 0}, {"q80", "m.q80.bin", true, 1}, {"llama2c-v0", "m.llama2c-v0.bin", false, 0},
		{"llama2c-v1", "m.llama2c-v1.bin", false, 0},
		{"kuiper", "m.kuiper.bin", true, 1}, {"gguf", "m.gguf.gguf", true, 0}, {"mllm", "m.mllm.mllm", true, 2},
	} {
		r := done(t, "export", "m.bin", "--format", c.format, "--method", "range", "--json")
		o := r.object(t)
		assert.Equal(t, c.format, o["format"])
		assert.Equal(t, c.file, o["file"])
		sum := hexSum(read(t, c.file))
		assert.Equal(t, sum, o["sha256"])
		assert.Len(t, o["warnings"], c.warnings, "%v", o["warnings"])
		v := o["verification"].(map[string]any)
		assert.Equal(t, "equal", v["verdict"])
		assert.Equal(t, c.codes, v["weights"].(map[string]any)["codes"].(float64) > 0)
		assert.Equal(t, c.codes && c.format != "onnx", v["run"].(map[string]any)["sums"].(float64) > 0)
		assert.Zero(t, v["run"].(map[string]any)["sums_different"])
	}
	assert.True(t, bytes.Equal(source, read(t, "m.llama2c-v0.bin")))

	// What was written is a model for every command, with the config.json beside it where the format does not hold the shape.
	write(t, "t.txt", []byte("a b c d e\n"))
	for _, file := range []string{"m.q80.bin", "m.kuiper.bin", "m.gguf.gguf", "m.mllm.mllm"} {
		o := done(t, "eval", file, "--text", "t.txt", "--mode", "sim", "--against", "m.bin", "--json").object(t)
		assert.Less(t, o["kl"].(float64), 0.05, file)
		done(t, "inspect", file)
	}
	require.NoError(t, os.Remove("m.mllm.config.json"))
	fails(t, exitFailed, "the shape of its model has to stand in m.mllm.config.json or config.json beside it", "eval", "m.mllm.mllm", "--text",
		"t.txt")

	// A GGUF file brings its tokens along, into another one too.
	done(t, "export", "m.gguf.gguf", "--format", "gguf", "-o", "again.gguf")
	assert.True(t, bytes.Equal(read(t, "m.gguf.gguf"), read(t, "again.gguf")))
	assert.Contains(t, done(t, "export", "m.gguf.gguf", "--format", "q80").stderr, "tensors are those of the source, bit for bit")
	fails(t, exitFailed, "is stored as Q8_0, which Q4_0 does not hold: row 0: integers from", "export", "m.gguf.gguf", "--format", "mllm",
		"--weights", "q4_0")
	assert.Contains(t, done(t, "export", "m.gguf.gguf", "--format", "mllm", "--weights", "q4_0", "--requantize", "yes").stderr,
		"query of layer 0: quantized once more, error 0.0")
	require.NoError(t, os.Remove("tokenizer.bin"))
	assert.Contains(t, done(t, "export", "m.bin", "--format", "gguf").stderr, "the file has no tokenizer")
}

// TestGroupsThatStraddleRows: a file of q80 that llama2.c's exporter writes too is written, but no longer called verified; others are
// refused, and what is computed of such groups comes with a warning.
func TestGroupsThatStraddleRows(t *testing.T) {
	inLanguageFolder(t)
	write(t, "t.txt", []byte("a b c\n"))
	r := done(t, "export", "m.bin", "--format", "q80", "--group-size", "64", "-o", "q.bin", "--json")
	assert.NotContains(t, r.stderr, "verified:")
	assert.Contains(t, r.stderr, "runq of llama2.c leaves out the last 32 elements of each row")
	v := r.object(t)["verification"].(map[string]any)
	assert.Equal(t, "unverified", v["verdict"])
	assert.Contains(t, v["reason"], "rows of 96 elements of down")
	assert.Contains(t, v["reason"], "sizes that fit: 32, 16, 8")
	fails(t, exitFailed, "groups of 128 elements do not divide the rows of 64 elements of embedding.*sizes that fit: 32, 16, 8", "export",
		"m.bin", "--format", "q80", "--group-size", "128", "-o", "new.bin")
	for _, args := range [][]string{{"eval", "q.bin", "--text", "t.txt"}, {"eval", "m.bin", "--text", "t.txt", "--group-size", "64"}} {
		assert.Contains(t, done(t, args...).stderr, "no engine computes groups that straddle rows", "%v", args)
	}
	assert.NotContains(t, done(t, "eval", "m.bin", "--text", "t.txt", "--group-size", "32").stderr, "straddle")
}

// TestHelpListsFormats with what their engines want: that InferLLM has to be started with --version 2 was said nowhere.
func TestHelpListsFormats(t *testing.T) {
	help := done(t, "export", "--help").stdout
	assert.Regexp(t, `(?m)^  inferllm +InferLLM \(start it with --version 2\)$`, help)
	assert.Regexp(t, `(?m)^  mllm +mllm version 1$`, help)
	assert.Regexp(t, `(?m)^  q80 +llama2.c version 2`, help)
}

func TestCheckpointsThatAreNotExported(t *testing.T) {
	languagePlace(t)
	saveTokenizer(t, "other.bin", tiny.vocab+1)
	b := read(t, "m.bin")
	write(t, "cut.bin", b[:len(b)-1000])
	bad := bytes.Clone(b)
	binary.LittleEndian.PutUint32(bad[28+4*100:], math.Float32bits(float32(math.NaN())))
	write(t, "nan.bin", bad)
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, `m.bin is a checkpoint: unknown format "c" of checkpoints: one of onnx, q80, llama2c-v0`, []string{"m.bin", "--format", "c"}},
		{exitUsage, `format onnx: --weights q8_0: one of int8, int4`, []string{"m.bin", "--weights", "q8_0"}},
		{exitFailed, "a power of two, 16 or more", []string{"m.bin", "--group-size", "24"}},
		{exitFailed, "is NaN", []string{"nan.bin", "-o", "nan.onnx"}},
		{exitUsage, `unknown format "q4"`, []string{"m.bin", "--format", "q4"}},
		{exitUsage, "--group-size -8: must be 0 or more", []string{"m.bin", "--format", "q80", "--group-size", "-8"}},
		{exitUsage, `--method best: one of rtn, range, rtn,range`, []string{"m.bin", "--format", "q80", "--method", "best"}},
		{exitUsage, `format gguf: --weights int8: one of q8_0`, []string{"m.bin", "--format", "gguf", "--weights", "int8"}},
		{exitUsage, "--tokenizer is for format q80 with --method rtn,range only", []string{"m.bin", "--format", "q80", "--tokenizer",
			"tokenizer.bin"}},
		{exitUsage, "--backend is not for a checkpoint", []string{"m.bin", "--format", "q80", "--backend", "cpu"}},
		{exitUsage, "--platform is not for a checkpoint", []string{"m.bin", "--format", "q80", "--platform", "ort"}},
		{exitFailed, "groups of 7 elements do not divide the", []string{"m.bin", "--format", "q80", "--group-size", "7"}},
		{exitFailed, "groups of 32 elements do not divide the rows", []string{"m.bin", "--format", "kuiper", "--group-size", "32"}},
		{exitFailed, "asks for", []string{"cut.bin", "--format", "q80"}},
		{exitFailed, `embedding.* element \[6,4\] is NaN`, []string{"nan.bin", "--format", "q80"}},
		{exitFailed, "is NaN", []string{"nan.bin", "--format", "llama2c-v1", "--unverified"}},
		{exitFailed, "this tokenizer belongs to another model", []string{"m.bin", "--format", "gguf", "--tokenizer", "other.bin"}},
		{exitFailed, "InferLLM cannot hold 2 heads", []string{"m.bin", "--format", "inferllm"}},
		{exitFailed, "m.bin is the input checkpoint", []string{"m.bin", "--format", "llama2c-v0", "-o", "m.bin"}},
		{exitFailed, "no such file", []string{"m.bin", "--format", "q80", "-o", "nowhere/m.q80"}},
	} {
		fails(t, c.code, c.want, append([]string{"export"}, c.args...)...)
	}
}

// TestWrittenCheckpointsAreVerified: a file that was changed between writing and reading does not get its name.
func TestWrittenCheckpointsAreVerified(t *testing.T) {
	languagePlace(t)
	for at, want := range map[int64]string{
		-5000: "export: the written file differs from its source", // a code, or a scale
		8:     "export: what was written cannot be read",          // the dimension
	} {
		before := tree(t, ".")
		o := qwb.ExportOptions{Format: "q80", Out: "q.bin", Threads: 2}
		format := llama2c.Q80()
		read := format.Open
		format.Open = func(path string, c *checkpoint.Config) (*checkpoint.Model, error) {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			b[(at+int64(len(b)))%int64(len(b))] ^= 0x40
			require.NoError(t, os.WriteFile(path, b, 0o600))
			return read(path, c)
		}
		var stdout, stderr bytes.Buffer
		e := &env{stdout: &stdout, stderr: &stderr}
		p := e.project("m.bin", "")
		p.Catalog.Formats = []export.Format{format.Export()}
		r, _, err := p.Export(context.Background(), o)
		require.ErrorContains(t, err, want)
		assert.ErrorAs(t, err, new(qwb.CheckError))
		assert.Equal(t, "different", r.Checkpoint.Verdict)
		assert.NotEmpty(t, r.Checkpoint.Reason)
		assert.Equal(t, before, tree(t, "."))

		o.Unverified = true
		_, _, err = p.Export(context.Background(), o)
		require.NoError(t, err)
		require.NoError(t, os.Remove("q.bin"))
	}
}

// TestInterruptedExportLeavesNothing: whenever it is stopped.
func TestInterruptedExportLeavesNothing(t *testing.T) {
	languagePlace(t)
	before := tree(t, ".")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := invokeContext(ctx, watcher{}, "export", "m.bin", "--format", "q80")
	assert.Equal(t, exitFailed, r.code)
	assert.Equal(t, "qwb: interrupted", r.lastLine())
	assert.Equal(t, before, tree(t, "."))
}

// TestExportOfAFolderNeedsItsTokenizer: the tokenizer of a Hugging Face folder is written into GGUF, or export refuses; none leaves it out.
func TestExportOfAFolderNeedsItsTokenizer(t *testing.T) {
	from, err := filepath.Abs("../../graph/language/decode/testdata")
	require.NoError(t, err)
	inFolder(t)
	require.NoError(t, os.CopyFS("m", os.DirFS(filepath.Join(from, "qwen2"))))
	tokenizer, err := os.ReadFile(filepath.Join(from, "tokenizer-qwen2.json")) // of a larger vocabulary
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join("m", "tokenizer.json"), tokenizer, 0o600))
	fails(t, exitFailed, "--tokenizer none writes the file without one", "export", "m", "--format", "gguf", "-o", "m.gguf")
	require.NoFileExists(t, "m.gguf")
	r := done(t, "export", "m", "--format", "gguf", "--tokenizer", "none", "-o", "m.gguf")
	require.Contains(t, r.stderr, "the file has no tokenizer")
}

// TestScalesThatAreJudged: every kind of matrix is judged on the text, and the file has the searched scales of those that were kept, and of
// no other.
func TestScalesThatAreJudged(t *testing.T) {
	inLanguageFolder(t)
	require.NoError(t, os.WriteFile("judge.txt", []byte("abc\nbca bca\ncab a b\nabab\n"), 0o600))
	fails(t, exitUsage, "--method rtn,range and --judge FILE go together", "export", "m.bin", "--format", "q80", "--method", "rtn,range")
	fails(t, exitUsage, "go together", "eval", "m.bin", "--text", "judge.txt", "--judge", "judge.txt")
	fails(t, exitUsage, "quantizes no weights", "export", "m.bin", "--format", "gguf", "--weights", "f32", "--method", "rtn,range",
		"--judge", "judge.txt")
	judge := []string{"--method", "rtn,range", "--judge", "judge.txt", "--json"}
	for _, c := range [][]string{{"q80", "--group-size", "32"}, {"gguf", "--weights", "q4_0"},
		{"onnx", "--weights", "int4", "--group-size", "32"}} {
		args := append([]string{"export", "m.bin", "--format"}, c...)
		r := done(t, append(append(args, "-o", "judged"), judge...)...)
		o := r.object(t)
		require.Equal(t, "equal", o["verification"].(map[string]any)["verdict"])
		require.Len(t, o["judged"], 8, "embedding and seven kinds of matrices of layers")
		require.Contains(t, r.stderr, "range of query: mean NLL ")
		kept := 0
		for _, j := range o["judged"].([]any) {
			j := j.(map[string]any)
			require.EqualValues(t, 4, j["sequences"])
			require.Equal(t, j["nll_change"].(float64)+2*j["nll_change_error"].(float64) < 0, j["kept"])
			if j["kept"] == true {
				kept++
			}
		}
		for method, other := range map[string]bool{"rtn": kept > 0, "range": kept < 8} {
			done(t, append(args, "-o", "plain", "--method", method)...)
			require.Equal(t, other, !bytes.Equal(read(t, "plain"), read(t, "judged")), "%s, %d kept", method, kept)
		}
	}
	o := done(t, append([]string{"eval", "m.bin", "--text", "judge.txt", "--bits", "4", "--group-size", "32"}, judge...)...).object(t)
	require.Len(t, o["judged"], 8)
	require.Contains(t, done(t, append([]string{"generate", "m.bin", "--prompt", "ab", "--tokens", "8"}, judge...)...).stderr,
		"kinds of matrices")
}

// TestExportGoesOn: what an interrupted run has fitted is taken, up to where its file is broken, and the file is gone in the end.
func TestExportGoesOn(t *testing.T) {
	inLanguageFolder(t)
	write(t, "t.txt", []byte("a b c d e\nb c\n"))
	args := []string{"export", "m.bin", "--format", "gguf", "--weights", "q4_0", "--method", "gptq", "--fit", "t.txt", "-o"}
	done(t, append(args, "whole.gguf")...)
	require.NoFileExists(t, "whole.gguf.fitting")
	var kept []byte
	for n := 20; len(kept) < 20000; n += 20 {
		require.Less(t, n, 5000, "it kept nothing")
		require.NotZero(t, invokeContext(graphtest.NewEnding(n), watcher{}, append(args, "cut.gguf")...).code)
		kept, _ = os.ReadFile("cut.gguf.fitting") // perhaps it came to none
	}
	write(t, "cut.gguf.fitting", kept[:len(kept)-9])
	require.Regexp(t, `going on behind [1-9]\d* matrices`, done(t, append(args, "cut.gguf")...).stderr)
	require.Equal(t, read(t, "whole.gguf"), read(t, "cut.gguf"))
	require.NoFileExists(t, "cut.gguf.fitting")
	write(t, "cut.gguf.fitting", kept)
	require.Contains(t, done(t, slices.Concat(args, []string{"cut.gguf", "--method", "gptaq"})...).stderr, "another interrupted run")
}

// TestBitsPerWeight: matrices get types of their own, so that the tensors take no more bits than asked for, and more of them leave less
// error; the file reads back as it was planned, the same for any number of threads.
func TestBitsPerWeight(t *testing.T) {
	inLanguageFolder(t)
	write(t, "t.txt", []byte("a b c d e\nb c\n"))
	args := []string{"export", "m.bin", "--format", "gguf", "--method", "gptq", "--fit", "t.txt", "--json"}
	last := math.Inf(1)
	for _, bits := range []float64{4.9, 6, 9} {
		asked := strconv.FormatFloat(bits, 'g', -1, 64)
		r := done(t, append(args, "--bpw", asked, "-o", "m.gguf")...)
		require.Equal(t, "equal", r.object(t)["verification"].(map[string]any)["verdict"])
		m, err := checkpoint.Open("m.gguf")
		require.NoError(t, err)
		total, elements, types := 0, 0, map[checkpoint.Type]bool{}
		for _, x := range m.Tensors() {
			total, elements = total+x.Type.Bytes(x.Len()), elements+x.Len()
			if !x.Role.Vector() {
				types[x.Type] = true
			}
		}
		require.NoError(t, m.Close())
		assert.LessOrEqual(t, 8*float64(total)/float64(elements), bits)
		assert.Greater(t, 8*float64(total)/float64(elements), 0.9*bits)
		assert.Greater(t, len(types), 1)
		_, text, found := strings.Cut(r.stderr, "expected divergence from the float model ")
		require.True(t, found, r.stderr)
		expected, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
		require.NoError(t, err)
		assert.Less(t, expected, last)
		last = expected
		_, text, found = strings.Cut(text, "(with all as ")
		require.True(t, found, r.stderr)
		alike, err := strconv.ParseFloat(strings.TrimSuffix(strings.Fields(text)[1], ")"), 64)
		require.NoError(t, err)
		assert.LessOrEqual(t, expected, alike)
	}
	done(t, append(args, "--bpw", "9", "--threads", "3", "-o", "three.gguf")...)
	assert.Equal(t, read(t, "m.gguf"), read(t, "three.gguf"))
	for want, more := range map[string][]string{
		"--bpw 4: 4.6":                       {"--bpw", "4"},
		"--bpw many: not a number of bits":   {"--bpw", "many"},
		"--bpw NaN: not a number of bits":    {"--bpw", "NaN"},
		"--bpw is for --method importance, ": {"--bpw", "5", "--method", "rtn", "--fit", ""},
	} {
		fails(t, exitUsage, want, append(slices.Clone(args), more...)...)
	}
	for _, more := range [][]string{{"--bpw", "9"}, {"--weights", "q4_0"}, {"--weights", "q4_0", "--method", "awq"}} {
		more = append(more, "-o", "less.gguf", "--mem")
		_, figure, _ := strings.Cut(fails(t, exitFailed, "would do", slices.Concat(args, more, []string{"64M"})...).stderr, ": --mem ")
		done(t, slices.Concat(args, more, []string{strings.Fields(figure)[0]})...)
	}
}

// TestImportanceMatrix: the sums of a text are written, and weights quantized under them; what cannot be one is refused.
func TestImportanceMatrix(t *testing.T) {
	s := inLanguageFolder(t)
	write(t, "t.txt", []byte("a b c d e\nb c\n"))
	r := done(t, "export", "m.bin", "--format", "gguf", "--weights", "q4_1", "--method", "importance", "--fit", "t.txt",
		"--imatrix-out", "i.gguf", "-o", "fit.gguf")
	assert.Contains(t, r.stderr, "i.gguf: importance matrix of")
	m, err := checkpoint.ReadImportance("i.gguf")
	require.NoError(t, err)
	assert.Len(t, m.Entries, 7*s.layers+1)
	assert.Equal(t, []string{"t.txt"}, m.Datasets)
	write(t, "first.txt", []byte("a b c d e\n"))
	done(t, "export", "m.bin", "--format", "gguf", "--method", "importance", "--fit", "first.txt", "--imatrix-out", "first.imatrix")
	done(t, "export", "m.bin", "--format", "gguf", "--method", "importance", "--fit", "t.txt", "--fit-tokens", "2",
		"--imatrix-out", "less.imatrix")
	less, err := checkpoint.ReadImportance("less.imatrix")
	require.NoError(t, err)
	first, err := checkpoint.ReadImportance("first.imatrix")
	require.NoError(t, err)
	assert.Equal(t, first.Entries, less.Entries)
	fails(t, exitUsage, "--fit-tokens is of the text of --fit", "export", "m.bin", "--format", "gguf", "--fit-tokens", "2")
	done(t, "export", "m.bin", "--format", "gguf", "--weights", "q4_1", "--method", "importance", "--imatrix", "i.gguf", "-o", "same.gguf")
	done(t, "export", "m.bin", "--format", "gguf", "--weights", "q4_1", "--method", "range", "-o", "range.gguf")
	assert.NotEqual(t, read(t, "range.gguf"), read(t, "same.gguf"))

	usage := func(want string, args ...string) {
		t.Helper()
		fails(t, exitUsage, want, append([]string{"export", "m.bin", "--format", "gguf"}, args...)...)
	}
	usage("--imatrix FILE is for --method importance", "--method", "gptq", "--imatrix", "i.gguf")
	usage("--imatrix FILE is for --method importance without --fit", "--method", "importance", "--imatrix", "i.gguf", "--fit", "t.txt")
	usage("--imatrix-out is of the text of --fit", "--imatrix-out", "x.gguf")
	m.Entries = m.Entries[:1]
	m.Entries[0].Name = "other"
	var b bytes.Buffer
	require.NoError(t, m.Write(&b))
	write(t, "other.gguf", b.Bytes())
	usage("it has nothing of this model's matrices", "--method", "importance", "--imatrix", "other.gguf")
	fails(t, exitFailed, "a name of 0 bytes", "export", "m.bin", "--format", "gguf", "--method", "importance", "--imatrix", "tokenizer.bin")
}
