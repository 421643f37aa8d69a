package open

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"unicode"

	"qwb/export"
	"qwb/internal/kind"
	"qwb/internal/work/store"
	"qwb/quantizer/plan"
)

// Output is where a format writes: beside its name in the file system, or in a store that has no names there.
func (j *Job) Output(f *export.Format, name string) *export.Output {
	if path, ok := j.Files().Path(name); ok {
		return f.NewOutput(path, nil).In(j.Context())
	}
	return f.NewOutput(name, j.Files().Stage()).In(j.Context())
}

// ReadPlan reads a plan and returns the SHA-256 of its file.
func (j *Job) ReadPlan(name string) (*plan.Plan, string, error) {
	b, err := store.ReadFile(j.Files(), name, plan.MaxBytes)
	if err != nil {
		return nil, "", fmt.Errorf("plan: %w", err)
	}
	p, err := plan.Parse(name, b)
	if err == nil && name == j.Plan {
		j.Seen = p
	}
	return p, store.Sum(b), err
}

// maxFileName is how many bytes of a tensor's name become part of a file's: file systems take 255, with what is put before and behind.
const maxFileName = 200

// FileName turns the name of a tensor into the name of a file. Of a name that is too long the start stays, with a part of its SHA-256.
func FileName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
	if len(safe) <= maxFileName {
		return safe
	}
	sum := sha256.Sum256([]byte(name))
	mark := "-" + hex.EncodeToString(sum[:8])
	return strings.ToValidUTF8(safe[:maxFileName-len(mark)], "") + mark
}

// Files is the project's store.
func (p *Project) Files() store.Store {
	if p.Store == nil {
		return store.OS{}
	}
	return p.Store
}

// Files is the project's store, as long as the job is wanted.
func (j *Job) Files() store.Store { return store.In(j.Context(), j.Project.Files()) }

// Path is a file of the operating system, which is all that what may be.
func (j *Job) Path(name, what string) (string, error) {
	if p, ok := j.Files().Path(name); ok {
		return p, nil
	}
	if _, err := fs.Stat(j.Files(), name); err != nil { // which says more: it is not there, or none that the store has
		return "", err
	}
	return "", fmt.Errorf("%s: %s can only be a file of the operating system", name, what)
}

// Readable refuses files that the store does not have; empty names are none. It is for what is read by the system's own path.
func (j *Job) Readable(names ...string) error {
	for _, name := range names {
		if name != "" {
			if _, err := j.Path(name, "it"); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check says what a file is that is not what is needed.
func (j *Job) Check(name, want string, kinds ...kind.Kind) error {
	if p, ok := j.Files().Path(name); ok {
		return kind.Check(p, want, kinds...)
	}
	if f, err := j.Files().Open(name); err == nil {
		defer f.Close()
		return kind.CheckFile(f, name, want, kinds...)
	}
	return nil
}

// SameFile reports whether two names are one file that exists.
func (j *Job) SameFile(a, b string) bool {
	x, errA := fs.Stat(j.Files(), a)
	y, errB := fs.Stat(j.Files(), b)
	return errA == nil && errB == nil && store.SameInfo(x, y)
}
