package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/internal/arrange"
)

const (
	folderFormat = "Hugging Face"

	configFile = "config.json"
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
	torchFile  = "pytorch_model.bin"
	torchIndex = "pytorch_model.bin.index.json"
)

func isFolder(path string) bool {
	_, err := os.Stat(filepath.Join(path, configFile))
	return err == nil
}

// folderOf returns the folder of a checkpoint that is named by itself, by its configuration or by one of its files of tensors.
func folderOf(path string) (string, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return "", false
	}
	if info.IsDir() {
		return path, true
	}
	name, folder := filepath.Base(path), filepath.Dir(path)
	if name == configFile || name == indexFile || name == torchIndex || strings.HasSuffix(name, ".safetensors") || isTorch(name) {
		return folder, isFolder(folder)
	}
	return "", false
}

// isTorch reports whether a file of a folder is one of torch.save: pytorch_model.bin, pytorch_model-00001-of-00002.bin.
func isTorch(name string) bool {
	return strings.HasPrefix(name, "pytorch_model") && strings.HasSuffix(name, ".bin")
}

// readFolder reads a checkpoint as Hugging Face lays it out.
func readFolder(m *Model, folder string) error {
	m.Format = folderFormat
	b, err := m.mapFile(filepath.Join(folder, configFile), configFile)
	if err != nil {
		return fmt.Errorf("%s: %w", configFile, err)
	}
	var h *hfConfig
	if m.Config, h, err = parseHFConfig(b); err != nil {
		return fmt.Errorf("%s: %w", configFile, err)
	}
	if m.Context < h.MaxPositions {
		m.warn("texts of up to %d of the %d tokens are computed: longer ones have other factors of rotary frequencies", m.Context, h.MaxPositions)
	}
	q, err := m.quantization(folder, h)
	if err != nil {
		return err
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	}
	var arrays []SafeArray
	switch {
	case exists(singleFile):
		arrays, err = m.readShard(folder, singleFile)
	case exists(indexFile):
		arrays, err = m.readShards(folder, indexFile)
	case exists(torchFile):
		arrays, err = m.readShard(folder, torchFile)
	case exists(torchIndex):
		arrays, err = m.readShards(folder, torchIndex)
	default:
		err = fmt.Errorf("there is none of %s, %s, %s and %s", singleFile, indexFile, torchFile, torchIndex)
	}
	if err != nil {
		return err
	}
	if q != nil {
		arrays = gathered(arrays)
		if what := q.rounds(arrays); what != "" {
			m.warn("engines round %s of this checkpoint too; here they are floats", what)
		}
	}
	if h.Text != nil {
		arrays = m.textArrays(arrays)
	}
	arrange.Stable(m.files, func(a, b source) int { return cmp.Compare(a.name, b.name) })
	if h.Tied == nil && !slices.ContainsFunc(arrays, func(a SafeArray) bool { return hfNames.fixed[a.Name] == Classifier }) {
		m.Tied = true
	}
	return m.addArrays(arrays, q)
}

// quantization is what config.json says about quantized weights, or, in older files of Model Optimizer, another file.
func (m *Model) quantization(folder string, h *hfConfig) (*hfQuantization, error) {
	q, err := h.quantization()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	if _, err := os.Stat(filepath.Join(folder, modelOptFile)); q != nil || err != nil {
		return q, nil
	}
	b, err := m.mapFile(filepath.Join(folder, modelOptFile), modelOptFile)
	if err == nil {
		q, err = parseModelOpt(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", modelOptFile, err)
	}
	return q, nil
}

func (m *Model) readShard(folder, name string) ([]SafeArray, error) {
	b, err := m.mapFile(filepath.Join(folder, name), name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var arrays []SafeArray
	if isTorch(name) {
		arrays, err = ParseTorch(b)
	} else if s, bad := ParseSafetensors(b); bad != nil {
		err = bad
	} else {
		arrays = s.Arrays
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return arrays, nil
}

// safeIndex says which tensor lies in which file.
type safeIndex struct {
	total *float64 // bytes of all tensors
	file  map[string]string
	files []string // sorted
}

func parseSafeIndex(b []byte) (*safeIndex, error) {
	x := &safeIndex{file: map[string]string{}}
	err := eachMember(b, func(name string, value json.RawMessage) error {
		switch name {
		case "metadata":
			var meta struct {
				Total *float64 `json:"total_size"`
			}
			err := json.Unmarshal(value, &meta)
			x.total = meta.Total
			return err
		case "weight_map":
			return eachMember(value, func(tensor string, value json.RawMessage) error {
				var file string
				if err := json.Unmarshal(value, &file); err != nil {
					return err
				}
				if file != filepath.Base(file) || !filepath.IsLocal(file) || strings.ContainsAny(file, `/\`) {
					return fmt.Errorf("tensor %q: %q is no name of a file in this folder", tensor, file)
				}
				x.file[tensor] = file
				x.files = append(x.files, file)
				return nil
			})
		}
		return nil
	})
	slices.Sort(x.files)
	x.files = slices.Compact(x.files)
	if err == nil && len(x.files) == 0 {
		err = errors.New("there is no weight_map")
	}
	return x, err
}

// readShards reads the files of an index. What index and files say must agree; how many bytes all tensors have is
// said of safetensors alone, as torch counts shared ones once.
func (m *Model) readShards(folder, index string) ([]SafeArray, error) {
	b, err := m.mapFile(filepath.Join(folder, index), index)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", index, err)
	}
	x, err := parseSafeIndex(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", index, err)
	}
	var all []SafeArray
	total := 0
	for _, name := range x.files {
		arrays, err := m.readShard(folder, name)
		if err != nil {
			return nil, err
		}
		for _, a := range arrays {
			if at := x.file[a.Name]; at == "" {
				return nil, fmt.Errorf("%s: the index does not list tensor %q", name, a.Name)
			} else if at != name {
				return nil, fmt.Errorf("%s: tensor %q is here, the index says that it is in %s", name, a.Name, at)
			}
			delete(x.file, a.Name)
			total += len(a.Data)
		}
		all = append(all, arrays...)
	}
	missing := make([]string, 0, len(x.file))
	for name := range x.file {
		missing = append(missing, name)
	}
	if len(missing) > 0 {
		name := slices.Min(missing)
		return nil, fmt.Errorf("%s: tensor %q is not in %s", index, name, x.file[name])
	}
	if x.total != nil && index == indexFile && *x.total != float64(total) {
		return nil, fmt.Errorf("%s: total_size is %.0f, the tensors have %d bytes", index, *x.total, total)
	}
	return all, nil
}

// textArrays are the arrays of the part of a model of images and text that text alone needs, under the names of a model of text.
func (m *Model) textArrays(arrays []SafeArray) []SafeArray {
	var text []SafeArray
	for _, a := range arrays {
		name, ok := strings.CutPrefix(a.Name, "language_model.")
		if !ok {
			name, ok = strings.CutPrefix(a.Name, "model.language_model.")
			name = "model." + name
		}
		if a.Name == "lm_head.weight" {
			name, ok = a.Name, true
		}
		if ok {
			a.Name = name
			text = append(text, a)
		}
	}
	if n := len(arrays) - len(text); n > 0 {
		m.warn("%d tensors of the part for images are not used", n)
	}
	return text
}

var safeTypes = map[string]Type{"F32": F32, "F16": F16, "BF16": BF16}

// addArrays gives the arrays their places in the model.
func (m *Model) addArrays(arrays []SafeArray, q *hfQuantization) error {
	for i := range arrays {
		a := &arrays[i]
		if parts := hfNames.parts(&m.Config, a.Name); parts != nil {
			if err := m.addJoined(a, parts, q); err != nil {
				return err
			}
			continue
		}
		p, ok, err := hfNames.find(&m.Config, a.Name)
		if err != nil {
			return err
		}
		if !ok {
			m.leaveOut(&hfNames, a.Name)
			continue
		}
		t := &Tensor{Part: p, Name: a.Name, Rows: 1, data: a.Data}
		switch {
		case a.beside != nil:
			t.Rows, t.Cols = m.Shape(p.Role)
		case len(a.Shape) == 1 && p.Role.Vector():
			t.Cols = a.Shape[0]
		case len(a.Shape) == 2 && a.Shape[0] == 1 && p.Role == SharedRouter:
			t.Cols = a.Shape[1]
		case len(a.Shape) == 2 && !p.Role.Vector():
			t.Rows, t.Cols = a.Shape[0], a.Shape[1]
		default:
			return fmt.Errorf("tensor %q (%s) has the shape %v", a.Name, p, a.Shape)
		}
		if err := t.store(a, q); err != nil {
			return err
		}
		if p.Role == Classifier && m.Tied {
			m.tiedCopy(t, arrays)
			continue
		}
		if err := m.add(t); err != nil {
			return err
		}
	}
	return nil
}

// store says how the elements are stored.
func (t *Tensor) store(a *SafeArray, q *hfQuantization) (err error) {
	if a.beside != nil {
		t.Type = Packed
		t.packing, err = q.packed(a, t.Rows, t.Cols)
		return err
	}
	var ok bool
	if t.Type, ok = safeTypes[a.DType]; !ok {
		return fmt.Errorf("tensor %q is stored as %s; F32, F16 and BF16 are read", a.Name, a.DType)
	}
	return nil
}

// addJoined cuts a matrix into those that stand in it, one below the other.
func (m *Model) addJoined(a *SafeArray, parts []Part, q *hfQuantization) error {
	rows := 0
	for _, p := range parts {
		n, _ := m.Shape(p.Role)
		rows += n
	}
	all := Tensor{Name: a.Name, Rows: rows, Cols: m.Dim, data: a.Data}
	if err := all.store(a, q); err != nil {
		return err
	}
	if a.beside == nil && (len(a.Shape) != 2 || a.Shape[0] != rows || a.Shape[1] != m.Dim) {
		return fmt.Errorf("tensor %q has the shape %v, the configuration says [%d,%d]", a.Name, a.Shape, rows, m.Dim)
	}
	row := 0
	for _, p := range parts {
		t := all
		t.Part = p
		t.Rows, _ = m.Shape(p.Role)
		if t.packing != nil {
			t.packing = t.packing.cut(row, t.Rows, rows)
		} else {
			t.data = t.data[t.Type.bytes(row*t.Cols):][:t.Type.bytes(t.Len())]
		}
		if err := m.add(&t); err != nil {
			return err
		}
		row += t.Rows
	}
	return nil
}

// tiedCopy looks at a classifier in a file whose configuration says that the embedding is it: it is left out, which is said unless it
// is the same.
func (m *Model) tiedCopy(t *Tensor, arrays []SafeArray) {
	for _, a := range arrays {
		if role, ok := hfNames.fixed[a.Name]; ok && role == Embedding && bytes.Equal(a.Data, t.data) {
			return
		}
	}
	m.warn("tensor %q is not used: tie_word_embeddings says that the embedding is the classifier, and the two differ", t.Name)
}

// leaveOut notes a tensor that is not used.
func (m *Model) leaveOut(n *naming, name string) {
	if !n.quiet(name) {
		m.warn("tensor %q is not used", name)
	}
}

func (m *Model) warn(format string, args ...any) {
	m.Warnings = append(m.Warnings, graph.Warning{Text: fmt.Sprintf(format, args...)})
}
