package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"qwb/graph/tensor"
)

// openNumbered reads K.npy with K counting from 0, and names.json, which gives the name of each K.
func openNumbered(fsys fs.FS, dir, _ string) (*Recording, error) {
	list := filepath.Join(dir, "names.json")
	b, err := fs.ReadFile(fsys, list)
	if err != nil {
		return nil, err
	}
	var names map[string]string
	if err := json.Unmarshal(b, &names); err != nil {
		return nil, fmt.Errorf("%s: not an object of file numbers and tensor names: %w", list, err)
	}
	r := empty()
	for k, name := range names {
		if n, err := strconv.Atoi(k); err != nil || n < 0 || strconv.Itoa(n) != k {
			return nil, fmt.Errorf("%s: %q is not the number of a file", list, k)
		}
		file := filepath.Join(dir, k+".npy")
		read := of(fsys, file, array)
		if !r.add(name, func() (*tensor.Tensor, error) {
			t, err := read()
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("%s is missing; names.json lists it as tensor %q", file, name)
			}
			return t, err
		}) {
			return nil, fmt.Errorf("%s: tensor %q is listed for two files", list, name)
		}
	}
	return r, nil
}
