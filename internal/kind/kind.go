// Package kind says what a file is by its beginning and its size, so that a command that is given the wrong one can say so, instead of
// passing on what a parser made of it.
package kind

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"qwb/graph/language/checkpoint"
	"qwb/internal/file"
)

// Kind is a sort of file. The zero value is one that is not recognised.
type Kind uint8

const (
	Unknown    Kind = iota
	ONNX            // a model
	Checkpoint      // a language model: llama2.c, GGUF, KuiperLLama, mllm, InferLLM, or a folder of Hugging Face
	Plan            // *.plan.json
	Statistics      // *.stats
	Overlay         // what qwb tune changed, *.tuned.*.safetensors
	Shard           // a part of statistics that --shard wrote
	Run             // a part of another command's run
	Grams           // Gram statistics, which qwb tune --shard wrote
	TFLite
	PNNX    // or ncnn, which begins alike
	PyTorch // a zip archive that torch.save wrote
	Numpy   // npy
	Picture // JPEG, PNG, BMP, GIF, WebP
	LFS     // a pointer of Git LFS to a file that was not fetched
	JSON    // other JSON
)

// facts are what a message says about a kind: what it is, and what to do with it.
var facts = [...]struct{ is, use string }{
	ONNX: {"an ONNX model", "qwb calibrate makes a plan of it; inspect, run and eval take it as it is"},
	Checkpoint: {"a checkpoint of a language model",
		"qwb generate, eval --text, analyze --text and export --format q80 (or another one) take it"},
	Plan: {"a plan", "qwb analyze, dispatch, eval, verify, export and diff take it; the model it is for stands in it"},
	Statistics: {"a file of statistics",
		"name the plan beside it; qwb merge makes one of several, and qwb tune --shard 1/1 writes Gram statistics"},
	Overlay: {"a file of tuned values", "name the plan beside it, which refers to it"},
	Shard:   {"a part of a run", "qwb merge puts all parts together"},
	Run:     {"a part of a run", "qwb merge puts all parts together"},
	Grams:   {"a file of Gram statistics", "qwb tune --gram takes it, qwb merge if it is a part"},
	TFLite:  {"a TensorFlow Lite model", "qwb import makes a plan of a quantized one; inspect, run and calibrate take one in float"},
	PNNX: {"a network of PNNX or ncnn",
		"inspect, run and calibrate take PNNX's, with the file .bin beside it; ncnn's are what qwb export writes"},
	PyTorch: {"a zip archive, as torch.save writes models", "write the model with torch.onnx.export"},
	Numpy:   {"an array of NumPy", "it is data: --data takes it, and --input of qwb run"},
	Picture: {"a picture", "it is data: --data takes it"},
	LFS:     {"a pointer of Git LFS, not the file itself", "git lfs pull fetches the file"},
	JSON:    {"a JSON file", "the only JSON that qwb reads are plans, which qwb calibrate writes"},
}

// String names the kind with its article: "an ONNX model".
func (k Kind) String() string {
	if k == Unknown || int(k) >= len(facts) {
		return "a file of unknown kind"
	}
	return facts[k].is
}

// Use says in a few words what takes a file of this kind; empty where it is not known.
func (k Kind) Use() string {
	if int(k) >= len(facts) {
		return ""
	}
	return facts[k].use
}

// A WrongError says that a file is of another kind than the one that is needed.
type WrongError struct {
	Path string
	Is   Kind
	Want string // "an ONNX model"
}

func (e *WrongError) Error() string {
	return e.Path + ": this is " + e.Is.String() + ", not " + e.Want + "; " + e.Is.Use()
}

// Check returns a *WrongError if the file at path is recognised as something else than the given kinds. A file that is not recognised, or
// cannot be read, is no error here: whoever opens it says what is wrong.
func Check(path, want string, kinds ...Kind) error { return check(Of(path), path, want, kinds) }

// CheckFile is Check for an open file that the operating system may not know.
func CheckFile(f fs.File, path, want string, kinds ...Kind) error {
	is := Unknown
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		is = ofHead(f, info.Size())
	}
	if base := filepath.Base(path); is == Unknown && filepath.Ext(path) == ".safetensors" || is == JSON && base == "config.json" {
		is = Checkpoint
	}
	return check(is, path, want, kinds)
}

func check(is Kind, path, want string, kinds []Kind) error {
	if is == Unknown || slices.Contains(kinds, is) {
		return nil
	}
	return &WrongError{Path: path, Is: is, Want: want}
}

// headSize is how much of a file is looked at.
const headSize = 512

// Of says what the file or folder at path is, Unknown for what cannot be opened too.
func Of(path string) Kind {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return Unknown
	case info.IsDir() && checkpoint.Is(path):
		return Checkpoint
	case !info.Mode().IsRegular():
		return Unknown // opening a pipe waits for a writer
	}
	f, err := file.OpenRead(path)
	if err != nil {
		return Unknown
	}
	defer f.Close()
	k := ofHead(f, info.Size())
	if (k == Unknown || k == ONNX || k == JSON) && checkpoint.Is(path) { // config.json is one of a folder
		return Checkpoint
	}
	return k
}

func ofHead(f io.Reader, size int64) Kind {
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return Unknown
	}
	if k := OfBytes(head[:n], size); k != Unknown || !checkpoint.Begins(head[:n]) {
		return k
	}
	return Checkpoint // llama2.c's version 0 has no magic number
}

// OfBytes says what a file of this size is that begins with head, which may be all of it. It does not recognise what has no magic number
// but llama2.c's version 0 and safetensors.
func OfBytes(head []byte, size int64) Kind {
	for _, m := range magics {
		if len(head) >= m.at+len(m.bytes) && string(head[m.at:m.at+len(m.bytes)]) == m.bytes {
			return m.kind
		}
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case checkpoint.IsKuiper(head, size):
		return Checkpoint
	case len(head) > 8 && overlayStart.Match(head[8:]): // safetensors: a length, then JSON
		return Overlay
	case len(text) > 0 && text[0] == '{' && bytes.Contains(text, []byte(`"qwb plan"`)):
		return Plan
	case len(text) > 1 && text[0] == '{' && strings.ContainsRune("\"} \t\r\n", rune(text[1])):
		return JSON
	case len(head) > 3 && head[0] == 0x08 && head[1] >= 1 && head[1] <= 30 && strings.IndexByte("\x12\x1a\x22\x28\x32\x3a\x42", head[2]) >= 0:
		return ONNX // ir_version, then another field of ModelProto
	}
	return Unknown
}

// magics are tried in this order.
var magics = []struct {
	kind  Kind
	at    int
	bytes string
}{
	{Statistics, 0, "qwbstat"},
	{Statistics, 0, "qwbpart\x01"}, // of an interrupted calibration
	{Shard, 0, "qwbshrd\x01"},
	{Run, 0, "qwbwork\x01"},
	{Grams, 0, "qwbgram"},
	{Grams, 0, "qwbgrpt\x01"}, // of an interrupted run
	{Checkpoint, 0, "GGUF"},
	{Checkpoint, 0, "24ka"},                             // llama2.c versions 1 and 2
	{Checkpoint, 0, "\x2c\x4e\x00\x00"},                 // mllm: 20012
	{Checkpoint, 0, "\x56\x34\x12\x00\x18\x00\x00\x00"}, // InferLLM
	{TFLite, 4, "TFL3"},
	{PNNX, 0, "7767517\n"},
	{Numpy, 0, "\x93NUMPY"},
	{Picture, 0, "\xff\xd8\xff"},
	{Picture, 0, "\x89PNG\r\n\x1a\n"},
	{Picture, 0, "GIF8"},
	{Picture, 8, "WEBPVP8"},
	{PyTorch, 0, "PK\x03\x04"}, // npz begins like this too: data are never asked about
	{LFS, 0, "version https://git-lfs.github.com/"},
}

// overlayStart is how the JSON of an overlay begins: with its first entry, or with its format where it has none.
var overlayStart = regexp.MustCompile(`^\{"__metadata__":\{("entry [^"]+":"\{\\"node\\"|"format":"qwb overlay")`)
