package file

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Temporary makes a folder of a new name that begins with prefix, for what a run keeps for itself; done removes it. A run that was killed
// could not: what such runs have left in dir under the same prefix is removed first. A lock of the system says who still lives, so that
// this holds for all processes and machines that use the folder.
func Temporary(dir, prefix string) (folder string, done func(), err error) {
	if _, before := tidied.LoadOrStore([2]string{dir, prefix}, true); !before { // once is enough
		Leftovers(dir, prefix)
	}
	for {
		if folder, err = os.MkdirTemp(dir, prefix+"*"); err != nil {
			return "", nil, err
		}
		f, err := os.Open(folder)
		if err != nil {
			continue // somebody took it for a leftover
		}
		lock := TryLock(f)
		if _, err := os.Lstat(folder); lock != Busy && err == nil {
			return folder, func() {
				os.RemoveAll(folder) // it is temporary; there is nothing else to do
				f.Close()
			}, nil
		}
		f.Close()
	}
}

// tidied are the folders that leftovers were looked for in.
var tidied sync.Map

// Leftovers removes what killed runs have left in a folder under names that begin with prefix. kept are those that it leaves: they hold
// what files had in them before a run was killed as it gave them new content (Together), which may be the only copy.
func Leftovers(dir, prefix string) (removed, kept []string) {
	entries, _ := os.ReadDir(dir) // what cannot be listed has none
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || !e.IsDir() || !isNumber(number) {
			continue
		}
		at := filepath.Join(dir, e.Name())
		f, err := os.Open(at)
		if err != nil {
			continue
		}
		switch dead := TryLock(f) == Held; {
		case !dead:
		case holdsOld(at):
			kept = append(kept, at)
		case os.RemoveAll(at) == nil:
			removed = append(removed, at)
		}
		f.Close()
	}
	return removed, kept
}

func isNumber(name string) bool { return name != "" && strings.Trim(name, "0123456789") == "" }

// holdsOld reports whether a stage has put what files held before into its folder.
func holdsOld(folder string) bool {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if isNumber(e.Name()) {
			return true
		}
	}
	return err != nil
}
