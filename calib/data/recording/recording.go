// Package recording reads what an engine or a board computed for one input, tensors by name, from the files that engines and their tools
// write.
//
// Unstable: it may change without notice.
package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"qwb/calib/data/npy"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

// Recording is a set of recorded tensors. What it was read from stays unread until a tensor is asked for.
type Recording struct {
	// Form is the Name of the form that it was read as.
	Form  string
	names []string // sorted
	read  map[string]func() (*tensor.Tensor, error)
	// file, if not nil, is what a tensor is called in a folder whose files are named after tensors.
	file func(name string) string
	// of says which tensor a file was read as, where its name is not the tensor's: two tensors may have names that are one file's.
	mu sync.Mutex
	of map[string]string
}

// Form is one way to write a recording.
type Form struct {
	Name, Doc string
	// is says by its name, or by the names in it if it is a folder, whether something is of this form.
	is func(name string, folder []string) bool
	// open reads it. part is what was asked for of a file that holds several recordings; empty: its only one.
	open func(fsys fs.FS, name, part string) (*Recording, error)
}

// Forms lists the forms, in the order in which they are tried.
func Forms() []Form {
	return []Form{
		{"npy", "folder with K.npy for K from 0, and names.json, an object with the name of each K", holds("names.json"), openNumbered},
		{"npz", "NumPy archive with an array for each tensor, as qwb run --all writes it", ends(".npz"), openArchive},
		{"json", "JSON of polygraphy (--save-outputs, --save-inputs; FILE#RUNNER of several runners) or trtexec (--exportOutput)",
			ends(".json"), openJSON},
		{"onnx", "folder of TensorProto files (.pb, .tensorproto), as ONNX Runtime's dump of nodes and ONNX test data have them",
			holds(".pb", ".tensorproto"), openProtos},
		{"ncnn", "folder of NAME.txt with what ncnn's pretty_print printed of blob NAME", holds(".txt"), openPrinted},
		{"files", "folder of NAME.npy, where characters that files cannot have are underscores", holds(".npy"), openNamed},
	}
}

// ends is a file's ending.
func ends(ext string) func(string, []string) bool {
	return func(name string, folder []string) bool {
		return folder == nil && strings.EqualFold(filepath.Ext(name), ext)
	}
}

// holds is a folder with a file of one of these endings.
func holds(ext ...string) func(string, []string) bool {
	return func(_ string, folder []string) bool {
		return slices.ContainsFunc(folder, func(f string) bool {
			return slices.ContainsFunc(ext, func(e string) bool { return strings.HasSuffix(f, e) })
		})
	}
}

// Open reads the recording at name: a file, a folder, or FILE#PART. Errors name the file.
func Open(fsys fs.FS, name string) (*Recording, error) {
	part := ""
	info, err := fs.Stat(fsys, name)
	if at := strings.LastIndexByte(name, '#'); errors.Is(err, fs.ErrNotExist) && at >= 0 {
		name, part = name[:at], name[at+1:]
		info, err = fs.Stat(fsys, name)
	}
	if err != nil {
		return nil, err
	}
	var folder []string
	if info.IsDir() {
		list, err := fs.ReadDir(fsys, name)
		if err != nil {
			return nil, err
		}
		folder = []string{}
		for _, e := range list {
			if !e.IsDir() {
				folder = append(folder, e.Name())
			}
		}
	}
	if name, folder, err = archiveIn(name, folder); err != nil {
		return nil, err
	}
	for _, f := range Forms() {
		if f.is(name, folder) {
			r, err := f.open(fsys, name, part)
			if err != nil {
				return nil, err
			}
			r.Form = f.Name
			return r, nil
		}
	}
	if folder != nil {
		return nil, fmt.Errorf("%s: no recorded tensors: neither names.json nor a file .npy, .pb, .tensorproto or .txt is in it", name)
	}
	return nil, fmt.Errorf("%s: no recorded tensors: a folder, .npz or .json", name)
}

// archiveIn is the archive in a folder that holds nothing else, as qwb run --all writes one for each sample of its data. A recording is of
// one sample.
func archiveIn(name string, folder []string) (string, []string, error) {
	isArchive := ends(".npz")
	if len(folder) == 0 || slices.ContainsFunc(folder, func(f string) bool { return !isArchive(f, nil) }) {
		return name, folder, nil
	}
	if len(folder) > 1 {
		return "", nil, fmt.Errorf("%s: recordings of %d samples: name the one of the sample that is compared, for example %s", name, len(folder),
			path.Join(filepath.ToSlash(name), folder[0]))
	}
	return filepath.Join(name, folder[0]), nil, nil
}

// Join makes one recording of several: of a tensor that stands in more than one, the first counts.
func Join(list ...*Recording) *Recording {
	if len(list) == 1 {
		return list[0]
	}
	out := empty()
	for _, r := range list {
		for _, n := range r.names {
			if out.read[n] == nil {
				out.add(n, r.read[n])
			}
		}
		if r.file != nil {
			out.file = r.file
		}
	}
	return out
}

func empty() *Recording {
	return &Recording{read: map[string]func() (*tensor.Tensor, error){}, of: map[string]string{}}
}

// add adds a tensor; false if one of this name is there.
func (r *Recording) add(name string, read func() (*tensor.Tensor, error)) bool {
	if r.read[name] != nil {
		return false
	}
	r.read[name] = read
	at, _ := slices.BinarySearch(r.names, name)
	r.names = slices.Insert(r.names, at, name)
	return true
}

// Names returns the names of all tensors, sorted; of files named after tensors, those of the files.
func (r *Recording) Names() []string { return r.names }

// Tensor returns the tensor of a name, nil where it was not recorded. Of files that are named after tensors, one that was returned under
// another name before is an error: it is not known which of the two it is.
func (r *Recording) Tensor(name string) (*tensor.Tensor, error) {
	key := name
	if r.read[key] == nil && r.file != nil {
		key = r.file(name)
	}
	read := r.read[key]
	if read == nil {
		return nil, nil
	}
	if r.file != nil && r.file(name) == key {
		r.mu.Lock()
		first, again := r.of[key]
		if !again {
			r.of[key] = name
		}
		r.mu.Unlock()
		if again && first != name {
			return nil, fmt.Errorf("recorded file %q may be tensor %q or %q: rename one of them, or record with names.json or as .npz",
				key, first, name)
		}
	}
	return read()
}

// mangled is the name of a file for a tensor: what file systems refuse, and what tools replace with it, is an underscore.
func mangled(name string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, c) {
			return '_'
		}
		return c
	}, name)
}

// of reads a tensor from a file.
func of(fsys fs.FS, file string, decode func([]byte) (*tensor.Tensor, error)) func() (*tensor.Tensor, error) {
	return func() (*tensor.Tensor, error) {
		b, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		t, err := decode(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return t, nil
	}
}

func array(b []byte) (*tensor.Tensor, error) { return npy.Read(bytes.NewReader(b)) }

func openArchive(fsys fs.FS, name, _ string) (*Recording, error) {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	a, err := npy.OpenArchive(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := empty()
	for _, n := range a.Names() {
		r.add(n, func() (*tensor.Tensor, error) {
			t, err := a.Read(n)
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return t, err
		})
	}
	return r, nil
}

// files adds every file of a folder that has one of the endings.
func files(fsys fs.FS, dir string, decode func([]byte) (*tensor.Tensor, error), ext ...string) (*Recording, error) {
	list, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	r := empty()
	r.file = mangled
	for _, e := range list {
		for _, x := range ext {
			if name, ok := strings.CutSuffix(e.Name(), x); ok && !e.IsDir() && !r.add(name, of(fsys, filepath.Join(dir, e.Name()), decode)) {
				return nil, fmt.Errorf("%s: two files of tensor %q", dir, name)
			}
		}
	}
	return r, nil
}

func openNamed(fsys fs.FS, dir, _ string) (*Recording, error) {
	return files(fsys, dir, array, ".npy")
}

// openProtos reads TensorProtos. Those that have a name in them are known by it, others by that of their file.
func openProtos(fsys fs.FS, dir, _ string) (*Recording, error) {
	list, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	r := empty()
	r.file = mangled
	for _, e := range list {
		ext := path.Ext(e.Name())
		if e.IsDir() || ext != ".pb" && ext != ".tensorproto" {
			continue
		}
		file := filepath.Join(dir, e.Name())
		b, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		name, t, err := onnx.ReadTensor(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if name == "" {
			name = strings.TrimSuffix(e.Name(), ext)
		}
		if !r.add(name, func() (*tensor.Tensor, error) { return t, nil }) {
			return nil, fmt.Errorf("%s: tensor %q is in two files", dir, name)
		}
	}
	return r, nil
}
