package plan

import (
	"path/filepath"
	"testing"

	"qwb/internal/file"
	"qwb/internal/filetest"
)

// TestPlanAndItsCopyAreAllOrNone: the copy of a plan is not lost where the new plan cannot get its name.
func TestPlanAndItsCopyAreAllOrNone(t *testing.T) {
	before := map[string]string{"p.json": "plan", "p.json.bak": "older plan"}
	after := map[string]string{"p.json": "new plan", "p.json.bak": "plan"}
	filetest.AllOrNone(t, before, after, func(dir string, n file.Names) error {
		path := filepath.Join(dir, "p.json")
		return writeBoth(path, []byte("new plan"), []byte("plan"), true, n)
	})
}
