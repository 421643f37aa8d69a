package open

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/pnnx"
	"qwb/graph/tflite"
	"qwb/graph/tflite/lift"
	"qwb/internal/kind"
	"qwb/internal/shard"
	"qwb/internal/work/fault"
	"qwb/internal/work/store"
	"qwb/observers"
)

// Model is a loaded ONNX file, or the graph of a checkpoint. Graph is the file's graph, or its normal form; loaded is always the
// file's.
type Model struct {
	*onnx.Model
	Loaded *graph.Graph
	Path   string
	// Digest is the SHA-256 of the file and of the external data it refers to, in hexadecimal.
	Digest string
	Faults []error // of shape inference: nodes that cannot be computed
	// Checkpoint is what the graph was made of; nil for ONNX.
	Checkpoint *checkpoint.Model
	Lite       bool     // the graph was made of a .tflite file
	beside     []string // files that the model was read from besides Path
}

// Files are all that the model was read from: its own, and those with its weights.
func (m *Model) Files() []string {
	list := append([]string{m.Path}, m.beside...)
	for _, l := range m.Locations() {
		list = append(list, filepath.Join(filepath.Dir(m.Path), filepath.FromSlash(l)))
	}
	return list
}

// Close releases the files; nil has none.
func (m *Model) Close() error {
	if m == nil {
		return nil
	}
	err := m.Model.Close()
	if m.Checkpoint != nil {
		err = errors.Join(err, m.Checkpoint.Close())
	}
	return err
}

// OpenModel loads the file at path, or the folder of a checkpoint, infers shapes, and prints the loader's warnings.
func (j *Job) OpenModel(name string) (*Model, error) {
	m, err := j.loadModel(name)
	if err != nil {
		return nil, err
	}
	if err := shard.In(j.Context()).Fact("model", m.Digest); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (j *Job) loadModel(name string) (*Model, error) {
	file, ok := j.Files().Path(name)
	want, kinds := "a network in ONNX, TensorFlow Lite or PNNX, which are read here", []kind.Kind{kind.ONNX, kind.TFLite, kind.PNNX}
	if ok {
		want, kinds = "a model", append(kinds, kind.Checkpoint) // whose tensors are mapped
	}
	if err := j.Check(name, want, kinds...); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if err := errors.Join(graph.CheckOperators(j.Catalog.Operators), observers.Check(j.Catalog.Observers)); err != nil {
		return nil, fault.Usagef("catalog: %w", err)
	}
	if ok && checkpoint.Is(file) {
		return j.openCheckpoint(name)
	}
	open := j.readModel
	head, err := readHead(j.Files(), name)
	if err == io.EOF && filepath.Ext(name) != ".onnx" {
		return nil, &fault.FileError{Stage: "load", File: name, Err: errors.New("the file is empty")}
	}
	if err == nil {
		switch kind.OfBytes(head, int64(len(head))) {
		case kind.TFLite:
			return j.openTFLite(name)
		case kind.PNNX:
			return j.openPNNX(name)
		}
	}
	if ok {
		open = func(string) (*onnx.Model, []graph.Warning, error) { return onnx.Open(file) }
	}
	m, warnings, err := open(name)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		j.Warn("%s: %s", name, w)
	}
	if err := m.Graph.Adopt(j.Catalog.Operators); err != nil {
		m.Close()
		return nil, err
	}
	digest, err := m.DigestContext(j.Context())
	if err != nil {
		m.Close()
		return nil, &fault.FileError{Stage: "load", File: name, Err: err}
	}
	return j.inferred(&Model{Model: m, Loaded: m.Graph, Path: name, Digest: digest}), nil
}

// readHead reads the first bytes of a file.
func readHead(s store.Store, name string) ([]byte, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 8)
	n, err := io.ReadFull(f, head)
	return head[:n], err
}

// openTFLite makes the graph of a TensorFlow Lite model. Its digest is that of the file.
func (j *Job) openTFLite(name string) (*Model, error) {
	b, err := fs.ReadFile(j.Files(), name)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	fail := func(err error) (*Model, error) { return nil, &fault.FileError{Stage: "load", File: name, Err: err} }
	m, err := tflite.Read(b)
	if err != nil {
		return fail(err)
	}
	g, warnings, err := lift.Graph(m)
	if err != nil {
		return fail(err)
	}
	for _, w := range warnings {
		j.Warn("%s: %s", name, w)
	}
	if err := g.Adopt(j.Catalog.Operators); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return j.inferred(&Model{Model: &onnx.Model{Graph: g}, Loaded: g, Path: name, Digest: hex.EncodeToString(sum[:]), Lite: true}), nil
}

// openPNNX makes the graph of a model of PNNX, whose weights stand beside it: X.param and X.bin. Its digest is that of both.
func (j *Job) openPNNX(name string) (*Model, error) {
	fail := func(err error) (*Model, error) { return nil, &fault.FileError{Stage: "load", File: name, Err: err} }
	text, err := fs.ReadFile(j.Files(), name)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	base, ok := strings.CutSuffix(name, ".param")
	if !ok || !pnnx.Is(text) {
		if ok && bytes.HasPrefix(text, []byte(pnnx.Magic+"\n")) {
			return fail(errors.New("a network of ncnn, which qwb writes and does not read: take the model or the plan that it was made of"))
		}
		return fail(errors.New("not a model of PNNX: those are called X.param and have a pnnx.Input"))
	}
	weights, err := fs.ReadFile(j.Files(), base+".bin")
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	g, err := pnnx.Read(text, bytes.NewReader(weights), int64(len(weights)))
	if err != nil {
		return fail(err)
	}
	if err := g.Adopt(j.Catalog.Operators); err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write(text) // no error: see package hash
	h.Write(weights)
	return j.inferred(&Model{Model: &onnx.Model{Graph: g}, Loaded: g, Path: name, Digest: hex.EncodeToString(h.Sum(nil)),
		beside: []string{base + ".bin"}}), nil
}

// readModel reads a model that is no file of the operating system.
func (j *Job) readModel(name string) (*onnx.Model, []graph.Warning, error) {
	r, size, end, err := store.ReadAt(j.Files(), name)
	if err != nil {
		return nil, nil, fmt.Errorf("load: %w", err)
	}
	defer end()
	m, warnings, err := onnx.Read(r, size, beside{j.Files(), path.Dir(filepath.ToSlash(name))})
	if err != nil {
		return nil, nil, &fault.FileError{Stage: "load", File: name, Err: err}
	}
	return m, warnings, nil
}

// beside finds files of weights in the folder of a model.
type beside struct {
	store  store.Store
	folder string
}

func (b beside) External(location string) ([]byte, error) {
	if !filepath.IsLocal(filepath.FromSlash(location)) {
		return nil, fmt.Errorf("%q is not below the folder of the model", location)
	}
	content, err := fs.ReadFile(b.store, path.Join(b.folder, location))
	if store.Missing(err) {
		err = fmt.Errorf("the file is not there, it belongs beside the model: %w", fs.ErrNotExist)
	}
	return content, err
}

// SaveModel writes a model. Weights that do not fit into one message go to a file beside it.
func (j *Job) SaveModel(m *onnx.Model, name string) error {
	if file, ok := j.Files().Path(name); ok {
		return m.Save(file, onnx.SaveOptions{})
	}
	_, err := store.WriteFile(j.Files(), name, m.Write)
	return err
}

// openCheckpoint makes the graph of a language model.
func (j *Job) openCheckpoint(path string) (*Model, error) {
	c, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	for _, w := range c.Warnings {
		j.Warn("%s: %s", path, w)
	}
	g, err := checkpoint.Graph(c)
	var digest string
	if err == nil {
		digest, err = c.Digest(j.Context())
	}
	if err != nil {
		_ = c.Close() // the error that matters is err
		return nil, err
	}
	return j.inferred(&Model{Model: &onnx.Model{Graph: g}, Loaded: g, Path: path, Digest: digest, Checkpoint: c}), nil
}

func (j *Job) inferred(m *Model) *Model {
	m.Faults = graph.InferShapes(m.Graph)
	for _, err := range m.Faults {
		j.Detail("shape inference: %v", err)
	}
	return m
}

// OpenNormal loads a model and brings its graph into the normal form that plans and statistics refer to.
func (j *Job) OpenNormal(path string) (*Model, error) {
	m, err := j.OpenModel(path)
	if err != nil {
		return nil, err
	}
	exec.Stream(j.Context(), m.Loaded, m.Store)
	if err := exec.FitConstants(j.Context(), m.Loaded); err != nil {
		m.Close()
		return nil, &fault.FileError{File: path, Err: err}
	}
	m.Graph = m.Loaded.Clone()
	log, err := passes.Run(j.Context(), m.Graph, passes.Normalize)
	if err == nil {
		err = exec.FitConstants(j.Context(), m.Graph) // what passes made of constants lies in no file
	}
	if err != nil {
		m.Close()
		return nil, &fault.FileError{File: path, Err: err}
	}
	for _, entry := range log.Applied {
		j.Detail("%s", entry)
	}
	for _, entry := range log.Declined {
		j.Detail("declined: %s", entry)
	}
	for _, err := range graph.InferShapes(m.Graph) {
		j.Detail("shape inference: %v", err)
	}
	return m, nil
}

// name adds stage and file to an error that lists operators which cannot be executed.
func (m *Model) Named(stage string, err error) error {
	var missing *exec.UnsupportedError
	if errors.As(err, &missing) {
		return fmt.Errorf("%s: %s: %w", stage, m.Path, missing)
	}
	return err
}

// Unquantized refuses models that another tool, or an export, has quantized already: calibration is about float tensors.
func Unquantized(m *Model) error {
	order, err := m.Graph.Order()
	if err != nil {
		return err
	}
	for _, id := range order {
		if spec := m.Graph.Node(id).Spec(); spec != nil && spec.Kind == graph.KindQuantize {
			return m.Graph.ErrorAt("calibrate: "+m.Path, id,
				errors.New("the model is already quantized: calibrate the original float model, or make a plan from this one with qwb import"))
		}
	}
	return nil
}
